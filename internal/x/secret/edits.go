package secret

import "slices"

// edits are positions of a text to be replaced.
type edits struct {
	list   []edit
	until  int   // everything before it is redacted already
	keyIDs []int // where IDs of AWS access keys were found
	depth  int   // the number of encodings that were decoded
}

type edit struct {
	from, to int
	text     string
}

func (e *edits) add(from, to int, text string) { e.list = append(e.list, edit{from, to, text}) }

// sorted returns the edits in order. Those that are inside others are dropped, and those that
// overlap become one.
func (e *edits) sorted() []edit {
	slices.SortStableFunc(e.list, func(a, b edit) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to
	})
	kept := e.list[:0]
	done := 0
	for _, x := range e.list {
		if x.from >= done {
			kept = append(kept, x)
			done = x.to
		} else if x.to > done {
			kept[len(kept)-1].to = x.to
			done = x.to
		}
	}
	return kept
}

func (e *edits) apply(text string) string {
	if len(e.list) == 0 {
		return text
	}
	return string(e.applyBytes([]byte(text)))
}

func (e *edits) applyBytes(text []byte) []byte {
	if len(e.list) == 0 {
		return text
	}
	var out []byte
	done := 0
	for _, x := range e.sorted() {
		out = append(append(out, text[done:x.from]...), x.text...)
		done = x.to
	}
	return append(out, text[done:]...)
}
