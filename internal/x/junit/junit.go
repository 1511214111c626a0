// Package junit writes reports in the XML format of JUnit, which most CI systems read.
package junit

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/internal/x/harmless"
)

// A Report is the result of one run. Write computes the counts of its elements.
type Report struct {
	Name   string
	Suites []Suite
}

// A Suite is a group of cases.
type Suite struct {
	Name  string
	Cases []Case
}

// A Case is one test. It passed if Failure, Error and Skipped are nil.
type Case struct {
	Name, Class string
	Time        time.Duration // if zero, the attribute is left out
	Failure     *Message      // what was tested is wrong
	Error       *Message      // it could not be tested
	Skipped     *Message
	Output      string // left out if empty
}

// A Message explains the outcome of a case.
type Message struct {
	Message string
	Type    string // left out if empty
	Text    string
}

// Write writes r as XML. Characters that XML 1.0 cannot hold are replaced by U+FFFD, invisible ones
// and those that reorder text by their number, such as \u202e.
func Write(w io.Writer, r *Report) error {
	var all counts
	var inner strings.Builder
	for _, s := range r.Suites {
		var n counts
		for _, c := range s.Cases {
			n.add(counts{1, count(c.Failure), count(c.Skipped), count(c.Error), c.Time})
		}
		all.add(n)
		inner.WriteString("  <testsuite name=" + quoted(s.Name) + n.attributes() + ">")
		for _, c := range s.Cases {
			c.write(&inner)
		}
		if len(s.Cases) > 0 {
			inner.WriteString("\n  ")
		}
		inner.WriteString("</testsuite>\n")
	}
	for _, text := range []string{`<?xml version="1.0" encoding="UTF-8"?>` + "\n<testsuites name=" + quoted(r.Name) + all.attributes() + ">\n", inner.String(), "</testsuites>\n"} {
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

// write writes the element of a case.
func (c *Case) write(b *strings.Builder) {
	b.WriteString("\n    <testcase name=" + quoted(c.Name) + " classname=" + quoted(c.Class) + seconds(c.Time) + ">")
	inside := false
	element := func(name, attributes, text string) {
		b.WriteString("\n      <" + name + attributes + ">" + escaper.Replace(clean(text)) + "</" + name + ">")
		inside = true
	}
	for _, part := range []struct {
		name string
		*Message
	}{{"failure", c.Failure}, {"error", c.Error}, {"skipped", c.Skipped}} {
		if part.Message == nil {
			continue
		}
		attributes := " message=" + quoted(part.Message.Message)
		if part.Type != "" {
			attributes += " type=" + quoted(part.Type)
		}
		element(part.name, attributes, part.Text)
	}
	if c.Output != "" {
		element("system-out", "", c.Output)
	}
	if inside {
		b.WriteString("\n    ")
	}
	b.WriteString("</testcase>")
}

// counts are the numbers of cases by outcome, and the sum of their times.
type counts struct {
	tests, failures, skipped, errors int
	time                             time.Duration
}

func (n *counts) add(more counts) {
	n.tests += more.tests
	n.failures += more.failures
	n.skipped += more.skipped
	n.errors += more.errors
	n.time += more.time
}

// attributes returns the counts as attributes of an element.
func (n *counts) attributes() string {
	return fmt.Sprintf(` tests="%d" failures="%d" skipped="%d" errors="%d"%s`, n.tests, n.failures, n.skipped, n.errors, seconds(n.time))
}

// seconds returns the attribute of a time: in seconds, as a decimal number. Zero has none.
func seconds(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return ` time="` + strconv.FormatFloat(d.Seconds(), 'f', 3, 64) + `"`
}

func count(m *Message) int {
	if m == nil {
		return 0
	}
	return 1
}

// quoted returns a text as the value of an attribute.
func quoted(text string) string { return `"` + escaper.Replace(clean(text)) + `"` }

// escaper escapes a text for attributes and elements. White space is escaped too, because a reader
// replaces it by spaces in attributes (XML 1.0, section 3.3.3).
var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;", "\t", "&#x9;", "\n", "&#xA;")

// clean replaces characters that XML 1.0 cannot hold, and escapes those that are invisible or
// reorder text, because a peer chooses most texts.
func clean(text string) string {
	return harmless.Text(strings.Map(func(c rune) rune {
		if c == '\t' || c == '\n' || c >= ' ' && c != 0xFFFE && c != 0xFFFF && (c < 0x7f || c > 0x9f) {
			return c
		}
		return '\uFFFD'
	}, text))
}
