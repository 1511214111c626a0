package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// A screen is stderr with lines and one progress bar in the last row. It is safe for concurrent
// use.
type screen struct {
	w   io.Writer
	bar bool // stderr is a terminal: draw a bar instead of one line per step

	mu     sync.Mutex // guards the fields below
	drawn  string     // the bar in the last row
	asking bool       // the user is typing, so no bar is drawn
}

// line writes one line above the bar.
func (s *screen) line(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipeLocked()
	fmt.Fprintln(s.w, text)
	s.drawLocked(s.drawn)
}

// progress shows the progress of an operation. total is 0 if it is unknown.
func (s *screen) progress(done, total float64, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.bar {
		fmt.Fprintln(s.w, strings.TrimRight("progress "+ratio(done, total)+" "+visible(message, 200), " "))
		return
	}
	if s.asking {
		return
	}
	s.wipeLocked()
	s.drawn = barOf(done, total, message, widthOf(s.w))
	s.drawLocked(s.drawn)
}

// clear removes the bar, and ends the row of a question that needs no answer any more.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipeLocked()
	s.drawn = ""
	if s.asking {
		fmt.Fprintln(s.w)
		s.asking = false
	}
}

// ask hides the bar while the user types, until done is called.
func (s *screen) ask() (done func()) {
	s.clear()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asking = false
	}
}

func (s *screen) wipeLocked() {
	if s.drawn != "" {
		drawOn(s.w, []byte(toColumn0+wipeRow))
	}
}

func (s *screen) drawLocked(text string) {
	if text != "" {
		fmt.Fprint(s.w, text)
	}
}

func ratio(done, total float64) string {
	if total > 0 {
		return fmt.Sprintf("%v/%v", done, total)
	}
	return fmt.Sprint(done)
}

// barWidth is the width of the bar itself, in characters.
const barWidth = 24

// barOf draws a bar in a row of width characters.
func barOf(done, total float64, message string, width int) string {
	full := 0
	if total > 0 {
		full = max(0, min(barWidth, int(done/total*barWidth+0.5)))
	}
	bar := strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
	if total <= 0 {
		bar = strings.Repeat("▒", barWidth)
	}
	text := bar + " " + ratio(done, total)
	if message != "" {
		text += "  " + visible(message, 200)
	}
	return clipColumns(text, width-1) // the last column stays empty, otherwise the row would wrap
}

// widthOf returns the width of the terminal, in characters.
func widthOf(w io.Writer) int {
	if width, _, err := sizeOf(w); err == nil && width > barWidth {
		return width
	}
	return 80
}
