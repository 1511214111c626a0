package main

import (
	"fmt"

	"github.com/da1ed7bb/parley/capture/sessions"
)

// maxListed is the number of sessions that parley up lists.
const maxListed = 8

// tellSessions lists the sessions of taps on stderr: those that are recorded now, then the newest.
// It prints nothing without sessions.
func (a *app) tellSessions() {
	dir := a.sessionsDir()
	if dir == "" {
		return
	}
	list, err := sessions.List(dir)
	if err != nil {
		fmt.Fprintf(a.stderr, "parley: sessions of taps: %s\n", visible(bareReason(err).Error(), 300))
		return
	}
	if len(list) == 0 {
		return
	}
	live := 0
	for _, s := range list {
		if s.Live {
			live++
		}
	}
	fmt.Fprintf(a.stderr, "parley: %s in %s, %d of them live. The page lists them; parley replay NAME prints one:\n", countOf(len(list), "session"), visible(dir, 300), live)
	for _, s := range list[:min(len(list), maxListed)] {
		state := ""
		if s.Live {
			state = "  live"
		}
		fmt.Fprintf(a.stderr, "  %s  %s%s\n", visible(s.ID, 120), bytesOf(int(s.Size)), state)
	}
	if more := len(list) - maxListed; more > 0 {
		fmt.Fprintf(a.stderr, "  and %d older\n", more)
	}
}
