package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// NameServer is where Names answers: the address of this machine that all Pods of the lab have as
// their gateway.
const NameServer = "198.18.0.1"

// Names is the DNS of the lab's cluster, as far as ModelServings need one: the Pods of a headless
// Service by hostname. An endpoint that is not ready has no name, as in any cluster.
type Names struct {
	cluster *Cluster
	conn    net.PacketConn
	end     context.CancelFunc
	done    sync.WaitGroup

	mu    sync.Mutex
	found map[string]int
}

// ServeNames answers until Close. Pods of the lab must run already, or there is no gateway.
func (c *Cluster) ServeNames(ctx context.Context) (*Names, error) {
	conn, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp4", net.JoinHostPort(NameServer, "53"))
	if err != nil {
		return nil, fmt.Errorf("serve names: %w", err)
	}
	n := &Names{cluster: c, conn: conn, found: map[string]int{}}
	ctx, n.end = context.WithCancel(context.WithoutCancel(ctx))
	n.done.Go(func() { n.serve(ctx) })
	return n, nil
}

// Close ends the answers.
func (n *Names) Close() error {
	n.end()
	err := n.conn.Close()
	n.done.Wait()
	return err
}

// Found is how often a name was asked for and led somewhere.
func (n *Names) Found(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.found[name+"."]
}

func (n *Names) serve(ctx context.Context) {
	buf := make([]byte, 512)
	for {
		size, from, err := n.conn.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		reply, err := n.reply(ctx, buf[:size])
		if err != nil {
			continue // what is no query gets no answer
		}
		_, _ = n.conn.WriteTo(reply, from) // who asked asks again
	}
}

// reply is the answer to one query, of which only the first question counts.
func (n *Names) reply(ctx context.Context, query []byte) ([]byte, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil {
		return nil, err
	}
	q, err := parser.Question()
	if err != nil {
		return nil, err
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true, RecursionDesired: header.RecursionDesired},
		Questions: []dnsmessage.Question{q},
	}
	addresses := n.lookup(ctx, q.Name.String())
	if len(addresses) == 0 {
		m.RCode = dnsmessage.RCodeNameError
	} else if q.Type == dnsmessage.TypeA {
		n.mu.Lock()
		n.found[q.Name.String()]++
		n.mu.Unlock()
	}
	for _, a := range addresses {
		if q.Type == dnsmessage.TypeA && a.Is4() {
			head := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: a.As4()}})
		}
	}
	return m.Pack()
}

// lookup are the addresses of `<hostname>.<service>.<namespace>.`.
func (n *Names) lookup(ctx context.Context, name string) []netip.Addr {
	part := strings.Split(strings.TrimSuffix(name, "."), ".")
	if len(part) != 3 {
		return nil
	}
	list, err := n.cluster.Core.DiscoveryV1().EndpointSlices(part[2]).List(ctx,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + part[1]})
	if err != nil {
		return nil
	}
	var found []netip.Addr
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			if ptr.Deref(e.Hostname, "") != part[0] || !ptr.Deref(e.Conditions.Ready, true) {
				continue
			}
			for _, text := range e.Addresses {
				if a, err := netip.ParseAddr(text); err == nil {
					found = append(found, a)
				}
			}
		}
	}
	return found
}
