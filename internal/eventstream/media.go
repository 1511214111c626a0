package eventstream

import (
	"errors"
	"mime"
	"net/http"
)

// ContentType is the media type of an event stream.
const ContentType = "text/event-stream"

// MediaType returns the media type of a response, in lower case and without parameters; "" if its
// Content-Type cannot be parsed.
func MediaType(answer *http.Response) string {
	value := answer.Header.Get("Content-Type")
	if value == "application/json" {
		return value // the usual case
	}
	kind, _, err := mime.ParseMediaType(value)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return ""
	}
	return kind
}

// IsStream reports whether a response is an event stream.
func IsStream(answer *http.Response) bool {
	return answer.StatusCode == http.StatusOK && MediaType(answer) == ContentType
}
