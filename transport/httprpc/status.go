package httprpc

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// The statuses that require an action of the caller, for errors.Is with a [StatusError].
var (
	ErrUnauthorized = errors.New("the server rejects the credentials") // 401
	ErrForbidden    = errors.New("the server denies access")           // 403
)

// A StatusError is an HTTP response that is not a JSON-RPC response: an HTTP layer before the
// server refused the request.
type StatusError struct {
	Status int
	Header http.Header
	Body   []byte         // at most 1 KiB of it
	Err    *jsonrpc.Error // the JSON-RPC error in the body, if there is one; usually nil
}

const maxStatusBody = 1 << 10

// NewStatusError reads the beginning of the response's body. The caller closes it.
func NewStatusError(answer *http.Response) *StatusError {
	// without the body, the status is sufficient
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxStatusBody))
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
