package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) manCommand() *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use:   "man [COMMAND]",
		Short: "print a manual page, or write all of them",
		Long: `Print the manual page of parley or of one command, for man.

  parley man | man -l -                  read it
  parley man mcp call > parley-mcp-call.1
  parley man --dir ~/.local/share/man/man1

With --dir, the pages of all commands are written to files of that folder, which is created.`,
		RunE: func(cmd *cobra.Command, words []string) error { return a.man(cmd.Root(), dir, words) },
	}
	cmd.Flags().StringVar(&dir, "dir", "", "write all pages to `DIR`")
	return cmd
}

func (a *app) man(root *cobra.Command, dir string, words []string) error {
	if dir == "" {
		command, rest, err := root.Find(words)
		if err != nil || len(rest) > 0 {
			return unknownVerb(root, strings.Join(words, " "))
		}
		_, err = io.WriteString(a.stdout, manPage(command))
		return err
	}
	if len(words) > 0 {
		return usagef("--dir writes all pages; remove %q", cut(words[0], 60))
	}
	dir = a.atHome(dir)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // manual pages are for all users
		return usagef("--dir: %v", err)
	}
	pages := 0
	write := func(command *cobra.Command) (err error) {
		if command.HasParent() && !command.IsAvailableCommand() {
			return nil
		}
		pages++
		return os.WriteFile(filepath.Join(dir, manName(command)+".1"), []byte(manPage(command)), 0o644) //nolint:gosec // see above
	}
	err := write(root)
	everyCommand(root, func(command *cobra.Command) {
		if err == nil {
			err = write(command)
		}
	})
	if err != nil {
		return usagef("--dir: %v", err)
	}
	fmt.Fprintf(a.stderr, "parley: wrote %d pages to %s\n", pages, visible(dir, 1000))
	return nil
}

// manName returns the name of a command's page: parley-mcp-call.
func manName(command *cobra.Command) string {
	return strings.ReplaceAll(command.CommandPath(), " ", "-")
}

// A manual is a page in the language of roff, with the macros of man(7).
type manual struct{ strings.Builder }

// manPage returns the page of a command.
func manPage(command *cobra.Command) string {
	m := &manual{}
	root := !command.HasParent()
	date, _, _ := strings.Cut(thisBuild().Time, "T")
	m.macro("TH", strings.ToUpper(manName(command)), "1", date, "parley "+thisBuild().Version, "parley")
	m.macro("SH", "NAME")
	m.line(roff(manName(command)) + ` \- ` + roff(command.Short))
	m.macro("SH", "SYNOPSIS")
	use := strings.TrimSpace(strings.TrimPrefix(command.UseLine(), command.CommandPath()))
	if root {
		use = "COMMAND [TARGET] … [-- CMD ARG…]"
	}
	m.line(strings.TrimSpace(`\fB` + roff(command.CommandPath()) + `\fR ` + roff(use)))
	m.macro("SH", "DESCRIPTION")
	if root {
		m.text(rootHelp)
	} else {
		m.text(orElse(command.Long, command.Short))
	}
	if command.HasAvailableSubCommands() {
		m.macro("SH", "COMMANDS")
		for _, sub := range command.Commands() {
			if sub.IsAvailableCommand() {
				m.macro("TP")
				m.line(`\fB` + roff(sub.CommandPath()) + `\fR`)
				m.line(roff(sub.Short))
			}
		}
	}
	command.InitDefaultHelpFlag()
	if command.LocalFlags().HasAvailableFlags() && !command.HasAvailableSubCommands() {
		m.macro("SH", "OPTIONS")
		command.LocalFlags().VisitAll(m.flag)
	}
	if root {
		for _, topic := range []struct{ title, name string }{
			{"TARGETS", "targets"}, {"FILTERS", "filters"}, {"EXIT STATUS", "exit-codes"}, {"ENVIRONMENT", "environment"},
		} {
			m.macro("SH", topic.title)
			m.text(topics[topic.name])
		}
	} else {
		m.macro("SH", "EXIT STATUS")
		m.text(exitHelp)
	}
	m.macro("SH", "SEE ALSO")
	m.related(command)
	return m.String()
}

// related lists the pages of the parent and of the subcommands.
func (m *manual) related(command *cobra.Command) {
	var all []string
	if command.HasParent() {
		all = append(all, manName(command.Parent()))
		if command.Parent().HasParent() {
			all = append(all, "parley")
		}
	}
	for _, sub := range command.Commands() {
		if sub.IsAvailableCommand() {
			all = append(all, manName(sub))
		}
	}
	for i, name := range all {
		end := ""
		if i+1 < len(all) {
			end = ","
		}
		m.line(`\fB` + roff(name) + `\fR(1)` + end)
	}
}

// flag writes the description of a flag.
func (m *manual) flag(f *pflag.Flag) {
	if f.Hidden {
		return
	}
	value, about := pflag.UnquoteUsage(f)
	m.macro("TP")
	line := `\fB` + roff("--"+f.Name) + `\fR`
	if f.Shorthand != "" {
		line = `\fB` + roff("-"+f.Shorthand) + `\fR, ` + line
	}
	switch {
	case f.Value.Type() == "bool":
	case f.NoOptDefVal != "": // the value is optional
		line += `[=\fI` + roff(value) + `\fR]`
	case value != "":
		line += ` \fI` + roff(value) + `\fR`
	}
	m.line(line)
	switch f.DefValue {
	case "", "false", "[]", "0", "0s":
	default:
		about += " (default " + f.DefValue + ")"
	}
	m.wrapped(about)
}

// text writes a help text: paragraphs, and lines with an indent, which are kept as they are.
func (m *manual) text(text string) {
	literal, begun := false, false
	gap := false // an empty line came before
	for line := range strings.Lines(strings.TrimSpace(text)) {
		line = strings.TrimRightFunc(line, unicode.IsSpace)
		if line == "" {
			gap = true
			continue
		}
		indented := strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "\t")
		switch {
		case indented && !literal:
			m.macro("PP")
			m.macro("RS", "2")
			m.macro("nf")
		case !indented && literal:
			m.macro("fi")
			m.macro("RE")
			m.macro("PP")
		case gap && begun && literal:
			m.line(`\&`)
		case gap && begun:
			m.macro("PP")
		}
		literal, begun, gap = indented, true, false
		if indented {
			m.line(roff(strings.TrimPrefix(strings.ReplaceAll(line, "\t", "  "), "  ")))
			continue
		}
		m.wrapped(line)
	}
	if literal {
		m.macro("fi")
		m.macro("RE")
	}
}

// manWidth is the maximum length of a line of source, in bytes, for text that is filled anyway.
const manWidth = 78

// wrapped writes text that is filled.
func (m *manual) wrapped(text string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		word = roff(word)
		if line != "" && len(line)+1+len(word) > manWidth {
			m.line(line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	m.line(line)
}

// macro writes a line with a macro and its arguments.
func (m *manual) macro(name string, args ...string) {
	m.WriteString("." + name)
	for _, arg := range args {
		m.WriteString(` "` + roff(arg) + `"`)
	}
	m.WriteByte('\n')
}

// line writes a line of text that is already escaped, so that it is not taken for a macro.
func (m *manual) line(text string) {
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") || strings.HasPrefix(text, " ") {
		m.WriteString(`\&`)
	}
	m.WriteString(text + "\n")
}

// roff escapes a line of text. The result is ASCII, so that it does not depend on the encoding that
// the reader's man assumes, and characters that roff replaces by typographic ones can be copied.
func roff(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch r {
		case '\\':
			b.WriteString(`\(rs`)
		case '-':
			b.WriteString(`\-`)
		case '\'':
			b.WriteString(`\(aq`)
		case '"':
			b.WriteString(`\(dq`)
		case '`':
			b.WriteString(`\(ga`)
		case '^':
			b.WriteString(`\(ha`)
		case '~':
			b.WriteString(`\(ti`)
		default:
			switch {
			case r == '\n' || r == '\t':
				b.WriteByte(' ')
			case r < ' ' || r == 0x7f:
			case r < 0x7f:
				b.WriteRune(r)
			default:
				fmt.Fprintf(&b, `\[u%04X]`, r)
			}
		}
	}
	return b.String()
}
