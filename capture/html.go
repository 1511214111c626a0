package capture

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"time"

	"github.com/da1ed7bb/parley/internal/x/harmless"
)

// htmlHead starts the document. Nothing in it is loaded from elsewhere, and its policy allows no
// script, no image and no form, should text of a peer ever become markup.
const htmlHead = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width">
<title>Session</title>
<style>
:root { color-scheme: light dark; font: 14px/1.5 system-ui, sans-serif }
body { margin: 1.5rem auto; max-width: 72rem; padding: 0 1rem }
summary { cursor: pointer; display: grid; grid-template-columns: 5rem 7.5rem 1.5rem 1fr 6rem 6rem; gap: .5rem; padding: .15rem 0; border-top: 1px solid #8884 }
summary > * { overflow: hidden; text-overflow: ellipsis; white-space: nowrap }
.n { text-align: right; font-variant-numeric: tabular-nums }
.bad { color: #c22 }
.note { opacity: .75 }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0 1rem; padding: .6rem; background: #8881; font: 12px/1.5 ui-monospace, monospace }
</style>
</head>
<body>
<h1>Session</h1>
`

// WriteHTML writes the session as one HTML document that loads nothing and runs no script: a line
// for each row, which unfolds to the message with its first 16 KiB. Characters that reorder text or
// are invisible are escaped. A JSON payload remains JSON with the same value.
func (l *Log) WriteHTML(w io.Writer, o *ExportOptions) error {
	x, err := l.export(o)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 64<<10)
	fmt.Fprint(out, htmlHead)
	var cache payloads
	rows, bad := 0, 0
	for r := range l.Select(x.filter, Ref{}) {
		rows++
		class := ""
		if r.Broken() || r.Kind == RowError || r.State == StateFailed || r.State == StateUnanswered {
			class = ` class="bad"`
			bad++
		}
		arrow := map[Dir]string{Out: "→", In: "←"}[r.Dir]
		took := ""
		if r.Took > 0 {
			took = fmt.Sprintf("%.1f ms", float64(r.Took)/float64(time.Millisecond))
		}
		fmt.Fprintf(out, "<details><summary%s><span class=\"n\">%s</span><span>%s</span><span>%s</span><span>%s <span class=\"note\">%s</span></span><span class=\"n\">%s</span><span class=\"n\">%d B</span></summary>\n",
			class, r.Ref, r.Time.UTC().Format("15:04:05.000"), arrow, x.htmlText(title(&r)), x.htmlText(outcome(&r)), took, r.Size)
		fmt.Fprintf(out, "<p class=\"note\">%s%s%s</p>\n", htmlField("connection", fmt.Sprint(r.Conn)), x.htmlField("id", r.ID), x.htmlField("target", r.Target))
		if r.Kind != RowHTTP && r.Kind != RowOpen && r.Kind != RowClose {
			text, note := shown(x.hide.hidePayload(cache.of(l, r.Ref)))
			fmt.Fprintf(out, "<pre>%s</pre>\n<p class=\"note\">%s</p>\n", html.EscapeString(string(text)), html.EscapeString(note))
		}
		fmt.Fprint(out, "</details>\n")
	}
	fmt.Fprintf(out, "<p>%d rows, %d with an error or a broken rule. Times are UTC.</p>\n</body>\n</html>\n", rows, bad)
	return out.Flush()
}

// htmlText returns text of a peer without secrets, on one line.
func (x *export) htmlText(s string) string {
	return html.EscapeString(harmless.Line(x.hide.hideText(s)))
}

func (x *export) htmlField(name, value string) string {
	if value == "" {
		return ""
	}
	return htmlField(name, x.hide.hideText(value))
}

func htmlField(name, value string) string {
	return name + " " + html.EscapeString(harmless.Line(value)) + " · "
}
