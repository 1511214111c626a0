package conformance

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// reachRules returns the rules about access over HTTP, and about paths other than the endpoint.
func reachRules() []Rule {
	var rules []Rule
	add := func(source, id string, wants response, q request) { rules = append(rules, web(source, id, wants, q)) }

	const hosts = answers4 + "Host not allowed"
	for _, v := range []string{"127.0.0.1:{port}", "localhost:{port}", "[::1]:{port}", "LOCALHOST:{port}", "LocalHost:{port}", "[0:0:0:0:0:0:0:1]:{port}"} {
		w := served
		if strings.HasPrefix(v, "[0:") {
			// the same address in another notation: either is safe
			w = response{status: 403, or: []int{200}}
		}
		add("Reach, hosts and origins", "host/good/"+v, w, request{body: good, header: []string{"Host: " + v}})
	}
	for _, v := range []string{
		"evil.example", "evil.example:{port}", "localhost", "127.0.0.1", "[::1]", "localhost:1", "127.0.0.1:80", "localhost:65535", "127.0.0.1.evil.example:{port}", "localhost.evil.example:{port}", "evil.example.localhost:{port}", "xlocalhost:{port}", "localhostx:{port}", "127.0.0.1x:{port}", "127.0.0.2:{port}", "127.1:{port}", "0.0.0.0:{port}", "[::]:{port}", "2130706433:{port}", "0x7f000001:{port}", "0177.0.0.1:{port}", "localhost.:{port}", "127.0.0.1.:{port}", "[::ffff:127.0.0.1]:{port}", "[::2]:{port}", "192.168.0.1:{port}", "169.254.169.254:{port}", "localhost:{port}0", "localhost:0{port}", ":{port}", "example.com", "metadata.google.internal", "null", "*", "*:{port}", "a:{port}", "localhost:",
	} {
		add(hosts, "host/bad/"+v, response{status: 403, or: []int{400}, body: ""}, request{body: good, header: []string{"Host: " + v}})
	}
	for _, v := range []string{"user@127.0.0.1:{port}", "127.0.0.1:{port}/", "127.0.0.1:{port}, evil.example", "127.0.0.1 :{port}", "127.0.0.1:{port} x", "localhost\\:{port}", "127.0.0.1:{port}#x", "127.0.0.1:{port}?x", "local host:{port}", "[::1:{port}", "::1:{port}", "localhost:+{port}", "localhost:-1", "localhost:{port}:{port}", "localhost:port"} {
		add(hosts, "host/bad/"+v, response{status: 400, or: []int{403}}, request{body: good, header: []string{"Host: " + v}})
	}
	const two = answers4 + "missing or two Host headers"
	add(two, "host/missing", is(400), request{bare: true, header: []string{"Content-Type: application/json", "Content-Length: 44"}, body: good})
	add(two, "host/empty", is(400), request{body: good, header: []string{"Host:"}})
	add(two, "host/empty-blank", is(400), request{body: good, header: []string{"Host:  "}})
	add(two, "host/two", is(400), request{body: good, header: []string{"Host: {host}", "Host: {host}"}})
	add(two, "host/two-other", is(400), request{body: good, header: []string{"Host: {host}", "Host: evil.example"}})
	add(two, "host/two-reversed", is(400), request{body: good, header: []string{"Host: evil.example", "Host: {host}"}})
	add(two, "host/missing-1.0", is(400), request{line: "POST /rpc HTTP/1.0", bare: true, header: []string{"Content-Type: application/json", "Content-Length: 44"}, body: good})
	for _, q := range []request{{line: "GET / HTTP/1.1"}, {line: "GET /healthz HTTP/1.1"}, {line: "HEAD / HTTP/1.1"}, {line: "GET /nope HTTP/1.1"}, {line: "GET /rpc HTTP/1.1"}, {line: "OPTIONS /rpc HTTP/1.1"}, {line: "POST / HTTP/1.1", body: good}, {line: "GET /rpc HTTP/1.1", header: []string{"Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"}}} {
		id := strings.ReplaceAll(strings.TrimSuffix(q.line, " HTTP/1.1"), " ", "-")
		if len(q.header) > 0 {
			id += "-upgrade"
		}
		q.header = append([]string{"Host: evil.example"}, q.header...)
		add("Reach, hosts and origins", "host/every-route/"+id, is(403), q)
	}

	// The target in absolute form determines the host, whatever the header contains (RFC 9112,
	// section 3.2.2).
	add("RFC 9112, section 3.2.2", "absolute/good", served, request{line: "POST http://{host}/rpc HTTP/1.1", body: good})
	add("RFC 9112, section 3.2.2", "absolute/localhost", served, request{line: "POST http://localhost:{port}/rpc HTTP/1.1", body: good})
	add("RFC 9112, section 3.2.2", "absolute/scheme-upper", served, request{line: "POST HTTP://{host}/rpc HTTP/1.1", body: good})
	add(hosts, "absolute/evil", is(403), request{line: "POST http://evil.example/rpc HTTP/1.1", body: good})
	add("RFC 9112, section 3.2.2", "absolute/evil-header", response{status: 200, or: []int{403, 400}}, request{line: "POST http://{host}/rpc HTTP/1.1", header: []string{"Host: evil.example"}, body: good})
	add(hosts, "absolute/evil-user", response{status: 403, or: []int{400}}, request{line: "POST http://127.0.0.1:{port}@evil.example/rpc HTTP/1.1", body: good})
	add("RFC 9112, section 3.2.2", "absolute/no-path", served, request{line: "POST http://{host} HTTP/1.1", body: good})

	const origins = answers4 + "Origin not allowed"
	for _, v := range []string{"http://127.0.0.1:{port}", "http://localhost:{port}", "http://[::1]:{port}", "https://localhost:{port}", "https://127.0.0.1:{port}"} {
		add("Reach, hosts and origins", "origin/good/"+v, served, request{body: good, header: []string{"Origin: " + v}})
	}
	for _, v := range []string{
		"null", "Null", "NULL", "https://evil.example", "http://evil.example:{port}", "http://localhost", "http://127.0.0.1", "http://localhost:1", "http://127.0.0.1:{port}.evil.example", "http://127.0.0.1:{port}0", "http://127.0.0.1.evil.example:{port}", "http://evil.example/127.0.0.1:{port}", "http://localhost.evil.example:{port}", "http://evillocalhost:{port}", "http://user@127.0.0.1:{port}", "http://127.0.0.1:{port}/", "http://127.0.0.1:{port}/rpc", "http://127.0.0.1:{port}?", "http://127.0.0.1:{port}#", "http://127.0.0.1:{port} http://evil.example", "http://127.0.0.1:{port}, http://evil.example", "ftp://127.0.0.1:{port}", "file://", "file://localhost:{port}", "ws://127.0.0.1:{port}", "chrome-extension://abcdef", "moz-extension://abc", "127.0.0.1:{port}", "//127.0.0.1:{port}", "http:127.0.0.1:{port}", "http://", "*", "http://*", "data:", "about:blank", "vscode-webview://abc", "http://127.0.0.2:{port}", "http://0.0.0.0:{port}", "http://[::]:{port}", "http://localhost.:{port}", "javascript://127.0.0.1:{port}", "",
	} {
		add(origins, "origin/bad/"+v, is(403), request{body: good, header: []string{"Origin: " + v}})
	}
	add(origins, "origin/two", is(403), request{body: good, header: []string{"Origin: http://{host}", "Origin: http://evil.example"}})
	add(origins, "origin/two-good", response{status: 403, or: []int{200}}, request{body: good, header: []string{"Origin: http://{host}", "Origin: http://{host}"}})
	add(origins, "origin/notification", is(403), request{body: `{"jsonrpc":"2.0","method":"update"}`, header: []string{"Origin: https://evil.example"}})
	add(origins, "origin/before-415", is(403), request{body: good, header: []string{"Origin: https://evil.example", "Content-Type: text/plain"}})
	add(origins, "origin/before-405", is(403), request{line: "DELETE /rpc HTTP/1.1", header: []string{"Origin: https://evil.example"}})
	add(origins, "origin/upgrade", is(403), request{line: "GET /rpc HTTP/1.1", header: []string{"Origin: https://evil.example", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"}})
	add(origins, "origin/stream", is(403), request{body: good, header: []string{"Origin: https://evil.example", "Accept: text/event-stream"}})

	const sites = answers4 + "Sec-Fetch-Site cross-site or same-site"
	for _, v := range []string{"cross-site", "same-site"} {
		add(sites, "site/"+v, is(403), request{body: good, header: []string{"Sec-Fetch-Site: " + v}})
		add(sites, "site/"+v+"/own-origin", is(403), request{body: good, header: []string{"Sec-Fetch-Site: " + v, "Origin: http://{host}"}})
		add(sites, "site/"+v+"/navigate", is(403), request{body: good, header: []string{"Sec-Fetch-Site: " + v, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}})
		add(sites, "site/"+v+"/get-endpoint", is(403), request{line: "GET /rpc HTTP/1.1", header: []string{"Sec-Fetch-Site: " + v, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}})
		add(sites, "site/"+v+"/page", is(200), request{line: "GET / HTTP/1.1", header: []string{"Sec-Fetch-Site: " + v, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}})
		add(sites, "site/"+v+"/page-in-frame", is(403), request{line: "GET / HTTP/1.1", header: []string{"Sec-Fetch-Site: " + v, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}})
		add(sites, "site/"+v+"/page-by-script", is(403), request{line: "GET / HTTP/1.1", header: []string{"Sec-Fetch-Site: " + v, "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: empty"}})
		add(sites, "site/"+v+"/upgrade", is(403), request{line: "GET /rpc HTTP/1.1", header: []string{"Sec-Fetch-Site: " + v, "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"}})
		add(sites, "site/"+v+"/head", is(403), request{line: "HEAD / HTTP/1.1", header: []string{"Sec-Fetch-Site: " + v}})
	}
	add(sites, "site/same-origin", served, request{body: good, header: []string{"Sec-Fetch-Site: same-origin", "Origin: http://{host}"}})
	add(sites, "site/none", served, request{body: good, header: []string{"Sec-Fetch-Site: none"}})

	// Paths.
	page := response{status: 200, header: map[string]string{"Content-Type": "text/html"}, after: "kept"}
	add("Demo, addresses", "path/page", page, request{line: "GET / HTTP/1.1"})
	add("Demo, addresses", "path/page-names-methods", response{status: 200, body: "subtract"}, request{line: "GET / HTTP/1.1"})
	add("Demo, addresses", "path/page-names-address", response{status: 200, body: " call http://{host}/rpc"}, request{line: "GET / HTTP/1.1"})
	add(rfc9110+"9.3.2", "path/page-head", page, request{line: "HEAD / HTTP/1.1"})
	add(rfc9110+"8.3.2", "path/page-charset", page.with("Content-Type", "charset=utf-8"), request{line: "GET / HTTP/1.1"})
	add("Reach, pages", "path/page-policy", page.with("Content-Security-Policy", "default-src 'none'"), request{line: "GET / HTTP/1.1"})
	add("Reach, pages", "path/page-nosniff", page.with("X-Content-Type-Options", "nosniff"), request{line: "GET / HTTP/1.1"})
	for _, m := range []string{"PUT", "DELETE", "PATCH", "OPTIONS"} {
		add(rfc9110+"15.5.6", "path/page/"+m, response{status: 405, header: map[string]string{"Allow": "GET"}}, request{line: m + " / HTTP/1.1"})
		add(rfc9110+"15.5.6", "path/healthz/"+m, response{status: 405, header: map[string]string{"Allow": "GET"}}, request{line: m + " /healthz HTTP/1.1"})
	}
	add("Demo, addresses", "path/healthz", response{status: 200, body: "ok", after: "kept"}, request{line: "GET /healthz HTTP/1.1"})
	add(rfc9110+"9.3.2", "path/healthz-head", response{status: 200, after: "kept"}, request{line: "HEAD /healthz HTTP/1.1"})
	add(rfc9110+"15.5.6", "path/healthz-post", response{status: 405, header: map[string]string{"Allow": "GET"}}, request{line: "POST /healthz HTTP/1.1", body: good})
	for _, p := range []string{"/nope", "/rpc/", "/RPC", "/Rpc", "/rpc/x", "/rp", "/rpcx", "/healthz/", "/favicon.ico.x", "/.env", "/../rpc2", "/index.php", "/metrics", "/debug/pprof/", "/debug/vars", "/admin", "/rpc%00", "/rpc%2F", "/mcp/", "/ws"} {
		id := strings.ReplaceAll(strings.Trim(p, "/"), "/", "-") + strings.Repeat("_", strings.Count(p, "/")-1)
		add(rfc9110+"15.5.5", "path/unknown/get-"+id, response{status: 404, or: []int{301, 307}}, request{line: "GET " + p + " HTTP/1.1"})
		add(rfc9110+"15.5.5", "path/unknown/post-"+id, response{status: 404, or: []int{307}}, request{line: "POST " + p + " HTTP/1.1", body: good})
	}
	add(rfc9110+"4.2.3", "path/query", served, request{line: "POST /rpc?a=b HTTP/1.1", body: good})
	add(rfc9110+"4.2.3", "path/query-empty", served, request{line: "POST /rpc? HTTP/1.1", body: good})
	add(decisions+"1.0 only where switched on", "path/query-is-no-switch", answered(fault("1", -32600)), request{line: "POST /rpc?jsonrpc=1.0 HTTP/1.1", body: `{"method":"get_data","params":[],"id":1}`})
	add(rfc9110+"4.2.3", "path/escaped", served, request{line: "POST /%72pc HTTP/1.1", body: good})

	// Other headers of a request.
	for name, h := range sorted(map[string]string{"authorization": "Authorization: Bearer x", "cookie": "Cookie: a=b", "range": "Range: bytes=0-1", "unknown": "X-Unknown: 1", "te": "TE: trailers", "pragma": "Pragma: no-cache", "forwarded": "X-Forwarded-Host: evil.example", "forwarded-for": "X-Forwarded-For: 10.0.0.1", "override": "X-HTTP-Method-Override: DELETE", "upgrade-h2c": "Upgrade: h2c", "upgrade-tls": "Upgrade: TLS/1.0", "upgrade-unknown": "Upgrade: foo/2", "via": "Via: 1.1 proxy", "warning": "Warning: 199 - x", "user-agent": "User-Agent: ()", "empty-value": "X-Empty:", "utf8": "X-Utf: é", "max-forwards": "Max-Forwards: 0", "if-match": "If-Match: \"x\"", "traceparent": "Traceparent: 00-x"}) {
		w := served
		if name == "if-match" {
			w = response{status: 200, or: []int{412}}
		}
		add(rfc9110+"5.1", "extra/"+name, w, request{body: good, header: []string{h}})
	}
	add(limits2, "header/16KiB", served, request{body: good, header: []string{"X-Long: " + strings.Repeat("h", 16<<10)}})
	add(limits2, "header/30KiB", served, request{body: good, header: []string{"X-Long: " + strings.Repeat("h", 30<<10)}})
	add(limits2, "header/33KiB", is(431), request{body: good, header: []string{"X-Long: " + strings.Repeat("h", 33<<10)}})
	add(limits2, "header/40KiB", is(431).closed(), request{body: good, header: []string{"X-Long: " + strings.Repeat("h", 40<<10)}})
	add(limits2, "header/1MiB", is(431), request{header: []string{"X-Long: " + strings.Repeat("h", 1<<20)}})
	add(limits2, "header/many", is(431), request{body: good, header: many("X-Many: 0123456789012345678901234567890123456789", 1000)})
	add(limits2, "header/many-short", served, request{body: good, header: many("X-M: 1", 300)})
	return rules
}

func many(h string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = h
	}
	return all
}

// connectionRules returns the rules about the connection below HTTP.
func connectionRules() []Rule {
	var rules []Rule
	rfc9112 := "RFC 9112, section "
	bytes := func(source, id, sends string, wants ...response) {
		rules = append(rules, raw(source, id, sends, wants...))
	}
	post := func(line string, header ...string) string {
		return request{line: line, header: header, body: good}.text()
	}
	bytes(rfc9112+"9.3", "keep/1.1", post(""), served)
	bytes(rfc9112+"9.6", "keep/close", post("", "Connection: close"), response{status: 200, header: map[string]string{"Connection": "close"}, after: "closed"})
	bytes(rfc9112+"9.6", "keep/close-upper", post("", "Connection: Close"), response{status: 200, after: "closed"})
	bytes(rfc9112+"9.6", "keep/close-in-list", post("", "Connection: foo, close"), response{status: 200, after: "closed"})
	bytes(rfc9112+"9.3", "keep/1.0", post("POST /rpc HTTP/1.0"), response{status: 200, answer: served.answer, header: map[string]string{"Transfer-Encoding": ""}, after: "closed"})
	bytes(rfc9112+"9.3", "keep/1.0-keep-alive", post("POST /rpc HTTP/1.0", "Connection: keep-alive"), response{status: 200, answer: served.answer, header: map[string]string{"Connection": "close"}, after: "closed"})
	for _, v := range []string{"HTTP/3.0", "HTTP/9.9", "HTTP/0.9"} {
		bytes(rfc9110+"15.6.6", "version/"+v[5:], post("POST /rpc "+v), response{status: 505, or: []int{400}, after: "closed"})
	}
	upgrade := []string{"Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"}
	bytes(rfc9110+"7.8", "upgrade/ignored-in-1.0", request{line: "POST /rpc HTTP/1.0", header: upgrade, body: good}.text(), response{status: 200, answer: served.answer})
	bytes(rfc9110+"7.8", "upgrade/get-1.0", request{line: "GET /rpc HTTP/1.0", header: upgrade}.text(), response{status: 405, or: []int{400, 426}, header: map[string]string{"Upgrade": ""}})
	bytes(rfc9110+"7.8", "upgrade/without-connection", request{header: []string{"Upgrade: foo"}, body: good}.text(), served)
	for name, line := range sorted(map[string]string{"lower": "POST /rpc http/1.1", "no-version": "POST /rpc", "no-target": "POST HTTP/1.1", "no-method": " /rpc HTTP/1.1", "one-digit": "POST /rpc HTTP/1", "letters": "POST /rpc HTTP/x.y", "space-target": "POST /r pc HTTP/1.1", "bad-method": "PO(ST /rpc HTTP/1.1", "bad-target": "POST rpc HTTP/1.1", "control-target": "POST /rpc\x01 HTTP/1.1", "bad-escape": "POST /%zz HTTP/1.1", "two-digits": "POST /rpc HTTP/1.10", "word": "hello", "json": good}) {
		bytes(rfc9112+"3", "line/"+name, post(line), response{status: 400, or: []int{505, 404}})
	}
	for name, h := range sorted(map[string]string{"space-before-colon": "X-A : 1", "no-colon": "X-A", "no-name": ": 1", "bad-name": "X(A): 1", "space-name": "X A: 1", "nul-value": "X-A: a\x00b", "nul-name": "X\x00A: 1", "control-value": "X-A: a\x01b", "utf8-name": "Xé: 1", "del-value": "X-A: a\x7fb"}) {
		bytes(rfc9112+"5.1", "field/"+name, post("", h), response{status: 400})
	}
	bytes(rfc9112+"5", "field/space-first", "POST /rpc HTTP/1.1\r\n Host: {host}\r\n\r\n", response{status: 400})
	bytes(rfc9112+"9.3.2", "pipeline/three", post("")+post("")+post(""), served, served, served)
	bytes(rfc9112+"9.3.2", "pipeline/slow-first", request{body: `{"jsonrpc":"2.0","id":5,"method":"sleep","params":[80]}`}.text()+post(""), answered(ok("5", "80")), served)
	bytes(rfc9112+"9.3.2", "pipeline/notification-first", request{body: `{"jsonrpc":"2.0","method":"update"}`}.text()+post(""), is(204), served)
	bytes(rfc9112+"9.3.2", "pipeline/error-first", request{body: `{`}.text()+post(""), answered(fault("null", -32700)), served)
	bytes(rfc9112+"9.3.2", "pipeline/get-first", "GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n"+post(""), is(200), served)
	bytes(rfc9112+"9.3.2", "pipeline/refused-first", "DELETE /rpc HTTP/1.1\r\nHost: {host}\r\n\r\n"+post(""), is(405), served)
	bytes(rfc9112+"11.2", "pipeline/after-chunked", request{header: []string{"Content-Type: application/json", "Transfer-Encoding: chunked"}, body: fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(good), good)}.text()+post(""), served.closed())
	rules = append(rules, Rule{ID: "http/pipeline/hundred", Source: rfc9112 + "9.3.2", Sends: "100 requests at once", Wants: "100 responses in order", On: []string{HTTP}, check: pipelineHundred},
		Rule{ID: "http/split/bytes", Source: rfc9112 + "2", Sends: "a request byte by byte", Wants: served.String(), On: []string{HTTP}, check: byteByByte},
		Rule{ID: "http/keep/hundred", Source: rfc9112 + "9.3", Sends: "100 requests, one after the other", Wants: "100 responses on one connection", On: []string{HTTP}, check: keepHundred})

	// HTTP/2 in cleartext.
	for _, c := range []struct {
		id, source, method, path string
		header                   map[string]string
		body                     string
		wants                    response
	}{
		{"post", rfc9110 + "9.3.3", "POST", "/rpc", nil, good, response{status: 200, answer: served.answer}},
		{"notification", answers4 + "batch of notifications only", "POST", "/rpc", nil, `{"jsonrpc":"2.0","method":"update"}`, response{status: 204, header: map[string]string{"Content-Type": "", "Content-Length": ""}}},
		{"get", answers4 + "wrong HTTP method", "GET", "/rpc", nil, "", response{status: 405, header: map[string]string{"Allow": "POST"}}},
		{"delete", answers4 + "wrong HTTP method", "DELETE", "/rpc", nil, "", response{status: 405, header: map[string]string{"Allow": "POST"}}},
		{"head", answers4 + "wrong HTTP method", "HEAD", "/rpc", nil, "", response{status: 405, header: map[string]string{"Allow": "POST"}}},
		{"text", answers4 + "wrong Content-Type", "POST", "/rpc", map[string]string{"Content-Type": "text/plain"}, good, is(415)},
		{"charset", answers4 + "wrong Content-Type", "POST", "/rpc", map[string]string{"Content-Type": "application/json; charset=latin1"}, good, is(415)},
		{"gzip", rfc9110 + "8.4", "POST", "/rpc", map[string]string{"Content-Encoding": "gzip"}, good, is(415)},
		{"accept", answers4 + "wrong Accept", "POST", "/rpc", map[string]string{"Accept": "text/html"}, good, is(406)},
		{"stream", answers4 + "Accept text/event-stream alone", "POST", "/rpc", map[string]string{"Accept": "text/event-stream"}, good, response{status: 200, header: map[string]string{"Content-Type": "text/event-stream"}, body: data}},
		{"countdown", "Demo, notifications come before the answer", "POST", "/rpc", map[string]string{"Accept": "application/json, text/event-stream"}, `{"jsonrpc":"2.0","id":1,"method":"countdown","params":[2]}`, response{status: 200, header: map[string]string{"Content-Type": "text/event-stream"}, body: "liftoff"}},
		{"host", answers4 + "Host not allowed", "POST", "/rpc", map[string]string{"Host": "evil.example"}, good, is(403)},
		{"host-port", answers4 + "Host not allowed", "POST", "/rpc", map[string]string{"Host": "localhost:1"}, good, is(403)},
		{"localhost", "Reach, hosts and origins", "POST", "/rpc", map[string]string{"Host": "localhost:{port}"}, good, response{status: 200, answer: served.answer}},
		{"origin", answers4 + "Origin not allowed", "POST", "/rpc", map[string]string{"Origin": "https://evil.example"}, good, is(403)},
		{"site", answers4 + "Sec-Fetch-Site cross-site or same-site", "POST", "/rpc", map[string]string{"Sec-Fetch-Site": "cross-site"}, good, is(403)},
		{"unknown-path", rfc9110 + "15.5.5", "POST", "/nope", nil, good, is(404)},
		{"healthz", "Demo, addresses", "GET", "/healthz", nil, "", response{status: 200, body: "ok"}},
		{"page", "Demo, addresses", "GET", "/", nil, "", response{status: 200, header: map[string]string{"Content-Type": "text/html"}}},
		{"empty", answers4 + "empty body", "POST", "/rpc", nil, "", response{status: 200, body: "-32700"}},
		{"upgrade", "RFC 9113, section 8.2.2", "GET", "/rpc", nil, "", is(405)},
	} {
		rules = append(rules, Rule{ID: "h2c/" + c.id, Source: c.source, Sends: c.method + " " + c.path + " " + c.body, Wants: c.wants.String(), On: []string{H2C}, check: func(d *Demo, _ string) error {
			header := map[string]string{"Content-Type": "application/json"}
			for name, value := range c.header {
				header[name] = value
			}
			r, err := d.request2(c.method, c.path, header, []byte(c.body))
			if err != nil {
				return err
			}
			return c.wants.check(r)
		}})
	}
	return rules
}

func pipelineHundred(d *Demo, _ string) error {
	wire, err := d.dialWeb(d.web)
	if err != nil {
		return err
	}
	defer wire.Close()
	var all strings.Builder
	for i := range 100 {
		all.WriteString(fill(request{body: fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"sum","params":[%[1]d]}`, i)}.text(), d.web))
	}
	if _, err := io.WriteString(wire.s, all.String()); err != nil {
		return err
	}
	return inOrder(wire, 100)
}

func inOrder(wire *webWire, n int) error {
	for i := range n {
		r, err := wire.read(http.MethodPost, patience)
		if err != nil {
			return err
		}
		if err := answered(ok(fmt.Sprint(i), fmt.Sprint(i))).check(r); err != nil {
			return err
		}
	}
	return nil
}

func keepHundred(d *Demo, _ string) error {
	wire, err := d.dialWeb(d.web)
	if err != nil {
		return err
	}
	defer wire.Close()
	for range 100 {
		if _, err := io.WriteString(wire.s, fill(request{body: good}.text(), d.web)); err != nil {
			return err
		}
		r, err := wire.read(http.MethodPost, patience)
		if err != nil {
			return err
		}
		if err := served.check(r); err != nil {
			return err
		}
	}
	return nil
}

func byteByByte(d *Demo, _ string) error {
	wire, err := d.dialWeb(d.web)
	if err != nil {
		return err
	}
	defer wire.Close()
	for _, c := range []byte(fill(request{body: good}.text(), d.web)) {
		if _, err := wire.s.Write([]byte{c}); err != nil {
			return err
		}
	}
	r, err := wire.read(http.MethodPost, patience)
	if err != nil {
		return err
	}
	return served.check(r)
}

// slowHTTP returns the rules about HTTP timeouts, which take seconds.
func slowHTTP() []Rule {
	stuck := func(id, source, sends string, within time.Duration, statuses ...int) Rule {
		return Rule{ID: "http/time/" + id, Source: source, Sends: sends, Wants: fmt.Sprintf("%v within %v, closed", statuses, within), On: []string{HTTP}, slow: true, check: func(d *Demo, _ string) error {
			wire, err := d.dialWeb(d.web)
			if err != nil {
				return err
			}
			defer wire.Close()
			if _, err := io.WriteString(wire.s, fill(sends, d.web)); err != nil {
				return err
			}
			r, err := wire.read(http.MethodPost, within)
			switch {
			case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
				if statuses[0] != 0 {
					return fmt.Errorf("closed without an answer: %w", err)
				}
				return nil
			case err != nil:
				return err
			}
			for _, s := range statuses {
				if r.StatusCode == s {
					return ended(wire.s, wire.in)
				}
			}
			return fmt.Errorf("the status is %s", r.Status)
		}}
	}
	const times = "Times, timers"
	return []Rule{
		stuck("half-a-header", times, "POST /rpc HTTP/1.1\r\nHost: {ho", 8*time.Second, 0, 408, 400),
		stuck("nothing", times, "", 8*time.Second, 0, 408, 400),
		stuck("h2-preface-alone", times, "PRI * HTTP/2.0\r\n\r\n", 8*time.Second, 0, 408, 400),
		stuck("no-body", times, request{header: []string{"Content-Type: application/json", "Content-Length: 44"}}.text(), 8*time.Second, 408),
		stuck("half-a-body", times, request{header: []string{"Content-Type: application/json", "Content-Length: 44"}, body: good[:20]}.text(), 8*time.Second, 408),
		stuck("half-a-chunk", times, request{header: []string{"Content-Type: application/json", "Transfer-Encoding: chunked"}, body: "2c\r\n{"}.text(), 8*time.Second, 408),
	}
}
