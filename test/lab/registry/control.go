package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// A Control is a client of one Server's control socket.
type Control struct {
	// Address is the registry's host:port, the first part of its image references.
	Address string
	socket  string
}

// NewControl returns a client for the server whose registry is at address and whose
// control socket is at the path socket.
func NewControl(address, socket string) *Control { return &Control{Address: address, socket: socket} }

// Ref returns the full reference of an image, such as 127.0.0.1:5000/engine:v1 for engine:v1.
func (c *Control) Ref(image string) string { return c.Address + "/" + image }

// Stop makes the registry refuse connections; its images stay.
func (c *Control) Stop(ctx context.Context) error {
	return c.Change(ctx, func(s *Settings) { s.Stopped = true })
}

// Start makes a stopped registry serve again.
func (c *Control) Start(ctx context.Context) error {
	return c.Change(ctx, func(s *Settings) { s.Stopped = false })
}

// Throttle limits what the registry sends, over all connections; 0 lifts the limit.
func (c *Control) Throttle(ctx context.Context, bytesPerSecond int64) error {
	return c.Change(ctx, func(s *Settings) { s.BytesPerSecond = bytesPerSecond })
}

// Login makes the registry ask every client for these credentials; Logout lifts it.
func (c *Control) Login(ctx context.Context, auth authn.Basic) error {
	return c.Change(ctx, func(s *Settings) { s.Username, s.Password = auth.Username, auth.Password })
}

// Logout makes the registry serve clients without credentials.
func (c *Control) Logout(ctx context.Context) error { return c.Login(ctx, authn.Basic{}) }

// Change applies edit to the settings in force. Two changes at once may undo each other.
func (c *Control) Change(ctx context.Context, edit func(*Settings)) error {
	s, err := c.Settings(ctx)
	if err != nil {
		return err
	}
	edit(&s)
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = c.do(ctx, http.MethodPut, bytes.NewReader(data))
	return err
}

// Settings returns what is in force.
func (c *Control) Settings(ctx context.Context) (Settings, error) {
	var s Settings
	data, err := c.do(ctx, http.MethodGet, nil)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(data, &s)
}

func (c *Control) do(ctx context.Context, method string, body io.Reader) ([]byte, error) {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", c.socket)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, "http://registry/settings", body)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, fmt.Errorf("control registry %s: %w", c.Address, err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("control registry %s: %s", c.Address, strings.TrimSpace(string(data)))
	}
	return data, nil
}

// Push stores img under ref, which is a full reference or one without the registry's
// address. It uses the credentials that the registry asks for.
func (c *Control) Push(ctx context.Context, ref string, img v1.Image) error {
	return c.push(ctx, ref, func(r name.Reference, o ...remote.Option) error { return remote.Write(r, img, o...) })
}

// PushIndex stores an image of several platforms, as Push does.
func (c *Control) PushIndex(ctx context.Context, ref string, index v1.ImageIndex) error {
	return c.push(ctx, ref, func(r name.Reference, o ...remote.Option) error { return remote.WriteIndex(r, index, o...) })
}

func (c *Control) push(ctx context.Context, ref string, write func(name.Reference, ...remote.Option) error) error {
	if !strings.HasPrefix(ref, c.Address+"/") {
		ref = c.Ref(ref)
	}
	parsed, err := name.ParseReference(ref, name.Insecure)
	if err != nil {
		return err
	}
	s, err := c.Settings(ctx)
	if err != nil {
		return err
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	options := []remote.Option{remote.WithContext(ctx), remote.WithTransport(transport)}
	if s.Username != "" {
		options = append(options, remote.WithAuth(&authn.Basic{Username: s.Username, Password: s.Password}))
	}
	if err := write(parsed, options...); err != nil {
		return fmt.Errorf("push %s: %w", ref, err)
	}
	return nil
}
