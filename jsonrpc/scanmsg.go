package jsonrpc

import (
	"fmt"
	"sync"
)

// A Message is one message of a payload, as parsed by [Scan]. It is valid only during the call of
// the function that receives it.
type Message struct {
	Request bool // has a method, or seems to be a request; otherwise it is a response
	ID      ID   // zero if absent; null if it could not be read
	Method  string
	Params  Raw
	Result  Raw
	Error   Raw
	Version Version

	// Bad is nil if the message is valid. Otherwise it is the error that a server responds with, if
	// the message is a request.
	Bad *Error
}

var parsers = sync.Pool{New: func() any { return &parser{maxBatch: defaultBatch} }}

// Scan parses a payload strictly and without copying, with the default limits, and calls f for each
// message in it. It returns an *Error, and does not call f, for a payload without messages, such as
// one that is not JSON. f cannot distinguish a batch of one from a single message.
func Scan(payload []byte, f func(*Message)) *Error { return ScanVersion(Version2, payload, f) }

// ScanVersion is [Scan] for an endpoint of version v.
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

// Decode decodes a response as [Peer] Call does: an error is returned as *Error, a result is
// decoded into result, which may be nil.
func (m *Message) Decode(result any) error {
	if m.Request || m.Bad != nil {
		return ErrBadResponse
	}
	return decodeAnswer(m.Error, m.Result, m.Version, result)
}

// decodeAnswer decodes the response to a call: its error if it has one, otherwise its result.
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

// decodeResult decodes a result for its caller.
func decodeResult(text Raw, result any) error {
	if result == nil {
		return nil
	}
	if err := decodeValue(text, result); err != nil {
		return fmt.Errorf("jsonrpc: decode the result: %w", err)
	}
	return nil
}
