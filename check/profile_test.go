package check_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/check"
	"github.com/da1ed7bb/parley/internal/x/race"
)

// A profileMutant is a defect of a server of a protocol on top of JSON-RPC 2.0, and a rule that
// must find it.
type profileMutant struct{ profile, defect, rule string }

func (m profileMutant) mutant() mutant { return mutant{m.defect, m.rule, "http tcp"} }

var profileMutants = []profileMutant{
	{"mcp", "any-version", "mcp/unknown-version"}, {"mcp", "no-server-info", "mcp/2025-06-18"}, {"mcp", "no-ping", "mcp/2024-11-05"}, {"mcp", "no-schema", "mcp/2025-11-25"},
	{"mcp", "unknown-tool", "mcp/unknown-tool"}, {"mcp", "unknown-method", "mcp/unknown-method"}, {"mcp", "notification-answered", "mcp/unknown-notification"},
	{"mcp", "cancel-answered", "mcp/unknown-cancel"}, {"mcp", "list-missing", "mcp/2025-03-26"}, {"mcp", "batch-refused", "mcp/2025-03-26/batch"},
	{"mcp", "batch-run", "mcp/2025-06-18/no-batch"}, {"mcp", "batch-run", "mcp/2025-11-25/no-batch"},
	{"mcp", "discover-no-ttl", "mcp/2026-07-28"}, {"mcp", "list-no-result-type", "mcp/2026-07-28"}, {"mcp", "unknown-method-modern", "mcp/2026-07-28/unknown-method"},
	{"mcp", "ping-modern", "mcp/2026-07-28/removed-ping"}, {"mcp", "any-modern-version", "mcp/2026-07-28/unsupported-version"}, {"mcp", "unsupported-without-data", "mcp/2026-07-28/unsupported-version"},
	{"mcp", "meta-not-checked", "mcp/2026-07-28/missing-meta"}, {"mcp", "header-not-checked", "mcp/2026-07-28/header-mismatch"}, {"mcp", "header-not-checked", "mcp/2026-07-28/missing-header"},
	{"mcp", "get-200", "mcp/2026-07-28/get"},
	{"a2a", "no-version", "a2a/version"}, {"a2a", "unknown-task-is-null", "a2a/unknown-task/1.0"}, {"a2a", "unknown-task-is-null", "a2a/unknown-task/0.3"},
	{"a2a", "cancel-is-null", "a2a/unknown-cancel/1.0"}, {"a2a", "cancel-is-null", "a2a/unknown-cancel/0.3"}, {"a2a", "unknown-method", "a2a/unknown-method"}, {"a2a", "unknown-method", "a2a/unknown-method/0.3"},
	{"a2a", "params-not-checked", "a2a/invalid-params"}, {"a2a", "params-not-checked", "a2a/invalid-params/0.3"}, {"a2a", "send-empty", "a2a/send"}, {"a2a", "send-empty", "a2a/send/0.3"},
	{"a2a", "send-parts-object", "a2a/send"}, {"a2a", "send-parts-object", "a2a/send/0.3"},
	{"acp", "unknown-method", "acp/unknown-method"}, {"acp", "no-ping", "acp/ping"}, {"acp", "agents-list", "acp/agents"}, {"acp", "agent-no-name", "acp/agents"},
	{"acp", "unknown-agent", "acp/unknown-agent"}, {"acp", "unknown-run", "acp/unknown-run"},
	{"mcp", "id-as-string", "mcp/id/integers"}, {"a2a", "id-through-float", "a2a/id/2^53+1"}, {"acp", "id-as-number", "acp/id/strings"}, {"mcp", "id-ascii", "mcp/id/unicode"}, {"mcp", "id-cut", "mcp/id/long"},
	{"mcp", "parse-error-silent", "mcp/parse-error"}, {"a2a", "parse-error-is-32600", "a2a/parse-error"}, {"acp", "invalid-is-32601", "acp/invalid-request"}, {"mcp", "dies-of-garbage", "mcp/survival"},
}

// A profileServer is a server of a protocol on top of JSON-RPC 2.0, with an optional defect. It
// reuses what plainServer does to IDs.
type profileServer struct {
	profile, defect string
	batches         bool // a session of MCP 2025-03-26
	dead            bool
}

func (s *profileServer) has(defect string) bool { return s.defect == defect }

type profileCall struct {
	JSONRPC string `json:"jsonrpc"`
	ID      json.RawMessage
	Method  any
	Params  struct {
		ID, Name        string
		ProtocolVersion string
		Message         any
		Meta            map[string]any `json:"_meta"`
	}
}

// answer returns an HTTP status and the response to a payload.
func (s *profileServer) answer(payload []byte, header http.Header) (int, []byte) {
	if s.dead {
		return 500, nil
	}
	payload = bytes.TrimSpace(payload)
	code := -32700
	switch {
	case s.has("dies-of-garbage") && bytes.HasPrefix(payload, []byte("\x00")):
		s.dead = true
		return 500, nil
	case !json.Valid(payload):
		if s.has("parse-error-silent") {
			return 200, nil
		}
		if s.has("parse-error-is-32600") {
			code = -32600
		}
		return 400, s.fail(null, code, "")
	case payload[0] == '[':
		var list []json.RawMessage
		_ = json.Unmarshal(payload, &list) // it is valid
		if !s.batches && !s.has("batch-run") || s.has("batch-refused") || len(list) == 0 {
			return 400, s.fail(null, -32600, "")
		}
		var all [][]byte
		for _, each := range list {
			_, out := s.answer(each, header)
			all = append(all, out)
		}
		return 200, slices.Concat([]byte("["), bytes.Join(all, []byte(",")), []byte("]"))
	case payload[0] != '{':
		return 400, s.fail(null, -32600, "")
	}
	var in profileCall
	m := fields(payload)
	err := json.Unmarshal(payload, &in)
	method, ok := in.Method.(string)
	switch {
	case m["result"] != nil || m["error"] != nil:
		return 202, nil
	case in.JSONRPC != "2.0" || !ok || err != nil && m["id"] == nil || len(in.ID) > 0 && in.ID[0] == '{':
		code := -32600
		if s.has("invalid-is-32601") {
			code = -32601
		}
		return 400, s.fail(null, code, "")
	case m["id"] == nil:
		if s.has("notification-answered") && method == "notifications/parley-check" || s.has("cancel-answered") && method == "notifications/cancelled" {
			return 200, s.fail(null, -32601, "")
		}
		return 202, nil
	}
	status, result, code, data := 200, "", -32601, ""
	switch s.profile {
	case "mcp":
		status, result, code, data = s.mcp(method, &in, header)
	case "a2a":
		result, code = s.a2a(method, &in)
	case "acp":
		result, code = s.acp(method)
	}
	if result == "" {
		return status, s.fail(in.ID, code, data)
	}
	return status, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, s.id(in.ID), result)
}

func (s *profileServer) id(id json.RawMessage) json.RawMessage {
	return (&plainServer{defect: s.defect}).id(id)
}

func (s *profileServer) fail(id json.RawMessage, code int, data string) []byte {
	if data != "" {
		data = `,"data":` + data
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"failed"%s}}`, s.id(id), code, data)
}

const cacheable = `"resultType":"complete","ttlMs":0,"cacheScope":"private"`

func (s *profileServer) mcp(method string, in *profileCall, header http.Header) (status int, result string, code int, data string) {
	const key = "io.modelcontextprotocol/"
	if version, _ := in.Params.Meta[key+"protocolVersion"].(string); version != "" {
		switch {
		case header != nil && header.Get("Mcp-Method") != method && !s.has("header-not-checked"):
			return 400, "", -32020, ""
		case version != "2026-07-28" && !s.has("any-modern-version"):
			if s.has("unsupported-without-data") {
				return 400, "", -32022, ""
			}
			return 400, "", -32022, fmt.Sprintf(`{"supported":["2026-07-28"],"requested":%q}`, version)
		case in.Params.Meta[key+"clientCapabilities"] == nil && !s.has("meta-not-checked"):
			return 400, "", -32602, ""
		}
		switch method {
		case "server/discover":
			if s.has("discover-no-ttl") {
				return 200, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}`, 0, ""
			}
			return 200, `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},` + cacheable + `}`, 0, ""
		case "tools/list":
			if s.has("list-no-result-type") {
				return 200, `{"tools":[],"ttlMs":0,"cacheScope":"private"}`, 0, ""
			}
			return 200, `{"tools":[{"name":"plain","inputSchema":{"type":"object"}}],` + cacheable + `}`, 0, ""
		case "ping":
			if s.has("ping-modern") {
				return 200, `{"resultType":"complete"}`, 0, ""
			}
		}
		if s.has("unknown-method-modern") && method != "ping" {
			return 200, `{"resultType":"complete"}`, 0, ""
		}
		return 404, "", -32601, ""
	}
	switch method {
	case "initialize":
		version := in.Params.ProtocolVersion
		if version < "2024" && !s.has("any-version") {
			version = "2025-11-25"
		}
		s.batches = version == "2025-03-26"
		info := `,"serverInfo":{"name":"plain","version":"1"}`
		if s.has("no-server-info") {
			info = ""
		}
		result = fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}}%s}`, version, info)
	case "ping":
		if !s.has("no-ping") {
			result = "{}"
		}
	case "tools/list":
		result = `{"tools":[{"name":"plain","inputSchema":{"type":"object"}}]}`
		switch {
		case s.has("no-schema"):
			result = `{"tools":[{"name":"plain"}]}`
		case s.has("list-missing"):
			result = `{}`
		}
	case "tools/call":
		result = `{"content":[],"isError":true}`
		if s.has("unknown-tool") {
			result = `{"content":[]}`
		}
	default:
		if s.has("unknown-method") {
			result = "{}"
		}
	}
	return 200, result, -32601, ""
}

func (s *profileServer) a2a(method string, in *profileCall) (result string, code int) {
	old := strings.Contains(method, "/")
	if s.has("no-version") {
		return "", -32601
	}
	switch method {
	case "GetTask", "tasks/get":
		if s.has("unknown-task-is-null") {
			return "null", 0
		}
		return "", -32001
	case "CancelTask", "tasks/cancel":
		if s.has("cancel-is-null") {
			return "null", 0
		}
		return "", -32001
	case "SendMessage", "message/send":
		if _, ok := in.Params.Message.(map[string]any); !ok && !s.has("params-not-checked") {
			return "", -32602
		}
		switch {
		case s.has("send-empty"):
			return "{}", 0
		case s.has("send-parts-object") && old:
			return `{"kind":"message","messageId":"m","role":"agent","parts":{}}`, 0
		case s.has("send-parts-object"):
			return `{"message":{"messageId":"m","role":"ROLE_AGENT","parts":{}}}`, 0
		case old:
			return `{"kind":"message","messageId":"m","role":"agent","parts":[{"kind":"text","text":"hello"}]}`, 0
		}
		return `{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"hello"}]}}`, 0
	}
	if s.has("unknown-method") {
		return "{}", 0
	}
	return "", -32601
}

func (s *profileServer) acp(method string) (result string, code int) {
	switch method {
	case "ping":
		if s.has("no-ping") {
			return "[]", 0
		}
		return "{}", 0
	case "agents/list":
		switch {
		case s.has("agents-list"):
			return "[]", 0
		case s.has("agent-no-name"):
			return `{"agents":[{"description":null}]}`, 0
		}
		return `{"agents":[{"name":"plain","description":"plain","input_content_types":["*/*"],"output_content_types":["*/*"]}]}`, 0
	case "agents/get":
		if s.has("unknown-agent") {
			return `{"name":"parley-check-unknown","description":null,"input_content_types":["*/*"],"output_content_types":["*/*"]}`, 0
		}
		return "", -32602
	case "runs/get":
		if s.has("unknown-run") {
			return `{"run_id":"00000000-0000-4000-8000-000000000000","agent_name":"plain","status":"completed","output":[],"created_at":"2026-01-01T00:00:00Z"}`, 0
		}
		return "", -32602
	}
	if s.has("unknown-method") {
		return "{}", 0
	}
	return "", -32601
}

// serveProfile returns the addresses of a server over HTTP and TCP.
func serveProfile(t *testing.T, profile, defect string) []string {
	t.Helper()
	s := &profileServer{profile: profile, defect: defect}
	var one sync.Mutex // guards s
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost {
			if s.has("get-200") {
				return
			}
			http.Error(w, "POST only", http.StatusMethodNotAllowed)
			return
		}
		header := r.Header
		if profile != "mcp" {
			header = nil
		}
		one.Lock()
		status, out := s.answer(body, header)
		one.Unlock()
		if profile != "mcp" && out != nil {
			status = http.StatusOK
		}
		if out != nil {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(status)
		_, _ = w.Write(out) // the client may have gone
	}))
	t.Cleanup(web.Close)
	lines := hostile(t, func(c net.Conn) {
		own := &profileServer{profile: profile, defect: defect}
		for r := bufio.NewReader(c); ; {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			if _, out := own.answer(line, nil); out != nil {
				_, _ = c.Write(append(out, '\n')) // the client may have gone
			}
			if own.dead {
				return
			}
		}
	})
	return []string{web.URL + "/", lines}
}

// TestProfiles checks conforming servers: they violate no rule, and every rule of their profile is
// checked.
func TestProfiles(t *testing.T) {
	for profile, least := range map[string]int{"mcp": 25, "a2a": 18, "acp": 12} {
		for _, target := range serveProfile(t, profile, "") {
			t.Run(profile+"/"+target[:4], func(t *testing.T) {
				report := run(t, target, &check.Options{Profile: profile, Timeout: 5 * time.Second, Strict: true})
				checked := 0
				for _, r := range report.Rules {
					if r.Outcome == check.Fail {
						t.Errorf("%s: %s\n%s\n%s", r.ID, r.Why, r.Sent, r.Received)
					}
					if strings.HasPrefix(r.ID, profile+"/") && r.Outcome == check.Pass {
						checked++
					}
				}
				if report.Verdict != check.Pass || checked < least {
					t.Errorf("%s, %d rules of %s were checked", report.Verdict, checked, profile)
				}
			})
		}
	}
}

// TestProfileMutants plants the defects of profiles, each over a transport where its rule applies.
func TestProfileMutants(t *testing.T) {
	for i, m := range profileMutants {
		if race.Enabled && i%4 != 0 {
			continue
		}
		t.Run(m.profile+"/"+m.defect, func(t *testing.T) {
			t.Parallel()
			targets := serveProfile(t, m.profile, m.defect)
			// Over HTTP, a response without a body is right for a message that is not valid.
			target := targets[i%2]
			if strings.Contains(m.rule, "header") || strings.HasSuffix(m.rule, "/get") {
				target = targets[0]
			} else if strings.Contains(m.rule, "parse-error") || strings.Contains(m.rule, "survival") {
				target = targets[1]
			}
			report := run(t, target, &check.Options{Profile: m.profile, Timeout: time.Second, Strict: true, Only: []string{m.rule}})
			if !slices.ContainsFunc(report.Rules, func(r check.Result) bool { return r.ID == m.rule && r.Outcome == check.Fail && r.Why != "" }) {
				t.Errorf("%s over %s did not fail: %+v", m.rule, target, report.Rules)
			}
			if report.Verdict != check.Fail {
				t.Errorf("the verdict is %s", report.Verdict)
			}
		})
	}
}
