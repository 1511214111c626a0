package capture

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// ExportOptions configure exports of a [Log]. The zero value exports everything and redacts by
// DefaultKeys.
type ExportOptions struct {
	// Filter selects rows. If nil, all rows are exported.
	Filter *Filter

	// Redact is applied in addition to the redaction of the recording, because an export may be
	// shared with others.
	Redact Redaction
}

// An export holds prepared ExportOptions.
type export struct {
	log    *Log
	filter *Filter
	hide   *redactor
	rows   map[Ref]Row // the selected rows
}

func (l *Log) export(o *ExportOptions) (*export, error) {
	x := &export{log: l, filter: &Filter{}, rows: map[Ref]Row{}}
	var hide Redaction
	if o != nil {
		hide = o.Redact
		if o.Filter != nil {
			x.filter = o.Filter
		}
	}
	var err error
	x.hide, err = hide.compile()
	return x, err
}

// choose fills rows.
func (x *export) choose() {
	for r := range x.log.Select(x.filter, Ref{}) {
		x.rows[r.Ref] = r
	}
}

// has reports whether the event, or a member of it, is selected.
func (x *export) has(e *Event) bool {
	if len(x.filter.Terms) == 0 {
		return true
	}
	for i := 0; ; i++ {
		ref := Ref{e.Seq, i}
		if _, ok := x.rows[ref]; ok {
			return true
		}
		if _, known := x.log.Row(ref); !known {
			return false
		}
	}
}

// WriteSession writes a session file with all events, or with the events of the selected rows and
// those needed to read them.
func (l *Log) WriteSession(w io.Writer, o *ExportOptions) error {
	x, err := l.export(o)
	if err != nil {
		return err
	}
	if len(x.filter.Terms) > 0 {
		x.choose()
	}
	out := bufio.NewWriterSize(w, 64<<10)
	if _, err := out.WriteString(header + "\n"); err != nil {
		return err
	}
	var line []byte
	for e, err := range l.Events(0) {
		if err != nil {
			return err
		}
		switch e.Kind {
		case KindMessage, KindJunk, KindStderr:
			if !x.has(&e) {
				continue
			}
		}
		x.hide.event(&e)
		line = AppendLine(line[:0], &e)
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	return out.Flush()
}

// maxShown is the number of bytes of a payload that a Markdown export includes.
const maxShown = 16 << 10

// WriteMarkdown writes the session as a readable document: a table of all rows, then each message
// with its first 16 KiB. Characters that control a terminal, reorder text or are invisible are
// escaped. A JSON payload remains JSON with the same value.
func (l *Log) WriteMarkdown(w io.Writer, o *ExportOptions) error {
	x, err := l.export(o)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 64<<10)
	fmt.Fprint(out, "# Session\n\n| # | time | | message | id | took | bytes | |\n| ---: | --- | --- | --- | --- | ---: | ---: | --- |\n")
	var rows []Row
	for r := range l.Select(x.filter, Ref{}) {
		rows = append(rows, r)
		arrow := map[Dir]string{Out: "→", In: "←"}[r.Dir]
		took := ""
		if r.Took > 0 {
			took = fmt.Sprintf("%.1f ms", float64(r.Took)/float64(time.Millisecond))
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s | %d | %s |\n", r.Ref, r.Time.UTC().Format("15:04:05.000"), arrow,
			cell(x.hide.hideText(title(&r))), cell(r.ID), took, r.Size, cell(x.hide.hideText(outcome(&r))))
	}
	var cache payloads
	for i := range rows {
		r := &rows[i]
		if r.Kind == RowHTTP || r.Kind == RowOpen || r.Kind == RowClose || r.Ref.Member > 0 {
			continue
		}
		text, note := shown(x.hide.hidePayload(cache.of(l, r.Ref)))
		fence := strings.Repeat("`", max(3, longestRun(text, '`')+1))
		fmt.Fprintf(out, "\n## %s %s\n\n%sjson\n%s\n%s\n%s", r.Ref, cell(x.hide.hideText(title(r))), fence, text, fence, note)
	}
	return out.Flush()
}

// shown returns the part of a payload that a Markdown export includes, with special characters
// escaped, and a note about the rest. JSON remains JSON with the same value.
func shown(data []byte) (text []byte, note string) {
	escape := harmless.AppendText
	if _, err := jsonrpc.ParseRaw(data); err == nil {
		escape = harmless.AppendJSON
	}
	if len(data) > maxShown {
		end := maxShown
		for end > maxShown-utf8.UTFMax && !utf8.RuneStart(data[end]) { // do not split a character
			end--
		}
		note = fmt.Sprintf("\n%d of %d bytes are shown.\n", end, len(data))
		data = data[:end]
	}
	return escape(nil, data), note
}

// longestRun returns the length of the longest run of c in text.
func longestRun(text []byte, c byte) (longest int) {
	run := 0
	for _, b := range text {
		if b != c {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

// title returns the heading of a row.
func title(r *Row) string {
	switch r.Kind {
	case RowBatch:
		return fmt.Sprintf("batch of %d", r.Members)
	case RowHTTP:
		return strings.TrimSpace(fmt.Sprintf("%s %s %d", r.Method, r.Name, r.Code))
	case RowResult, RowError:
		return strings.TrimSpace(r.Kind + " " + r.Method)
	case RowRequest, RowNotification:
		return strings.TrimSpace(r.Method + " " + r.Name)
	}
	return strings.TrimSpace(r.Kind + " " + r.Brief)
}

// outcome returns the state of a row, with its findings.
func outcome(r *Row) string {
	var parts []string
	if r.Kind == RowError {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%d %s", r.Code, r.Brief)))
	} else if r.State != "" && r.State != StateDone {
		parts = append(parts, r.State)
	}
	for _, f := range r.Findings {
		parts = append(parts, f.Text)
	}
	return strings.Join(parts, "; ")
}

// cell returns text for a table cell or a heading: on one line, with special characters escaped,
// and without characters from which Markdown would make a cell, a link, an image or HTML.
func cell(s string) string { return harmless.Line(cellText.Replace(s)) }

var cellText = strings.NewReplacer("&", "&amp;", `\|`, `\&#124;`, "|", `\|`, "\r\n", " ", "\n", " ", "\t", " ", "<", "&lt;", "`", "'", "[", "&#91;")

func (r *redactor) hideText(s string) string {
	if r == nil {
		return s
	}
	return r.set.Text(s)
}

func (r *redactor) hidePayload(data []byte) []byte {
	if r == nil {
		return data
	}
	return r.payload(data)
}
