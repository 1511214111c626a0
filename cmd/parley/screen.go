package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"
)

// A screen is stderr, on which lines and one progress bar share the last row. It is safe for concurrent use.
type screen struct {
	w   io.Writer
	bar bool // a person looks: draw a bar, and not a line for each step

	mu     sync.Mutex // guards what is below
	drawn  string     // the bar that stands in the last row
	asking bool       // somebody types there: no bar
}

// line writes one line above the bar.
func (s *screen) line(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipeLocked()
	fmt.Fprintln(s.w, text)
	s.drawLocked(s.drawn)
}

// progress shows how far something has come: total is 0 when nobody knows.
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

// clear takes the bar away, and leaves the row of a question that nobody will answer any more.
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

// ask keeps the bar away, for somebody who types, until the function that it returns is called.
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
		fmt.Fprint(s.w, "\r\x1b[K")
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

// barWidth is how many letters of the row are the bar itself.
const barWidth = 24

// barOf draws a bar in a row of so many letters.
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
	if utf8.RuneCountInString(text) >= width { // the last column stays free, or the row would wrap
		text = string([]rune(text)[:width-2]) + "…"
	}
	return text
}

// widthOf is how many letters a row of the terminal has.
func widthOf(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > barWidth {
			return width
		}
	}
	return 80
}
