package jsonrpc

import (
	"errors"
	"strconv"
)

// An ID identifies one call (JSON-RPC 2.0, section 4). It is a string, a number or null, and stores
// the exact text of the message: 1, 1.0, "1" and 9007199254740993 are four different IDs, and each
// response has the ID unchanged. The zero ID means that the member was absent, which makes a
// request a notification.
//
// IDs are comparable with == and can be used as map keys. A non-negative integer of at most 18
// digits costs no allocation.
type ID struct {
	n uint64 // an integer in its canonical form, plus one; zero if s holds the text
	s string // the JSON text of anything else
}

// NullID is the id of the response to a request whose id could not be read (JSON-RPC 2.0, section
// 5).
var NullID = ID{s: "null"}

// maxCompact is the first integer whose ID is stored as text: it has 19 digits.
const maxCompact = 1_000_000_000_000_000_000

// IntID returns the ID of an integer.
func IntID(n int64) ID {
	if n >= 0 && n < maxCompact {
		return ID{n: uint64(n) + 1}
	}
	return ID{s: strconv.FormatInt(n, 10)}
}

// StringID returns the ID of a string. Invalid UTF-8 in s is replaced by U+FFFD.
func StringID(s string) ID {
	return ID{s: string(AppendString(nil, s))}
}

// ParseID parses the JSON text of an ID. It returns an error unless text is one string, number or
// null without white space around it.
func ParseID(text []byte) (ID, error) {
	s := defaultScanner()
	end, err := s.value(text, 0)
	if err != nil || end != len(text) || text[0] <= ' ' || !isScalarID(text) || s.lone {
		return ID{}, errors.New("jsonrpc: an id must be a string, a number or null")
	}
	return idOf(text), nil
}

// isScalarID reports whether the valid JSON value in text may be an id.
func isScalarID(text []byte) bool {
	switch text[0] {
	case '{', '[', 't', 'f':
		return false
	}
	return true
}

// idOf returns the ID of a value that must be a string, a number or null.
func idOf(text []byte) ID {
	if n, ok := compactInt(text); ok {
		return ID{n: n + 1}
	}
	if len(text) == 4 && text[0] == 'n' {
		return NullID
	}
	return ID{s: string(text)}
}

// compactInt parses digits without sign, fraction, exponent or leading zero.
func compactInt(text []byte) (uint64, bool) {
	if len(text) == 0 || len(text) > 18 || (text[0] == '0' && len(text) > 1) {
		return 0, false
	}
	var n uint64
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, true
}

// IsZero reports whether the id was absent.
func (id ID) IsZero() bool { return id.n == 0 && id.s == "" }

// IsNull reports whether the id is null, which differs from absent.
func (id ID) IsNull() bool { return id == NullID }

// Names reports whether id identifies the call with the id own: both are the same id, or the same
// string with different escapes. Some peers escape text that is not ASCII.
func (id ID) Names(own ID) bool {
	return id == own || len(id.s) >= 2 && id.s[0] == '"' && isEscaped([]byte(id.s)) && StringID(textOf([]byte(id.s))) == own
}

// Int returns the id as an integer, if it is one in canonical form that fits.
func (id ID) Int() (int64, bool) {
	if id.n != 0 {
		return int64(id.n - 1), true
	}
	n, err := strconv.ParseInt(id.s, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == id.s
}

// Append appends the JSON text of the id to dst. An absent id is written as null.
func (id ID) Append(dst []byte) []byte {
	switch {
	case id.n != 0:
		return strconv.AppendUint(dst, id.n-1, 10)
	case id.s == "":
		return append(dst, "null"...)
	default:
		return append(dst, id.s...)
	}
}

// String returns the JSON text of the id, or "" if it is absent.
func (id ID) String() string {
	if id.n != 0 {
		return strconv.FormatUint(id.n-1, 10)
	}
	return id.s
}

// MarshalJSON returns the id's original text, so that an ID can be a field of params or results.
func (id ID) MarshalJSON() ([]byte, error) { return id.Append(nil), nil }

// UnmarshalJSON stores the text of a string, a number or null.
func (id *ID) UnmarshalJSON(text []byte) error {
	parsed, err := ParseID(text)
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}
