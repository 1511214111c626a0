package websocket

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
)

// A HandshakeError is a handshake that ended without a WebSocket: refused by the server, or by us.
type HandshakeError struct {
	Status int         // of the HTTP response; 101 when the server agreed and said it wrongly
	Header http.Header // of the response, nil for Upgrade
	Body   string      // the first KiB of the response's body
	Reason string      // what is wrong, in our words; "" if the server just said no
}

func (e *HandshakeError) Error() string {
	text := fmt.Sprintf("websocket: handshake: status %d", e.Status)
	if e.Reason != "" {
		return text + ": " + e.Reason
	}
	if e.Body != "" {
		return fmt.Sprintf("%s: %.64q", text, strings.TrimSpace(e.Body))
	}
	return text
}

// acceptKey is what proves that a server understood the key of a handshake (RFC 6455, section 4.2.2).
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// tokens are the elements of all lines of a header that is a list (RFC 9110, section 5.6.1).
func tokens(h http.Header, name string) []string {
	var list []string
	for _, line := range h.Values(name) {
		for element := range strings.SplitSeq(line, ",") {
			if element = strings.Trim(element, " \t"); element != "" {
				list = append(list, element)
			}
		}
	}
	return list
}

// has reports whether a list contains token; case does not matter.
func has(list []string, token string) bool {
	for _, element := range list {
		if strings.EqualFold(element, token) {
			return true
		}
	}
	return false
}

// isToken reports whether s is a token (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}
