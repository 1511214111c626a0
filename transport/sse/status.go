package sse

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// The statuses that ask something of whoever makes the calls, for errors.Is with a [StatusError].
var (
	ErrUnauthorized = errors.New("the server wants other credentials") // 401
	ErrForbidden    = errors.New("the server forbids this")            // 403
)

// MediaType returns what an answer is, in lower case and without parameters; "" if its Content-Type says nothing that can be read.
func MediaType(answer *http.Response) string {
	value := answer.Header.Get("Content-Type")
	if value == "application/json" {
		return value // most of them
	}
	kind, _, err := mime.ParseMediaType(value)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return ""
	}
	return kind
}

// IsStream reports whether an answer is an event stream.
func IsStream(answer *http.Response) bool {
	return answer.StatusCode == http.StatusOK && MediaType(answer) == ContentType
}

// A StatusError is an HTTP answer that is no JSON-RPC answer: what stands before the server said no.
type StatusError struct {
	Status int
	Header http.Header
	Body   []byte         // at most 1 KiB of it
	Err    *jsonrpc.Error // what the body says, when it is a JSON-RPC error nevertheless; usually nil
}

const maxStatusBody = 1 << 10

// NewStatusError reads the beginning of the answer's body. The caller closes it.
func NewStatusError(answer *http.Response) *StatusError {
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxStatusBody)) // the status says enough
	return &StatusError{Status: answer.StatusCode, Header: answer.Header, Body: body}
}

// Error returns the status and the first bytes of the text.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("HTTP %d %s", e.Status, http.StatusText(e.Status))
	switch {
	case e.Err != nil:
		return text + ": " + e.Err.Error()
	case len(e.Body) > 0:
		return fmt.Sprintf("%s: %.64q", text, e.Body)
	}
	return text
}

// Is reports whether target is the kind of the status.
func (e *StatusError) Is(target error) bool {
	return target == ErrUnauthorized && e.Status == http.StatusUnauthorized ||
		target == ErrForbidden && e.Status == http.StatusForbidden
}

// Unwrap returns the JSON-RPC error of the body, if there is one.
func (e *StatusError) Unwrap() error {
	if e.Err == nil {
		return nil
	}
	return e.Err
}
