// Package pki makes the keys, certificates and tokens of one cluster. They are made once:
// what is on disk is used again.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// lifetime is that of every certificate; a lab lives for hours.
const lifetime = 365 * 24 * time.Hour

// Files are the paths in the folder of one cluster.
type Files struct{ Dir string }

// CA is the certificate that signed all others.
func (f Files) CA() string { return filepath.Join(f.Dir, "ca.crt") }

// Cert is the certificate called name.
func (f Files) Cert(name string) string { return filepath.Join(f.Dir, name+".crt") }

// Key is the private key called name.
func (f Files) Key(name string) string { return filepath.Join(f.Dir, name+".key") }

// The certificates and keys in the folder.
const (
	APIServer      = "apiserver"      // serves the API
	KubeletClient  = "kubelet-client" // the API server's towards the kubelets
	ServiceAccount = "sa"             // signs service account tokens; a key only
)

// Make writes all files for a server that is reached under ips and names at the time now.
func Make(dir string, ips []net.IP, names []string, now time.Time) (Files, error) {
	f := Files{Dir: dir}
	if _, err := os.Stat(f.Key(ServiceAccount)); err == nil { // the last one that is written
		return f, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return f, err
	}
	caKey, err := f.key("ca")
	if err != nil {
		return f, err
	}
	ca := template("pitstop-lab-ca", now)
	ca.IsCA, ca.BasicConstraintsValid = true, true
	ca.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	if err := f.sign("ca", ca, ca, caKey, caKey); err != nil {
		return f, err
	}
	server := template("kube-apiserver", now)
	server.IPAddresses, server.DNSNames = ips, names
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	client := template("kube-apiserver-kubelet-client", now)
	client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	for name, t := range map[string]*x509.Certificate{APIServer: server, KubeletClient: client} {
		key, err := f.key(name)
		if err != nil {
			return f, err
		}
		if err := f.sign(name, t, ca, key, caKey); err != nil {
			return f, err
		}
	}
	_, err = f.key(ServiceAccount)
	return f, err
}

func template(name string, now time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(random(8)),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour), // clocks may differ
		NotAfter:     now.Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func (f Files) sign(name string, t, parent *x509.Certificate, key, parentKey crypto.Signer) error {
	der, err := x509.CreateCertificate(rand.Reader, t, parent, key.Public(), parentKey)
	if err != nil {
		return fmt.Errorf("sign certificate %s: %w", name, err)
	}
	return os.WriteFile(f.Cert(name), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
}

func (f Files) key(name string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, os.WriteFile(f.Key(name), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

// Token returns a new secret of 128 bits.
func Token() string { return hex.EncodeToString(random(16)) }

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails, by its documentation
	return b
}
