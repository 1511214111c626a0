package websocket

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
)

// A HandshakeError is a handshake that ended without a WebSocket: the server or this package
// refused it.
type HandshakeError struct {
	Status int         // of the HTTP response; 101 if the server accepted with an invalid response
	Header http.Header // of the response, nil for Upgrade
	Body   string      // the first KiB of the response's body
	Reason string      // parley's description of what is wrong; "" if the server just refused
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

// acceptKey returns the proof that a server understood the key of a handshake (RFC 6455, section
// 4.2.2).
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// tokens returns the elements of all lines of a header that is a list (RFC 9110, section 5.6.1).
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

// has reports whether list contains token, ignoring case.
func has(list []string, token string) bool {
	for _, element := range list {
		if strings.EqualFold(element, token) {
			return true
		}
	}
	return false
}
