package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"k8s.io/client-go/rest"
)

// An apiCall is one call to an API server. It leaves no connection open, so that a test
// finds no goroutine of it.
type apiCall struct {
	method, path string
	body         io.Reader
}

// get reads one object from the API server into into, unless that is nil.
func get(ctx context.Context, c *rest.Config, path string, into any) error {
	return apiCall{method: http.MethodGet, path: path}.do(ctx, c, into)
}

func (a apiCall) do(ctx context.Context, c *rest.Config, into any) error {
	ca, err := os.ReadFile(c.CAFile)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	req, err := http.NewRequestWithContext(ctx, a.method, c.Host+a.path, a.body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.BearerToken)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: %s: %s", a.method, a.path, resp.Status, data)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(data, into)
}
