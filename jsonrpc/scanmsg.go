package jsonrpc

import (
	"fmt"
	"sync"
)

// A Message is one message of a payload, as [Scan] found it. It is valid only in the function that got it.
type Message struct {
	Request bool // has a method, or was meant to have one; otherwise a response
	ID      ID   // zero when absent; null when it could not be read
	Method  string
	Params  Raw
	Result  Raw
	Error   Raw
	Version Version

	// Bad is not nil when this is no valid message: what a server answers to it, if it is a request.
	Bad *Error
}

var parsers = sync.Pool{New: func() any { return &parser{maxBatch: defaultBatch} }}

// Scan parses a payload strictly and without copying, with the default limits, and calls f for each message in it. The *Error
// is for a payload that has none, such as one that is not JSON; f is then not called. A batch of one and a single message look alike.
func Scan(payload []byte, f func(*Message)) *Error { return ScanVersion(Version2, payload, f) }

// ScanVersion is [Scan] on an endpoint that speaks v.
func ScanVersion(v Version, payload []byte, f func(*Message)) *Error {
	p := parsers.Get().(*parser)
	defer parsers.Put(p)
	p.version = v
	if err := p.parse(payload, defaultDepth, defaultTokens); err != nil {
		return err
	}
	for i := range p.msgs {
		m := &p.msgs[i]
		out := Message{
			Request: m.kind != kindResponse && m.kind != kindBadResponse,
			ID:      m.id,
			Params:  m.params.of(payload), Result: m.result.of(payload), Error: m.err.of(payload),
			Version: m.version, Bad: m.bad,
		}
		if text := m.method.of(payload); len(text) > 0 && text[0] == '"' {
			out.Method = textOf(text)
		}
		f(&out)
	}
	return nil
}

// Decode reads the answer as [Peer] Call does: an error becomes an *Error, a result goes into result, which may be nil.
func (m *Message) Decode(result any) error {
	if m.Request || m.Bad != nil {
		return ErrBadResponse
	}
	return decodeAnswer(m.Error, m.Result, m.Version, result)
}

// decodeAnswer reads the answer to a call: its error, if there is one, else its result.
func decodeAnswer(failure, text Raw, v Version, result any) error {
	if failure == nil {
		return decodeResult(text, result)
	}
	e, err := decodeError(failure, v)
	if err != nil {
		return err
	}
	return e
}

// decodeResult reads a result for its caller.
func decodeResult(text Raw, result any) error {
	if result == nil {
		return nil
	}
	if err := decodeValue(text, result); err != nil {
		return fmt.Errorf("jsonrpc: decode the result: %w", err)
	}
	return nil
}
