package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/itchyny/gojq"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// A printer writes results to stdout, in the form that was asked for.
type printer struct {
	w        io.Writer
	format   string
	filter   *gojq.Code // nil: none
	palette  palette
	terminal bool
}

// outputFlags are the flags of every verb that prints results.
type outputFlags struct {
	format, jq, colour string

	forms []string // that the verb has
}

// The forms of a result. What formText means is the verb's to say.
var forms = []string{"json", "ndjson", "table", "raw"}

const formText = "text"

func (o *outputFlags) register(cmd *cobra.Command) { o.registerWith(cmd, "json", forms) }

// registerWith registers the flags with a form that is the verb's standard, and all that it has.
func (o *outputFlags) registerWith(cmd *cobra.Command, standard string, forms []string) {
	f := cmd.Flags()
	o.forms = forms
	f.StringVarP(&o.format, "output", "o", standard, "`FORM` of the result: "+strings.Join(forms[:len(forms)-1], ", ")+" or "+forms[len(forms)-1])
	f.StringVar(&o.jq, "jq", "", "print what this jq `FILTER` makes of the result")
	f.StringVar(&o.colour, "color", "auto", "`WHEN` to colour: auto, always or never; NO_COLOR is heard too")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp))                              // the flag exists
	_ = cmd.RegisterFlagCompletionFunc("color", cobra.FixedCompletions([]string{"auto", "always", "never"}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

func (a *app) printer(o outputFlags) (*printer, error) {
	p := &printer{w: a.stdout, format: o.format, terminal: isTerminal(a.stdout)}
	if !slices.Contains(o.forms, o.format) {
		return nil, usagef("-o is %s or %s, not %q", strings.Join(o.forms[:len(o.forms)-1], ", "), o.forms[len(o.forms)-1], cut(o.format, 60))
	}
	colour, err := a.wantsColour(o.colour, p.terminal)
	if err != nil {
		return nil, err
	}
	if colour {
		p.palette = colours
	}
	if o.jq != "" {
		query, err := gojq.Parse(o.jq)
		if err != nil {
			return nil, usagef("--jq: %v", err)
		}
		if p.filter, err = gojq.Compile(query); err != nil {
			return nil, usagef("--jq: %v", err)
		}
	}
	return p, nil
}

// wantsColour decides for one stream, which is a terminal or not.
func (a *app) wantsColour(flag string, terminal bool) (bool, error) {
	switch flag {
	case "always":
		return true, nil
	case "never":
		return false, nil
	case "auto", "":
		return terminal && a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb", nil
	}
	return false, usagef("--color is auto, always or never, not %q", cut(flag, 60))
}

// isTerminal reports whether a person looks at the stream, or types into it.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// print writes one result in the form that was asked for.
func (p *printer) print(ctx context.Context, result jsonrpc.Raw) error {
	return p.filtered(ctx, result, p.emit)
}

// line writes one of many values, each on its line, whatever the form.
func (p *printer) line(ctx context.Context, value jsonrpc.Raw) error {
	return p.filtered(ctx, value, func(v jsonrpc.Raw) error {
		if p.format == "raw" {
			return p.emit(v)
		}
		_, err := p.w.Write(append(appendCompact(nil, v, p.palette), '\n'))
		return err
	})
}

// filtered hands over what the filter makes of value, or value itself.
func (p *printer) filtered(ctx context.Context, value jsonrpc.Raw, to func(jsonrpc.Raw) error) error {
	if p.filter == nil {
		return to(value)
	}
	var input any
	if err := newNumberDecoder(value).Decode(&input); err != nil {
		return fmt.Errorf("--jq: %w", err)
	}
	for outputs := p.filter.RunWithContext(ctx, input); ; {
		output, ok := outputs.Next()
		if !ok {
			return nil
		}
		if err, ok := output.(error); ok {
			if halt, ok := errors.AsType[*gojq.HaltError](err); ok && halt.Value() == nil {
				return nil
			}
			return usagef("--jq: %v", err)
		}
		text, err := gojq.Marshal(output)
		if err != nil {
			return fmt.Errorf("--jq: %w", err)
		}
		if err := to(text); err != nil {
			return err
		}
	}
}

func (p *printer) emit(value jsonrpc.Raw) error {
	var out []byte
	switch p.format {
	case "raw":
		out = append(p.appendRaw(nil, value), '\n')
	case "ndjson":
		for element := range elements(value) {
			out = append(appendCompact(out, element, p.palette), '\n')
		}
	case "table":
		out = p.appendTable(nil, value)
	default:
		out = append(appendPretty(nil, value, p.palette), '\n')
	}
	_, err := p.w.Write(out)
	return err
}

// appendRaw writes a string as the text it means, and anything else as it came.
func (p *printer) appendRaw(dst []byte, value jsonrpc.Raw) []byte {
	if len(value) > 0 && value[0] == '"' {
		if text, err := jsontext.AppendUnquote(nil, value); err == nil {
			value = text
		}
	}
	if p.terminal {
		return appendHarmless(dst, value)
	}
	return append(dst, value...)
}

// appendHarmless writes text for a terminal: lines and tabs stay, what could steer the terminal does not.
func appendHarmless(dst, text []byte) []byte {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if hidden(r) && r != '\n' && r != '\t' {
			dst = fmt.Appendf(dst, `\u%04x`, r)
		} else {
			dst = append(dst, text[:size]...)
		}
		text = text[size:]
	}
	return dst
}

// maxCell is what one cell of a table shows, in bytes.
const maxCell = 80

// appendTable writes a list of objects as rows under their member names, an object as names and values, a list of
// other things as one row each, and anything else as it is.
func (p *printer) appendTable(dst []byte, value jsonrpc.Raw) []byte {
	var buf bytes.Buffer
	w := tabwriter.NewWriter(&buf, 0, 0, 2, ' ', 0)
	switch kind(value) {
	case '{':
		for name, member := range members(value) {
			fmt.Fprintf(w, "%s\t%s\n", p.cell(name), p.cell(member))
		}
	case '[':
		p.rows(w, value)
	default:
		return append(p.appendRaw(dst, value), '\n')
	}
	_ = w.Flush() // into memory
	return append(dst, trimLines(buf.Bytes())...)
}

// trimLines takes away the blanks that pad the last column.
func trimLines(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		out = append(append(out, bytes.TrimRight(line, " \n")...), '\n')
	}
	return out
}

func (p *printer) rows(w io.Writer, list jsonrpc.Raw) {
	var columns []string
	seen := make(map[string]bool)
	for row := range elements(list) {
		if kind(row) != '{' {
			continue
		}
		for name := range members(row) {
			if !seen[string(name)] {
				seen[string(name)] = true
				columns = append(columns, string(name))
			}
		}
	}
	if columns != nil {
		for i, name := range columns {
			fmt.Fprintf(w, "%s%s", tab(i), strings.ToUpper(p.cell(jsonrpc.Raw(name))))
		}
		fmt.Fprintln(w)
	}
	for row := range elements(list) {
		if kind(row) != '{' {
			fmt.Fprintln(w, p.cell(row))
			continue
		}
		cells := make(map[string]string)
		for name, member := range members(row) {
			cells[string(name)] = p.cell(member)
		}
		for i, name := range columns {
			fmt.Fprintf(w, "%s%s", tab(i), cells[name])
		}
		fmt.Fprintln(w)
	}
}

func tab(column int) string {
	if column == 0 {
		return ""
	}
	return "\t"
}

// cell is a value on one line, not too long.
func (p *printer) cell(value jsonrpc.Raw) string {
	if kind(value) != '"' {
		return cut(string(appendCompact(nil, value, palette{})), maxCell)
	}
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		text = value
	}
	one := strings.NewReplacer("\n", " ", "\t", " ").Replace(string(text))
	return cut(string(appendHarmless(nil, []byte(one))), maxCell)
}

func kind(value jsonrpc.Raw) byte {
	if len(value) == 0 {
		return 0
	}
	return value[0]
}
