package main

import (
	"strings"
	"unicode/utf8"
)

// helpColumns returns the width for help texts: that of the terminal, at most helpWidth.
func (a *app) helpColumns() int {
	if !isTerminal(a.stdout) {
		return helpWidth
	}
	if width, _, err := sizeOf(a.stdout); err == nil && width > barWidth {
		return min(helpWidth, width-1)
	}
	return helpWidth
}

// folded returns a help text for the terminal: as it is, or with its lines folded if the terminal
// is narrower than they are.
func (a *app) folded(text string) string {
	if width := a.helpColumns(); width < helpWidth {
		return fold(text, width)
	}
	return text
}

// fold folds a text for a width: paragraphs are filled, and the second column of a list keeps its
// indent. A command stays on one line, so that it can be copied.
func fold(text string, width int) string {
	var b strings.Builder
	paragraph := &listing{width: width}
	filled := ""
	flush := func() {
		paragraph.wrap("", filled)
		b.WriteString(paragraph.String())
		paragraph.Reset()
		filled = ""
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line != "" && line[0] != ' ' {
			filled += line + " "
			continue
		}
		flush()
		b.WriteString(foldLine(line, width) + "\n")
	}
	flush()
	return b.String()
}

// foldLine folds one line of a list.
func foldLine(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	text := strings.TrimLeft(line, " ")
	head := len(line) - len(text) // the bytes before what is folded: the indent, or the first column
	if gap := strings.Index(text, "  "); gap > 0 {
		second := len(line) - len(strings.TrimLeft(text[gap:], " "))
		if utf8.RuneCountInString(line[:second]) <= width*2/3 {
			head = second
		}
	}
	if line[head:] == text && strings.HasPrefix(text, "parley ") {
		return line
	}
	b := &listing{width: width}
	b.wrap(strings.Repeat(" ", utf8.RuneCountInString(line[:head])), line[head:])
	return line[:head] + strings.Trim(b.String(), " \n")
}
