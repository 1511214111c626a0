package gateway_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// benchUpstream responds to each call as fast as net/http permits.
func benchUpstream(b *testing.B) *httptest.Server {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var out []byte
		_ = jsonrpc.Scan(body, func(m *jsonrpc.Message) {
			out, _ = jsonrpc.AppendResult(out, jsonrpc.Version2, m.ID, jsonrpc.Raw(`{"plan":"basic","price":12.5,"seats":3}`))
		})
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(out)
	}))
	b.Cleanup(web.Close)
	return web
}

// BenchmarkCall measures one call through each front, by 64 callers. The time includes client and
// upstream: compare with the limit, a ReverseProxy of the standard library.
func BenchmarkCall(b *testing.B) {
	up := benchUpstream(b)
	to, err := url.Parse(up.URL)
	if err != nil {
		b.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	plain := httptest.NewServer(&httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }})
	b.Cleanup(plain.Close)
	_, at := start(b, `
servers:
  billing: {url: "{up}", protocol: jsonrpc}
  tools: {url: "{up}", protocol: mcp}
gateway:
  routes:
    - {method: "billing.*", to: billing}
`, map[string]string{"up": up.URL})
	pass := at
	pass.Path = "/s/tools"
	for _, front := range []struct{ name, url string }{{"direct", up.URL}, {"ReverseProxy", plain.URL}, {"rpc", at.URL()}, {"pass", pass.URL()}} {
		b.Run(front.name, func(b *testing.B) {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
			defer client.CloseIdleConnections()
			body := []byte(`{"jsonrpc":"2.0","id":7,"method":"billing.getPlan","params":{"customer":"c-1","fields":["plan","price"]}}`)
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, front.url, bytes.NewReader(body))
					if err != nil {
						b.Error(err)
						return
					}
					r.Header.Set("Content-Type", "application/json")
					r.Header.Set("Accept", "application/json")
					resp, err := client.Do(r)
					if err != nil {
						b.Error(err)
						return
					}
					if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
						b.Error(err, resp.Status)
					}
					_ = resp.Body.Close()
				}
			})
		})
	}
}
