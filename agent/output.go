package agent

import "errors"

// ErrTooLarge is returned when the output of a run is over the limit of what collects it. The run
// is cancelled.
var ErrTooLarge = errors.New("agent: the output of the run is too large")

// defaultOutput is the default of [Output.Max], and partWeight what each part weighs besides its
// content, in bytes.
const (
	defaultOutput = 64 << 20
	partWeight    = 1 << 10
)

// An Output collects the output of a run. Text that continues the part before it is joined to it,
// as by [Join], in time proportional to its length. The zero Output is ready to use. It is not safe
// for concurrent use.
type Output struct {
	// Max is the limit of the output, in bytes, with 1 KiB for each part. Zero means 64 MiB, and a
	// negative value no limit.
	Max int64

	parts   []Part
	text    []byte // of the last part, while it grows; nil if the part has all of it
	message string // of the last part
	weight  int64
}

// Add adds the parts of an event. Parts of different messages are not joined. It returns
// ErrTooLarge, and adds nothing, if the limit would be exceeded.
func (o *Output) Add(e *Event) error {
	weight := 0
	for i := range e.Parts {
		weight += o.cost(&e.Parts[i], i, e)
	}
	if err := o.Spend(weight); err != nil {
		return err
	}
	more := e.Parts
	if o.message != e.Message && len(more) > 0 {
		o.flush()
		o.parts, more, o.message = append(o.parts, more[0]), more[1:], e.Message
	}
	o.join(more)
	return nil
}

// Spend counts bytes that are stored beside the output, such as metadata of its events, against the
// limit. It returns ErrTooLarge if that would be exceeded.
func (o *Output) Spend(bytes int) error {
	most := o.Max
	if most == 0 {
		most = defaultOutput
	}
	if most > 0 && o.weight+int64(bytes) > most {
		return ErrTooLarge
	}
	o.weight += int64(bytes)
	return nil
}

// cost returns the memory of the part at an index of an event, in bytes.
func (o *Output) cost(p *Part, i int, e *Event) int {
	before := (*Part)(nil)
	switch {
	case i > 0:
		before = &e.Parts[i-1]
	case len(o.parts) > 0 && o.message == e.Message:
		before = &o.parts[len(o.parts)-1]
	}
	if before != nil && p.continues(before) {
		return len(p.Text)
	}
	return partWeight + len(p.Text) + len(p.Data) + len(p.JSON) + len(p.URL) + len(p.Name) + len(p.MediaType) + len(p.Filename) + p.Metadata.size()
}

// size returns the bytes of m.
func (m Metadata) size() int {
	n := 0
	for key, value := range m {
		n += len(key) + len(value)
	}
	return n
}

// join appends parts and merges text that continues the last one.
func (o *Output) join(more []Part) {
	for i := range more {
		p := &more[i]
		n := len(o.parts)
		if n == 0 || !p.continues(&o.parts[n-1]) {
			o.flush()
			o.parts = append(o.parts, *p)
			continue
		}
		if o.text == nil {
			o.text = append(make([]byte, 0, 2*(len(o.parts[n-1].Text)+len(p.Text))), o.parts[n-1].Text...)
		}
		o.text = append(o.text, p.Text...)
	}
}

// flush sets the text of the last part.
func (o *Output) flush() {
	if o.text != nil {
		o.parts[len(o.parts)-1].Text = string(o.text)
		o.text = nil
	}
}

// Parts returns the output so far. The slice is valid until the next Add.
func (o *Output) Parts() []Part {
	o.flush()
	return o.parts
}
