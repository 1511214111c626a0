package suite

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/internal/x/junit"
)

// An Outcome is the result of a call.
type Outcome string

// The outcomes of a call.
const (
	Passed  Outcome = "pass"
	Failed  Outcome = "fail"  // an assertion does not hold, or the response is an error
	Faulty  Outcome = "error" // there is no response that can be checked
	Skipped Outcome = "skip"
)

// A Report is the result of a suite. It contains no secrets.
type Report struct {
	File        string       `json:"file"`
	Name        string       `json:"name"`
	Environment string       `json:"environment,omitempty"`
	Seconds     float64      `json:"seconds"`
	Counts      Counts       `json:"counts"`
	Calls       []CallReport `json:"calls"`
}

// Counts are the numbers of calls by outcome.
type Counts struct {
	Pass  int `json:"pass"`
	Fail  int `json:"fail"`
	Error int `json:"error"`
	Skip  int `json:"skip"`
}

// Add adds other counts.
func (c *Counts) Add(other Counts) {
	c.Pass += other.Pass
	c.Fail += other.Fail
	c.Error += other.Error
	c.Skip += other.Skip
}

// A CallReport is the result of one call.
type CallReport struct {
	Name          string         `json:"name"`
	Target        string         `json:"target"`
	Line          int            `json:"line"`
	Outcome       Outcome        `json:"outcome"`
	Kind          Kind           `json:"kind,omitempty"` // of an error
	Why           string         `json:"why,omitempty"`
	Milliseconds  float64        `json:"ms"`
	Notifications int            `json:"notifications"`
	Asserts       []AssertReport `json:"asserts"`
	Sent          string         `json:"sent,omitempty"`
	Received      string         `json:"received,omitempty"`
	Repeat        string         `json:"repeat,omitempty"` // a shell command that sends it again
}

// An AssertReport is the result of one assertion.
type AssertReport struct {
	Path     string `json:"path"`
	OK       bool   `json:"ok"`
	Expected string `json:"expected"`
	Received string `json:"received"`
}

func (r *Report) add(c CallReport) {
	r.Calls = append(r.Calls, c)
	switch c.Outcome {
	case Passed:
		r.Counts.Pass++
	case Failed:
		r.Counts.Fail++
	case Faulty:
		r.Counts.Error++
	case Skipped:
		r.Counts.Skip++
	}
}

// whyText returns why a call did not pass, in one line.
func (c *CallReport) whyText() string {
	if c.Why != "" {
		return c.Why
	}
	for _, a := range c.Asserts {
		if !a.OK {
			return fmt.Sprintf("%s: expected %s, received %s", a.Path, a.Expected, harmless.Shorten(a.Received, 200))
		}
	}
	return ""
}

// WriteJUnit writes reports as JUnit XML, with one suite for each report and one case for each
// call.
func WriteJUnit(w io.Writer, reports []*Report) error {
	out := junit.Report{Name: "parley test"}
	for _, r := range reports {
		suite := junit.Suite{Name: r.Name}
		for _, c := range r.Calls {
			one := junit.Case{Name: c.Name, Class: "parley.test." + r.Name, Time: time.Duration(c.Milliseconds * float64(time.Millisecond))}
			message := &junit.Message{Message: c.whyText(), Type: string(c.Kind), Text: c.details()}
			switch c.Outcome {
			case Failed:
				one.Failure = message
			case Faulty:
				one.Error = message
			case Skipped:
				one.Skipped = &junit.Message{Message: c.Why}
			}
			suite.Cases = append(suite.Cases, one)
		}
		out.Suites = append(out.Suites, suite)
	}
	return junit.Write(w, &out)
}

// details returns the failed assertions and the messages, one per line.
func (c *CallReport) details() string {
	var b strings.Builder
	for _, a := range c.Asserts {
		if !a.OK {
			fmt.Fprintf(&b, "%s\nexpected %s\nreceived %s\n", a.Path, a.Expected, a.Received)
		}
	}
	for _, part := range []struct{ name, text string }{{"sent", c.Sent}, {"received", c.Received}, {"repeat", c.Repeat}} {
		if part.text != "" {
			fmt.Fprintf(&b, "%s %s\n", part.name, part.text)
		}
	}
	return b.String()
}
