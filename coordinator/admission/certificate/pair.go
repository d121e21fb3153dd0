package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

// A Pair is a serving certificate with its key, and the authority that signed this one certificate:
// the authority's own key was never stored.
type Pair struct {
	// Authority, Cert and Key are PEM.
	Authority, Cert, Key []byte
	// leaf and serving are what Cert and Key say.
	leaf    *x509.Certificate
	serving *tls.Certificate
}

// skew is by how much clocks of API servers may be behind ours.
const skew = time.Hour

// newPair makes a Pair for the names, valid from now on.
func newPair(names []string, now time.Time, validity time.Duration) (*Pair, error) {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	authority := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "pitstop-webhook-ca"},
		NotBefore: now.Add(-skew), NotAfter: now.Add(validity),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	leaf := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	// The signer's key identifier tells authorities of one name apart.
	if authority, err = x509.ParseCertificate(authorityDER); err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, authority, key.Public(), authorityKey)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return parsePair(encode("CERTIFICATE", authorityDER), encode("CERTIFICATE", leafDER), encode("PRIVATE KEY", keyDER))
}

func serial() *big.Int {
	b := make([]byte, 16)
	rand.Read(b)
	return new(big.Int).SetBytes(b)
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// parsePair returns an error for anything that could not be served and verified, dates apart.
func parsePair(authority, cert, key []byte) (*Pair, error) {
	serving, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("serving certificate: %w", err)
	}
	authority, err = authorities(authority)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	_, err = serving.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: serving.Leaf.NotAfter.Add(-time.Second)})
	if err != nil {
		return nil, fmt.Errorf("serving certificate: %w", err)
	}
	return &Pair{Authority: authority, Cert: cert, Key: key, leaf: serving.Leaf, serving: &serving}, nil
}

// authorities returns the certificates of a bundle and nothing else, as an API server wants it.
func authorities(bundle []byte) ([]byte, error) {
	if len(bundle) == 0 {
		return nil, errors.New("authority: no certificate")
	}
	certs, err := certutil.ParseCertsPEM(bundle)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	clean, err := certutil.EncodeCertificates(certs...)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	return clean, nil
}

// usable reports whether an API server that knows the authority would take p for the names.
func (p *Pair) usable(names []string, now time.Time) bool {
	if p == nil || now.Before(p.leaf.NotBefore) || now.After(p.leaf.NotAfter) {
		return false
	}
	return !slices.ContainsFunc(names, func(n string) bool { return p.leaf.VerifyHostname(n) != nil })
}

// due is when a successor is to be made: when a third of its time is left.
func (p *Pair) due() time.Time {
	return p.leaf.NotAfter.Add(-p.leaf.NotAfter.Sub(p.leaf.NotBefore) / 3)
}
