package store

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Page is the maximum number of entries in a page of [Log.Heads] or [Values.List]. PageBytes is the
// amount of data, in bytes, after which a page ends.
const (
	Page      = 1000
	PageBytes = 16 << 20
)

const maxKey = 256

// EntryBytes is what each event, log and value adds to Limits.Bytes besides its data.
const EntryBytes = 64

// Limits bounds the contents of a store. In each field zero means the default and a negative value
// means no bound.
type Limits struct {
	EventBytes int64 // data of one event; default 1 MiB
	LogEvents  int64 // events of one log; default 10,000
	LogBytes   int64 // data of one log; default 10 MiB
	Logs       int64 // logs; default 100,000
	ValueBytes int64 // data of one value; default 1 MiB
	Values     int64 // values; default 100,000
	// Bytes bounds all data plus EntryBytes per entry. The default is 256 MiB in memory, 64 GiB on
	// disk.
	Bytes int64
}

// WithDefaults returns the effective limits: zero fields get their defaults, with bytes as the
// default of Bytes. It is for drivers.
func (l Limits) WithDefaults(bytes int64) Limits {
	set := func(field *int64, value int64) {
		switch {
		case *field == 0:
			*field = value
		case *field < 0:
			*field = 1<<63 - 1
		}
	}
	set(&l.EventBytes, 1<<20)
	set(&l.LogEvents, 10_000)
	set(&l.LogBytes, 10<<20)
	set(&l.Logs, 100_000)
	set(&l.ValueBytes, 1<<20)
	set(&l.Values, 100_000)
	set(&l.Bytes, bytes)
	return l
}

// CheckKey returns an [ErrKey] error if key is invalid. It is for drivers.
func CheckKey(key string) error {
	if key == "" || len(key) > maxKey || !utf8.ValidString(key) {
		return fmt.Errorf("%w: %.64q is not 1 to %d bytes of UTF-8", ErrKey, key, maxKey)
	}
	for _, r := range key {
		if unicode.IsControl(r) {
			return fmt.Errorf("%w: %.64q has a control character", ErrKey, key)
		}
	}
	return nil
}

// CheckEvents returns the size of all events, or a [*LimitError] if an event is too large. It is
// for drivers.
func (l Limits) CheckEvents(events [][]byte) (size int64, err error) {
	for _, e := range events {
		if int64(len(e)) > l.EventBytes {
			return 0, &LimitError{What: "bytes of one event", Limit: l.EventBytes}
		}
		size += int64(len(e))
	}
	return size, nil
}

// CheckLog returns a [*LimitError] if a log must not grow to the given events or bytes. It is for
// drivers.
func (l Limits) CheckLog(events, bytes int64) error {
	switch {
	case events > l.LogEvents:
		return &LimitError{What: "events of one log", Limit: l.LogEvents}
	case bytes > l.LogBytes:
		return &LimitError{What: "bytes of one log", Limit: l.LogBytes}
	}
	return nil
}

// CheckTotal returns a [*LimitError] if a store must not hold the given totals. It is for drivers.
func (l Limits) CheckTotal(logs, values, bytes int64) error {
	switch {
	case logs > l.Logs:
		return &LimitError{What: "logs", Limit: l.Logs}
	case values > l.Values:
		return &LimitError{What: "values", Limit: l.Values}
	case bytes > l.Bytes:
		return &LimitError{What: "bytes in all", Limit: l.Bytes}
	}
	return nil
}
