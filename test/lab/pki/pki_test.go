package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"testing"
	"time"
)

func TestMake(t *testing.T) {
	now := time.Unix(2_000_000_000, 0)
	dir := t.TempDir()
	ips := []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP("198.18.128.1")}
	f, err := Make(dir, ips, []string{"kubernetes"}, now)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(f.CA())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	for name, tt := range map[string]struct {
		cert string
		opts x509.VerifyOptions
	}{
		"the server is known by its service address": {APIServer, x509.VerifyOptions{DNSName: "198.18.128.1"}},
		"the server is known by its name":            {APIServer, x509.VerifyOptions{DNSName: "kubernetes"}},
		"the client is one": {
			KubeletClient,
			x509.VerifyOptions{KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pair, err := tls.LoadX509KeyPair(f.Cert(tt.cert), f.Key(tt.cert))
			if err != nil {
				t.Fatal(err)
			}
			tt.opts.Roots, tt.opts.CurrentTime = roots, now
			if _, err := pair.Leaf.Verify(tt.opts); err != nil {
				t.Error(err)
			}
			tt.opts.Roots = x509.NewCertPool()
			if _, err := pair.Leaf.Verify(tt.opts); err == nil {
				t.Error("verified without its authority")
			}
		})
	}
	if _, err := Make(dir, ips, nil, now); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(f.CA()); err != nil || string(again) != string(ca) {
		t.Errorf("made anew: %v", err)
	}
}

func TestTokensDiffer(t *testing.T) {
	if a, b := Token(), Token(); a == b || len(a) != 32 {
		t.Errorf("tokens %q and %q", a, b)
	}
}
