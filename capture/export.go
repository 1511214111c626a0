package capture

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"
)

// ExportOptions tune what leaves a [Log]. The zero value takes all, and hides by DefaultKeys.
type ExportOptions struct {
	// Filter chooses; nil means all.
	Filter *Filter

	// Redact hides again: what was recorded for one's own eyes may be too much for others.
	Redact Redaction
}

// export is the options made ready.
type export struct {
	log    *Log
	filter *Filter
	hide   *redactor
	rows   map[Ref]Row // those that are chosen
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

// has reports whether the event, or a member of it, is chosen.
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

// WriteSession writes a session file: all of it, or the events whose rows are chosen, with what is needed to read them.
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

// maxShown is how many bytes of one payload a Markdown export shows.
const maxShown = 16 << 10

// WriteMarkdown writes the session for people to read: a table of what happened, then each message with its bytes.
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
		data := x.hide.hidePayload(cache.of(l, r.Ref))
		note := ""
		if len(data) > maxShown {
			note = fmt.Sprintf("\n%d of %d bytes are shown.\n", maxShown, len(data))
			data = data[:maxShown]
		}
		text := strings.ToValidUTF8(string(data), "\uFFFD")
		fence := "```"
		for strings.Contains(text, fence) {
			fence += "`"
		}
		fmt.Fprintf(out, "\n## %s %s\n\n%sjson\n%s\n%s\n%s", r.Ref, cell(x.hide.hideText(title(r))), fence, text, fence, note)
	}
	return out.Flush()
}

// title is what a row is called.
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

// outcome is how a row ended, and what is wrong with it.
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

// cell is text inside a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "`", "'").Replace(s)
}

func (r *redactor) hideText(s string) string {
	if r == nil {
		return s
	}
	return r.text(s)
}

func (r *redactor) hidePayload(data []byte) []byte {
	if r == nil {
		return data
	}
	return r.payload(data)
}
