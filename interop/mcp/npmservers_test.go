package mcp_test

import (
	"net/http"
	"testing"

	"github.com/da1ed7bb/parley/mcp"
)

// TestNPMServers calls servers based on the TypeScript SDKs with our client, over all their
// transports.
func TestNPMServers(t *testing.T) {
	t.Parallel()
	old := service{name: "sdk-v1", version: mcp.V20251125}
	new := service{name: "sdk-v2", version: mcp.V20260728}
	headed := service{name: "sdk-v2", version: mcp.V20260728, headers: true}
	legacy := service{name: "sdk-v2", version: mcp.V20251125}
	tests := []struct {
		name, script, mode string
		path               string // "" for stdio
		service            service
		versions           []mcp.Version
	}{
		{"v1 stdio", "server-v1.mjs", "stdio", "", old, nil},
		{"v1 http", "server-v1.mjs", "http", "/mcp", old, nil},
		{"v1 plain json", "server-v1.mjs", "json", "/mcp", service{name: "sdk-v1", version: mcp.V20251125, noAsking: true, noPushes: true}, nil},
		{"v1 without sessions", "server-v1.mjs", "stateless", "/mcp", service{name: "sdk-v1", version: mcp.V20251125, noAsking: true, noPushes: true}, nil},
		{"v1 sse", "server-v1.mjs", "sse", "/sse", old, nil},
		{"v2 stdio", "server-v2.mjs", "stdio", "", new, nil},
		{"v2 stdio of old", "server-v2.mjs", "stdio", "", legacy, []mcp.Version{mcp.V20251125}},
		{"v2 http", "server-v2.mjs", "http", "/mcp", headed, nil},
		{"v2 http, modern only", "server-v2.mjs", "modern", "/mcp", headed, nil},
		{"v2 http of old", "server-v2.mjs", "http", "/mcp", service{name: "sdk-v2", version: mcp.V20251125, noAsking: true, noPushes: true}, []mcp.Version{mcp.V20251125}},
		{"v2 http with sessions", "server-v2.mjs", "sessions", "/mcp", legacy, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t)
			h := newHost(t)
			o := h.options()
			o.Versions = tt.versions
			var c *mcp.Client
			if tt.path == "" {
				c = child(ctx, t, node(t, "node/"+tt.script, tt.mode), o)
			} else {
				c = overHTTP(ctx, t, "http://127.0.0.1:"+announcing(t, "node/"+tt.script, tt.mode)+tt.path, o)
			}
			tt.service.use(ctx, t, h, c)
		})
	}
}

// TestNPMServerForgets checks how our client handles the loss of its session.
func TestNPMServerForgets(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	h := newHost(t)
	address := "http://127.0.0.1:" + announcing(t, "node/server-v1.mjs", "http")
	c := overHTTP(ctx, t, address+"/mcp", h.options())
	wantText(t, "Hello")(c.CallTool(ctx, "ask", nil, nil))
	for range 2 {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/forget", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		wantText(t, "Hello")(c.CallTool(ctx, "ask", nil, nil))
		wantText(t, "file:///work")(c.CallTool(ctx, "where", nil, nil))
	}
}
