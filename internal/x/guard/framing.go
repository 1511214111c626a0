package guard

import "net/http"

// EndAfterChunked closes the HTTP/1 connection after the response to r if another HTTP parser could
// have found the end of r at a different position: the following bytes may then be the tail of r,
// and must not run as a request (RFC 9112, sections 6.1 and 11.2). Every handler of parley calls it
// first. HTTP/2 has its own framing and is not affected. Two cases are ambiguous:
//
//   - A chunked body: net/http accepts a Content-Length beside it and hides it.
//   - HTTP/1.0 with keep-alive: net/http ignores Transfer-Encoding there and hides it.
func EndAfterChunked(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && !r.Close && (len(r.TransferEncoding) > 0 || r.ProtoMinor == 0) {
		w.Header()["Connection"] = connectionClose
	}
}

// connectionClose is shared by all responses and must not be modified.
var connectionClose = []string{"close"}
