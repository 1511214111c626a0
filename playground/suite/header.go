package suite

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/internal/x/httptoken"
)

// A HeaderError is an invalid header.
type HeaderError struct {
	Index  int    // in the list
	Member string // name or value
	Text   string
}

func (e *HeaderError) Error() string { return e.Text }

// HeaderOf returns the headers of a list. A header without a value has nil values. An error is a
// [*HeaderError].
func HeaderOf(list []Header) (http.Header, error) {
	if len(list) == 0 {
		return nil, nil
	}
	h := make(http.Header)
	for i, f := range list {
		if !httptoken.Valid(f.Name) {
			return nil, &HeaderError{i, "name", fmt.Sprintf("%q is not a valid header name", harmless.Shorten(f.Name, 60))}
		}
		name := http.CanonicalHeaderKey(f.Name)
		if f.Value == nil {
			h[name] = nil
			continue
		}
		if strings.ContainsAny(*f.Value, "\r\n\x00") {
			return nil, &HeaderError{i, "value", "a header must be one line"}
		}
		h.Add(name, *f.Value)
	}
	return h, nil
}
