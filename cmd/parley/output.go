package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/itchyny/gojq"
	"github.com/spf13/cobra"
)

// A printer writes results to stdout in the selected format.
type printer struct {
	w        io.Writer
	format   string
	filter   *gojq.Code // nil if there is no filter
	palette  palette
	terminal bool
	printed  bool // a YAML document: --- comes before the next
}

// outputFlags are the flags of every command that prints results.
type outputFlags struct {
	format, jq, colour string

	forms []string // the formats of the command
}

// The formats of a result. Each command defines the meaning of formText.
var forms = []string{"json", "ndjson", "yaml", "table", "raw"}

const formText = "text"

func (o *outputFlags) register(cmd *cobra.Command) { o.registerWith(cmd, "json", forms) }

// registerWith registers the flags with the default format and the formats of the command.
func (o *outputFlags) registerWith(cmd *cobra.Command, standard string, forms []string) {
	f := cmd.Flags()
	o.forms = forms
	f.StringVarP(&o.format, "output", "o", standard, "output `FORMAT` of the result: "+strings.Join(forms[:len(forms)-1], ", ")+" or "+forms[len(forms)-1])
	f.StringVar(&o.jq, "jq", "", "apply the jq `FILTER` to the result")
	f.StringVar(&o.colour, "color", "auto", "`WHEN` to use colour: auto, always or never; NO_COLOR is respected")
	// The flag exists, so the error is nil.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp))
	// The flag exists, so the error is nil.
	_ = cmd.RegisterFlagCompletionFunc("color", cobra.FixedCompletions([]string{"auto", "always", "never"}, cobra.ShellCompDirectiveNoFileComp))
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

// wantsColour decides whether a stream gets colours. terminal reports whether it is a terminal.
func (a *app) wantsColour(flag string, terminal bool) (bool, error) {
	switch flag {
	case "always":
		return true, nil
	case "never":
		return false, nil
	case "auto", "":
		return terminal && a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb", nil
	}
	return false, usagef("--color must be auto, always or never, not %q", cut(flag, 60))
}

// print writes one result in the selected format.
func (p *printer) print(ctx context.Context, result jsonrpc.Raw) error {
	return p.filtered(ctx, result, p.emit)
}

// line writes one of several values on its own line, or as a document in YAML.
func (p *printer) line(ctx context.Context, value jsonrpc.Raw) error {
	return p.filtered(ctx, value, func(v jsonrpc.Raw) error {
		if p.format == "raw" || p.format == "yaml" {
			return p.emit(v)
		}
		_, err := p.w.Write(append(appendCompact(nil, v, p.palette), '\n'))
		return err
	})
}

// filtered passes each output of the filter to the function to, or value itself if there is no
// filter.
func (p *printer) filtered(ctx context.Context, value jsonrpc.Raw, to func(jsonrpc.Raw) error) error {
	if p.filter == nil {
		return to(value)
	}
	var input any
	numbers := json.NewDecoder(bytes.NewReader(value))
	numbers.UseNumber() // preserves the digits
	if err := numbers.Decode(&input); err != nil {
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
		if kind(value) != '[' {
			out = append(appendCompact(out, value, p.palette), '\n')
		}
		for element := range value.Elements() {
			out = append(appendCompact(out, element, p.palette), '\n')
		}
	case "yaml":
		if p.printed {
			if _, err := io.WriteString(p.w, "---\n"); err != nil {
				return err
			}
		}
		p.printed = true
		return writeYAML(p.w, value, p.palette)
	case "table":
		return p.table(value)
	default:
		return writePretty(p.w, value, p.palette)
	}
	_, err := p.w.Write(out)
	return err
}

// appendRaw appends a string as its text, and other values unchanged. On a terminal, hidden
// characters are escaped and no line can pass for one of ours.
func (p *printer) appendRaw(dst []byte, value jsonrpc.Raw) []byte {
	if len(value) > 0 && value[0] == '"' {
		if text, err := jsontext.AppendUnquote(nil, value); err == nil {
			return (&quoter{person: p.terminal}).append(dst, string(text))
		}
	}
	if p.terminal {
		return appendVisible(dst, value)
	}
	return append(dst, value...)
}

// appendHarmless appends text for a terminal: it retains line ends and tabs and escapes control
// sequences.
func appendHarmless(dst, text []byte) []byte { return harmless.AppendText(dst, text) }

func kind(value jsonrpc.Raw) byte {
	if len(value) == 0 {
		return 0
	}
	return value[0]
}
