package main

import (
	"bufio"
	"bytes"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of a table. Names and values come from the server, so one row can define any number of
// columns.
const (
	maxCell    = 80 // maximum bytes shown of one cell
	maxColumns = 64 // members of a row without a column are counted in an extra last column
	// With more columns, at least a quarter of the cells must be filled, else no table is written.
	maxSparse = 8
)

// table writes a list of objects as rows with their member names as columns, an object as names and
// values, a list of other values as one row each, and anything else unchanged. A list whose objects
// have few members in common is written as JSON, one object per line. Rows are streamed: besides
// the value itself, only the column widths are held in memory.
func (p *printer) table(value jsonrpc.Raw) error {
	switch kind(value) {
	case '{':
		return p.rows(2, nil, func(row func([]string)) {
			for name, member := range value.Members() {
				row([]string{cellOfText(name), cellOf(member)})
			}
		})
	case '[':
		return p.list(value)
	}
	_, err := p.w.Write(append(p.appendRaw(nil, value), '\n'))
	return err
}

// list writes the rows of a list.
func (p *printer) list(list jsonrpc.Raw) error {
	index := make(map[string]int) // column indexes by name
	var names []string
	cells, rows, more := 0, 0, false
	for row := range list.Elements() {
		rows++
		if kind(row) != '{' {
			cells++
			continue
		}
		for name := range row.Members() {
			cells++
			switch _, known := index[string(name)]; {
			case known:
			case len(names) == maxColumns:
				more = true
			default:
				index[string(name)] = len(names)
				names = append(names, strings.ToUpper(cellOfText(name)))
			}
		}
	}
	if len(names) > maxSparse && cells < rows*len(names)/4 {
		return p.lines(list)
	}
	header := names
	if more {
		header = append(header, "…")
	}
	return p.rows(max(len(header), 1), header, func(row func([]string)) {
		line := make([]string, max(len(header), 1))
		for one := range list.Elements() {
			clear(line)
			if kind(one) != '{' {
				line[0] = cellOf(one)
				row(line[:1])
				continue
			}
			left := 0
			for name, member := range one.Members() {
				if at, ok := index[string(name)]; ok {
					line[at] = cellOf(member)
				} else {
					left++
				}
			}
			if left > 0 {
				line[len(header)-1] = "+" + countOf(left, "member")
			}
			row(line)
		}
	})
}

// lines writes each element of a list as JSON on one line.
func (p *printer) lines(list jsonrpc.Raw) error {
	var out []byte
	for one := range list.Elements() {
		out = append(appendCompact(out, one, p.palette), '\n')
		if len(out) >= 64<<10 {
			if _, err := p.w.Write(out); err != nil {
				return err
			}
			out = out[:0]
		}
	}
	_, err := p.w.Write(out)
	return err
}

// rows writes header, unless it is nil, and the rows that each yields, in count columns that are as
// wide as their widest cell. each is called twice. The last cell of a row is not padded. On a
// terminal the gutter precedes each line, and the widest columns are cut so that rows fit.
func (p *printer) rows(count int, header []string, each func(row func([]string))) error {
	widths := make([]int, count)
	last := 0 // the width of the last column, which is not padded
	measure := func(row []string) {
		for i, cell := range row {
			if i < len(row)-1 {
				widths[i] = max(widths[i], columns(cell))
			} else {
				last = max(last, columns(cell))
			}
		}
	}
	measure(header)
	each(measure)
	fits := p.fit(widths, last)
	out := bufio.NewWriterSize(p.w, 64<<10)
	var line []byte
	write := func(row []string) {
		line = line[:0]
		if p.terminal {
			line = append(line, harmless.Gutter...)
		}
		for i, cell := range row {
			if i < len(row)-1 {
				cell = cutColumns(cell, widths[i])
			} else if len(row) == count {
				cell = cutColumns(cell, fits)
			}
			line = append(line, cell...)
			if i < len(row)-1 {
				for range widths[i] - columns(cell) + 2 {
					line = append(line, ' ')
				}
			}
		}
		line = append(bytes.TrimRight(line, " "), '\n')
		_, _ = out.Write(line) // Flush returns the error
	}
	if header != nil {
		write(header)
	}
	each(write)
	return out.Flush()
}

// The widths that the last column and the others keep on a narrow terminal, in characters.
const (
	minLast   = 20
	minColumn = 12
)

// fit reduces the widths of a table until it fits on the terminal, and returns the width of the
// last column. It begins there: names come first, and people copy them. Without a terminal nothing
// is cut.
func (p *printer) fit(widths []int, last int) int {
	if !p.terminal || len(widths) == 0 {
		return last
	}
	screen, _, err := sizeOf(p.w)
	if err != nil {
		return last
	}
	return fitIn(widths, last, screen)
}

// fitIn is fit for a terminal of a width.
func fitIn(widths []int, last, screen int) int {
	widths[len(widths)-1] = last
	over := columns(harmless.Gutter) + 2*(len(widths)-1) - (screen - 1) // the gaps between columns
	for _, width := range widths {
		over += width
	}
	least := minLast
	for i := len(widths) - 1; i >= 0 && over > 0; i-- {
		less := min(over, max(0, widths[i]-least))
		widths[i] -= less
		over -= less
		least = minColumn
	}
	return widths[len(widths)-1]
}

// cutColumns cuts a text to a width on the terminal.
func cutColumns(text string, width int) string {
	if columns(text) <= width {
		return text
	}
	n := 0
	for i, r := range text {
		if n += columnsOf(r); n > width-1 {
			return text[:i] + "…"
		}
	}
	return text
}

// trimLines removes the padding of the last column.
func trimLines(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		out = append(append(out, bytes.TrimRight(line, " \n")...), '\n')
	}
	return out
}

// cellOf returns a value on one line of bounded length.
func cellOf(value jsonrpc.Raw) string {
	if kind(value) != '"' {
		return cut(string(appendBegin(nil, value, maxCell)), maxCell)
	}
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		text = value
	}
	return cellOfText(text)
}

// cellOfText returns a text, or the name of a member, on one line of bounded length.
func cellOfText(text []byte) string {
	begin := text[:min(len(text), maxCell+1)]
	return cut(harmless.Line(string(bytes.Map(oneLine, begin))), maxCell)
}

// oneLine maps line ends to blanks.
func oneLine(r rune) rune {
	if r == '\n' || r == '\t' {
		return ' '
	}
	return r
}
