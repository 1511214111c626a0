package guard

import (
	"net/http"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/httptoken"
)

// CORS allows pages of the configured origins to read responses (Fetch standard, section 3.2). If r
// is a preflight request from such an origin, CORS responds and returns true; otherwise it sets
// headers and returns false. Other origins, including the listener's own, get no header. The
// allowed origin is never "*", because responses depend on tokens and sessions. Call CORS after the
// check of the Host header and before Check.
func (d *Door) CORS(w http.ResponseWriter, r *http.Request) (answered bool) {
	if len(d.origins) == 0 {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	sent := r.Header["Origin"]
	if len(sent) != 1 {
		return false
	}
	from, ok := parseOrigin(sent[0])
	if !ok || !slices.Contains(d.origins, from) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", sent[0])
	if r.Method != http.MethodOptions || len(r.Header["Access-Control-Request-Method"]) == 0 {
		h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate, DPoP-Nonce, Retry-After")
		return false
	}
	h.Add("Vary", "Access-Control-Request-Headers")
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, DELETE")
	h.Set("Access-Control-Allow-Headers", allowedHeaders(r.Header["Access-Control-Request-Headers"]))
	h.Set("Access-Control-Max-Age", "600")
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// alwaysAllowed lists the headers of our protocols that pages may send, in addition to all headers
// that begin with "Mcp-".
const alwaysAllowed = "Accept, Authorization, Cache-Control, Content-Type, DPoP, Last-Event-ID, A2A-Version, A2A-Extensions, traceparent, tracestate, " +
	"Mcp-Session-Id, MCP-Protocol-Version, Mcp-Method, Mcp-Name"

// allowedHeaders adds the requested headers for tool parameters.
func allowedHeaders(requested []string) string {
	out := alwaysAllowed
	for _, line := range requested {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.TrimSpace(name)
			if len(out) < 4096 && len(name) > 10 && strings.EqualFold(name[:10], "mcp-param-") && httptoken.Valid(name) {
				out += ", " + name
			}
		}
	}
	return out
}

// Admit runs all access checks before a handler: the Host header, CORS, and Check. It reports
// whether the request may continue; otherwise it has sent a response.
func (d *Door) Admit(w http.ResponseWriter, r *http.Request) bool { return d.enter(w, r) != nil }

// enter is Admit, and returns the request for the handler, or nil if it has sent a response.
func (d *Door) enter(w http.ResponseWriter, r *http.Request) *http.Request {
	f := d.checkHost(r, placeOf(r, d.o.Port))
	if f == nil {
		if d.CORS(w, r) {
			return nil
		}
		var admitted *http.Request
		if admitted, f = d.check(r); f == nil {
			return admitted
		}
	}
	if d.o.Refused != nil {
		d.o.Refused(r, f)
	}
	f.Write(w, r)
	return nil
}
