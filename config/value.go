package config

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// valueAge is the time after which the files of a Value are read again.
const valueAge = 60 * time.Second

// A Value is a text of a file with variables, such as Bearer ${file:/run/secrets/token}. Its files
// are read again when the value is used and the last reading is 60 s old, so that a secret can be
// replaced without a restart. A Value is safe for concurrent use.
type Value struct {
	text    string
	options ExpandOptions

	mu      sync.Mutex // guards the fields below; held while files are read
	read    bool
	at      time.Time
	now     string
	secrets []string
	err     error
}

// NewValue returns the value of a text. o configures its variables; if nil, defaults are used.
func NewValue(text string, o *ExpandOptions) *Value {
	v := &Value{text: text}
	if o != nil {
		v.options = *o
	}
	return v
}

// Get returns the present value. If a variable is not set or a file cannot be read, it returns an
// [*UnsetError] that names it, also if an earlier call succeeded. A nil Value is the empty text.
func (v *Value) Get() (string, error) {
	now, _, err := v.get()
	return now, err
}

// Secrets returns the parts of the present value that must not be shown or recorded.
func (v *Value) Secrets() []string {
	_, secrets, _ := v.get() // the caller of Get handles the error
	return secrets
}

// Text returns the text with its variables, as it is in the file.
func (v *Value) Text() string {
	if v == nil {
		return ""
	}
	return v.text
}

func (v *Value) get() (string, []string, error) {
	if v == nil {
		return "", nil, nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.read || time.Since(v.at) >= valueAge {
		v.now, v.secrets, v.err = Expand(v.text, &v.options)
		v.at, v.read = time.Now(), true
	}
	return v.now, v.secrets, v.err
}

// Headers are request headers whose values are read again as those of a [Value]. They are safe for
// concurrent use. A nil *Headers is empty.
type Headers struct {
	names  []string // in canonical form
	values []*Value
}

func (h *Headers) set(name string, v *Value) {
	name = http.CanonicalHeaderKey(name)
	if i := slices.Index(h.names, name); i >= 0 {
		h.values[i] = v
		return
	}
	h.names, h.values = append(h.names, name), append(h.values, v)
}

// same reports whether the texts of two sets of headers are equal.
func (h *Headers) same(other *Headers) bool {
	if h == nil || other == nil {
		return h == other
	}
	return slices.Equal(h.names, other.names) && slices.EqualFunc(h.values, other.values, func(a, b *Value) bool { return a.Text() == b.Text() })
}

// Get returns the present headers, which the caller may change. Its error is that of [Value.Get]
// for the first header without a value.
func (h *Headers) Get() (http.Header, error) {
	if h == nil {
		return http.Header{}, nil
	}
	out := make(http.Header, len(h.names))
	for i, name := range h.names {
		value, err := h.values[i].Get()
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", name, err)
		}
		if strings.ContainsAny(value, "\r\n\x00") {
			return nil, fmt.Errorf("header %s: the value has more than one line", name)
		}
		out[name] = []string{value}
	}
	return out, nil
}

// Change reports whether a header has a value from a file, which is read again.
func (h *Headers) Change() bool {
	return h != nil && slices.ContainsFunc(h.values, func(v *Value) bool { return strings.Contains(v.text, "${file:") })
}

// Secrets returns the parts of the present headers that must not be shown or recorded.
func (h *Headers) Secrets() (list []string) {
	if h == nil {
		return nil
	}
	for i, v := range h.values {
		list = append(list, v.Secrets()...)
		if value, err := v.Get(); err == nil && isSecret(h.names[i]) && len(value) >= minSecret {
			list = append(list, secretPart(value))
		}
	}
	return list
}
