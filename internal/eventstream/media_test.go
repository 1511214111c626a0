package eventstream

import (
	"net/http"
	"testing"
)

func TestMediaType(t *testing.T) {
	for _, c := range []struct {
		header, want string
		stream       bool
	}{
		{"application/json", "application/json", false},
		{"Application/JSON; charset=utf-8", "application/json", false},
		{"text/event-stream", "text/event-stream", true},
		{"text/event-stream;charset=UTF-8", "text/event-stream", true},
		{"TEXT/EVENT-STREAM ; charset", "text/event-stream", true}, // an invalid parameter
		{"text/event-stream-x", "text/event-stream-x", false},
		{"text/event-stream, application/json", "", false},
		{"", "", false},
		{";", "", false},
	} {
		answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {c.header}}}
		if got := MediaType(answer); got != c.want {
			t.Errorf("%q is %q, want %q", c.header, got, c.want)
		}
		if got := IsStream(answer); got != c.stream {
			t.Errorf("%q is a stream: %v", c.header, got)
		}
		answer.StatusCode = http.StatusAccepted
		if IsStream(answer) {
			t.Errorf("%q with status 202 is a stream", c.header)
		}
	}
}
