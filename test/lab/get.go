package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"time"

	"k8s.io/client-go/rest"
)

// get reads one object from the API server into into, unless that is nil. It leaves no
// connection open, so that a test finds no goroutine of it.
func get(ctx context.Context, c *rest.Config, path string, into any) error {
	ca, err := os.ReadFile(c.CAFile)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Host+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.BearerToken)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return statusError{path: path, body: string(data), code: resp.StatusCode}
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(data, into)
}
