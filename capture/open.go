package capture

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxOpenRows bounds the rows of a file that is opened.
const maxOpenRows = 2_000_000

// maxFaults is how many lines that cannot be read are told one by one.
const maxFaults = 8

// Open reads a session file, which may still be written to: what is there is read once. The rows are kept in memory, the payloads are read from the
// file when they are wanted. A line that cannot be read is left out, and [Log.Err] tells which.
func Open(name string, judges ...Judge) (*Log, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	defer f.Close()
	return read(f, &segment{name: name}, judges)
}

// Read is [Open] for a session that is no file, such as one that was dropped on a page. All of it is kept in memory.
func Read(r io.Reader, judges ...Judge) (*Log, error) { return read(r, nil, judges) }

func read(r io.Reader, file *segment, judges []Judge) (*Log, error) {
	l := newLog(maxOpenRows)
	book := NewBook(judges...)
	in := bufio.NewReaderSize(r, 256<<10)
	var b *block
	var long []byte
	offset, number, events, bad := int64(0), 0, 0, 0
	for {
		text, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long[:0], text...)
			for errors.Is(err, bufio.ErrBufferFull) {
				text, err = in.ReadSlice('\n')
				long = append(long, text...)
			}
			text = long
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("capture: %w", err)
		}
		if len(text) == 0 && err != nil {
			break
		}
		number++
		at := offset
		offset += int64(len(text))
		if lines := splitLines(text); len(lines) == 1 {
			e, fault := ParseLine(lines[0])
			switch {
			case errors.Is(fault, errHeader):
			case fault != nil:
				bad++
				if number == 1 {
					return nil, fmt.Errorf("line 1: %w", fault)
				}
				if len(l.faults) < maxFaults {
					l.faults = append(l.faults, fmt.Errorf("line %d: %w", number, fault))
				}
			default:
				events++
				if e.Seq <= l.last {
					e.Seq = l.last + 1
				}
				if b == nil || b.size >= blockBytes || at != b.offset+int64(b.size) || e.Seq != b.last+1 {
					b = &block{first: e.Seq, file: file, offset: at}
					l.blocks = append(l.blocks, b)
				}
				b.last, b.size = e.Seq, b.size+len(text)
				if file == nil {
					b.lines = append(b.lines, text...)
					l.memory += int64(len(text))
				}
				l.last = e.Seq
				if e.Kind == KindLost {
					l.lost += int64(e.Size)
				}
				l.mergeLocked(book.Add(&e)) // nobody else has it yet
			}
		}
		if err != nil {
			break
		}
	}
	if bad > maxFaults {
		l.faults = append(l.faults, fmt.Errorf("capture: %d lines could not be read", bad))
	}
	l.ended = true
	return l, nil
}
