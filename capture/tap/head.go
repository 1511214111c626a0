package tap

import (
	"bufio"
	"bytes"
	"errors"
	"mime"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/httptoken"
)

// A head is the start line and headers of an HTTP/1.1 message, as far as they are examined.
type head struct {
	method, uri string   // of a request
	status      int      // of a response
	fields      []string // names and values in turn
	kind        string   // the media type, "" if there is no valid one
	coding      string   // Content-Encoding
	upgrade     string
	length      int64 // length of the body; -1 if not specified
	chunked     bool
}

func (h *head) isJSON() bool { return isJSONKind(h.kind) }

// parseHead parses the head of a message. Common forms are parsed here, because a tap delays each
// message; the rest is left to net/http, which implements all rules. method is the method of the
// request that a response belongs to.
func parseHead(text []byte, response bool, method string) (*head, error) {
	if h := plainHead(string(text), response); h != nil {
		return h, nil
	}
	if response {
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), &http.Request{Method: method})
		if err != nil {
			return nil, err
		}
		_ = resp.Body.Close() // the body is empty: only the head was read
		h := &head{status: resp.StatusCode, length: resp.ContentLength}
		h.chunked = len(resp.TransferEncoding) > 0 && resp.TransferEncoding[0] == "chunked"
		h.copyHeaders(resp.Header)
		return h, nil
	}
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
	if err != nil {
		return nil, err
	}
	if req.ProtoMajor != 1 {
		return nil, errors.New("not HTTP/1")
	}
	h := &head{method: req.Method, uri: req.RequestURI, length: req.ContentLength}
	h.chunked = len(req.TransferEncoding) > 0 && req.TransferEncoding[0] == "chunked"
	if req.Host != "" {
		h.fields = append(h.fields, "Host", req.Host)
	}
	h.copyHeaders(req.Header)
	return h, nil
}

// copyHeaders copies the headers of net/http.
func (h *head) copyHeaders(fields http.Header) {
	for name, values := range fields {
		for _, v := range values {
			h.fields = append(h.fields, name, v)
		}
	}
	h.kind, h.coding, h.upgrade = mediaType(fields.Get("Content-Type")), strings.ToLower(fields.Get("Content-Encoding")), fields.Get("Upgrade")
}

// plainHead parses a head without unusual parts, and returns nil for any other.
func plainHead(text string, response bool) *head {
	line, rest, ok := strings.Cut(text, "\r\n")
	if !ok || !isText(line) {
		return nil
	}
	h := &head{fields: make([]string, 0, 2*strings.Count(rest, "\r\n"))}
	first, after, ok := strings.Cut(line, " ")
	switch {
	case !ok:
		return nil
	case response:
		code, _, _ := strings.Cut(after, " ")
		status, err := strconv.ParseUint(code, 10, 16)
		if first != "HTTP/1.1" || err != nil || len(code) != 3 {
			return nil
		}
		h.status, h.length = int(status), -1
	default:
		uri, proto, ok := strings.Cut(after, " ")
		if !ok || proto != "HTTP/1.1" || !httptoken.Valid(first) || uri == "" {
			return nil
		}
		h.method, h.uri = first, uri
	}
	sized, typed, coded := false, false, false // each examined header may occur only once
	for rest != "\r\n" {
		line, rest, ok = strings.Cut(rest, "\r\n")
		name, value, colon := strings.Cut(line, ":")
		if !ok || !colon || !httptoken.Valid(name) || !isText(value) {
			return nil // a folded line
		}
		name, value = textproto.CanonicalMIMEHeaderKey(name), strings.Trim(value, " \t")
		h.fields = append(h.fields, name, value)
		switch name {
		case "Content-Length":
			n, err := strconv.ParseUint(value, 10, 62)
			if err != nil || sized || h.chunked {
				return nil
			}
			h.length, sized = int64(n), true
		case "Transfer-Encoding":
			if !strings.EqualFold(value, "chunked") || sized || h.chunked {
				return nil
			}
			h.chunked, h.length = true, -1
		case "Content-Type":
			if typed {
				return nil
			}
			h.kind, typed = mediaType(value), true
		case "Content-Encoding":
			if coded {
				return nil
			}
			h.coding, coded = strings.ToLower(value), true
		case "Upgrade":
			if h.upgrade != "" {
				return nil
			}
			h.upgrade = value
		}
	}
	return h
}

// isText reports whether text has no control characters except tabs.
func isText(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// mediaType returns a content type without its parameters, or "" if it is invalid.
func mediaType(text string) string {
	if text == "" || text == "application/json" || text == "text/event-stream" {
		return text // the common cases need no parsing
	}
	kind, _, err := mime.ParseMediaType(text)
	if err != nil {
		return ""
	}
	return kind
}

func isJSONKind(kind string) bool {
	return kind == "application/json" || strings.HasSuffix(kind, "+json")
}

// isJSON reports whether the headers declare a JSON body.
func isJSON(h http.Header) bool { return isJSONKind(mediaType(h.Get("Content-Type"))) }
