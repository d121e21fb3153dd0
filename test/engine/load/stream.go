package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"pitstop.dev/test/engine/server"
)

// transport dials permitted destinations only. It never retries: without keep-alive there is no
// used connection on which net/http would, and with it every request carries a body.
func transport(c Config) *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second, Control: permit}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		DisableKeepAlives:   !c.KeepAlive,
		MaxIdleConnsPerHost: c.Clients,
	}
}

func permit(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	ip := to.Addr().Unmap()
	if ip.IsLoopback() || netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18}), 16).Contains(ip) {
		return nil
	}
	return fmt.Errorf("%s: %w", ip, ErrForeign)
}

// stream sends one request and reads it to its end marker.
func (l *Load) stream(ctx context.Context) (server.Chunk, error) {
	// A body that cannot be rewound keeps net/http from sending a request a second time.
	body := io.MultiReader(strings.NewReader(`{"stream": true}`))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, body)
	if err != nil {
		return server.Chunk{}, err
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return server.Chunk{}, err
	}
	defer func() { _ = resp.Body.Close() }() // all that was of use is read
	if resp.StatusCode != http.StatusOK {
		return server.Chunk{}, fmt.Errorf("%w %s", errStatus, resp.Status)
	}
	got, err := readStream(resp.Body)
	if err != nil {
		return got, fmt.Errorf("after %d of %d chunks from version %s, start %s: %w",
			got.Index+1, got.Of, got.Version, got.Start, err)
	}
	return got, nil
}

// readStream returns the last chunk of a stream that is whole: every chunk in its turn, all from
// one start, then the end marker and nothing after it.
func readStream(r io.Reader) (server.Chunk, error) {
	last := server.Chunk{Index: -1}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == server.Done {
			return last, end(lines, last)
		}
		next := last
		if err := json.Unmarshal([]byte(data), &next); err != nil {
			return last, fmt.Errorf("chunk %q: %w", data, err)
		}
		if next.Index != last.Index+1 || last.Index >= 0 && next.Start != last.Start {
			return last, errMixed
		}
		last = next
	}
	if err := lines.Err(); err != nil {
		return last, err
	}
	return last, io.ErrUnexpectedEOF
}

// end reads on to the end of the body, so that the connection can be used again.
func end(lines *bufio.Scanner, last server.Chunk) error {
	if last.Index+1 != last.Of {
		return errMixed
	}
	for lines.Scan() {
		if lines.Text() != "" {
			return errors.Join(errMixed, fmt.Errorf("%q after the end", lines.Text()))
		}
	}
	return lines.Err()
}
