package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// A Pair is the params of subtract.
type Pair struct {
	Minuend    int `json:"minuend"`
	Subtrahend int `json:"subtrahend"`
}

const (
	minuend    = 42
	subtrahend = 23
	difference = minuend - subtrahend
)

// checkDifference checks the result in each caller.
func checkDifference(got int) error {
	if got != difference {
		return fmt.Errorf("42 - 23 = %d", got)
	}
	return nil
}

// An OwnPair is a [Pair] with its own append and parse methods, as a generator would write them.
type OwnPair Pair

// AppendJSON appends the object to dst.
func (p OwnPair) AppendJSON(dst []byte) ([]byte, error) {
	dst = strconv.AppendInt(append(dst, `{"minuend":`...), int64(p.Minuend), 10)
	dst = strconv.AppendInt(append(dst, `,"subtrahend":`...), int64(p.Subtrahend), 10)
	return append(dst, '}'), nil
}

var errPair = errors.New("want the members minuend and subtrahend, both integers")

// ParseJSON parses the object. text must be one valid JSON value.
func (p *OwnPair) ParseJSON(text []byte) error {
	if p.parseUsual(text) {
		return nil
	}
	*p = OwnPair{}
	if text[0] != '{' {
		return errPair
	}
	var seen [2]bool
	for i := skip(text, 1); text[i] != '}'; {
		i = skip(text, i)
		var field int
		var value *int
		switch {
		case bytes.HasPrefix(text[i:], []byte(`"minuend"`)):
			field, value, i = 0, &p.Minuend, i+len(`"minuend"`)
		case bytes.HasPrefix(text[i:], []byte(`"subtrahend"`)):
			field, value, i = 1, &p.Subtrahend, i+len(`"subtrahend"`)
		default:
			return errPair
		}
		if seen[field] {
			return errPair
		}
		seen[field] = true
		i = skip(text, skip(text, i)+1) // the colon
		n, err := 0, error(nil)
		if n, i, err = integer(text, i); err != nil {
			return err
		}
		*value = n
		if i = skip(text, i); text[i] == ',' {
			i++
		}
	}
	if seen != [2]bool{true, true} {
		return errPair
	}
	return nil
}

// parseUsual parses an object whose members are in the order of the fields, without white space, as
// nearly all programs write them.
func (p *OwnPair) parseUsual(text []byte) bool {
	const first, second = `{"minuend":`, `,"subtrahend":`
	if len(text) < len(first) || string(text[:len(first)]) != first {
		return false
	}
	var i int
	var err error
	if p.Minuend, i, err = integer(text, len(first)); err != nil || len(text)-i < len(second) || string(text[i:i+len(second)]) != second {
		return false
	}
	p.Subtrahend, i, err = integer(text, i+len(second))
	return err == nil && text[i] == '}'
}

// skip returns the index of the first byte from i on that is not white space.
func skip(text []byte, i int) int {
	for text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r' {
		i++
	}
	return i
}

// integer parses an integer of at most 18 digits.
func integer(text []byte, i int) (n, end int, err error) {
	negative := text[i] == '-'
	if negative {
		i++
	}
	start := i
	for ; i < len(text) && '0' <= text[i] && text[i] <= '9'; i++ {
		n = n*10 + int(text[i]-'0')
	}
	if i == start || i-start > 18 || i < len(text) && (text[i] == '.' || text[i]|0x20 == 'e') {
		return 0, i, errPair
	}
	if negative {
		n = -n
	}
	return n, i, nil
}

// An OwnNumber is the result of subtract with its own append and parse methods.
type OwnNumber int

// AppendJSON appends the number to dst.
func (n OwnNumber) AppendJSON(dst []byte) ([]byte, error) {
	return strconv.AppendInt(dst, int64(n), 10), nil
}

// ParseJSON parses the number.
func (n *OwnNumber) ParseJSON(text []byte) error {
	v, end, err := integer(text, 0)
	if err == nil && end != len(text) {
		err = errPair
	}
	*n = OwnNumber(v)
	return err
}

// The messages of the small call. The IDs in a feed have as many digits as those in the middle of a
// run.
const (
	smallRequest = `{"jsonrpc":"2.0","method":"subtract","params":{"minuend":42,"subtrahend":23},"id":12345}`
	smallAnswer  = `{"jsonrpc":"2.0","result":19,"id":12345}`
)

// document returns a JSON object of n bytes or a little more: records as an application stores
// them, with names, numbers, lists and occasional text that needs an escape or is not ASCII.
func document(n int) []byte {
	doc := []byte(`{"items":[`)
	for i := 0; len(doc) < n-2; i++ {
		if i > 0 {
			doc = append(doc, ',')
		}
		doc = fmt.Appendf(doc, `{"id":%d,"name":"Item number %d","price":%d.%02d,"tags":["new","größer","a/b"],"stock":{"here":%d,"there":null},"on":%t,"note":"first line\nsecond \"line\""}`,
			1000+i, i, i%500, i%100, i%37, i%2 == 0)
	}
	return append(doc, `]}`...)
}

// checkEcho compares the response with the sent document in each caller.
func checkEcho(sent, got []byte) error {
	if !bytes.Equal(sent, got) {
		return fmt.Errorf("the echo of %d bytes has %d and differs", len(sent), len(got))
	}
	return nil
}
