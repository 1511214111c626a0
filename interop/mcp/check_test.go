package mcp_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/da1ed7bb/parley"
	conformance "github.com/da1ed7bb/parley/check"
	"github.com/da1ed7bb/parley/interop/harness"
)

// TestCheckOfMCP runs the profile of parley check on servers of MCP: ours, over all its transports,
// violates no rule; the findings in servers of the official Go SDK are those that were examined.
func TestCheckOfMCP(t *testing.T) {
	t.Parallel()
	goSDK := func(o *gosdk.StreamableHTTPOptions) string {
		s := goService()
		web := httptest.NewServer(gosdk.NewStreamableHTTPHandler(func(*http.Request) *gosdk.Server { return s }, o))
		t.Cleanup(web.Close)
		t.Cleanup(web.CloseClientConnections)
		return web.URL
	}
	// An unknown method gets HTTP 400 and text instead of the error -32601.
	const unknown = "mcp/unknown-method response/json http/content-type"
	for _, tt := range []struct {
		name, target string
		findings     string
	}{
		{"parley, HTTP", strings.TrimSuffix(harness.Demo(t, "http://127.0.0.1:0")[0], "/rpc") + "/mcp", ""},
		{"Go SDK, sessions", goSDK(&gosdk.StreamableHTTPOptions{}), unknown + " mcp/id/2^53+1"},
		// So does a version that it does not support.
		{"Go SDK, stateless", goSDK(&gosdk.StreamableHTTPOptions{Stateless: true}), unknown + " mcp/id/2^53+1 mcp/2026-07-28/unsupported-version"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			target, err := parley.ParseTarget(tt.target)
			if err != nil {
				t.Fatal(err)
			}
			report, err := conformance.Check(within(t), target, &conformance.Options{Profile: "mcp", Timeout: 5 * time.Second, Strict: true})
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, r := range report.Violations(true) {
				found = append(found, r.ID)
				if !slices.Contains(strings.Fields(tt.findings), r.ID) {
					t.Errorf("%s %s: %s\n\tsent     %s\n\treceived %s", r.Level, r.ID, r.Why, r.Sent, r.Received)
				}
			}
			for _, id := range strings.Fields(tt.findings) {
				if !slices.Contains(found, id) {
					t.Errorf("%s was not found", id)
				}
			}
		})
	}
}
