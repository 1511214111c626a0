package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestManPages checks the pages of all commands: every line is a known macro or escaped text, and
// the page has the flags and the examples of the help.
func TestManPages(t *testing.T) {
	macro := regexp.MustCompile(`^\.(TH|SH|TP|PP|RS|RE|nf|fi)( "[^"]*"| \d)*$`)
	escape := regexp.MustCompile(`\\(\(rs|\(aq|\(dq|\(ga|\(ha|\(ti|\[u[0-9A-F]{4,6}\]|-|&|fB|fI|fR)`)
	root := (&app{getenv: os.Getenv}).rootCommand()
	pages := 0
	check := func(command *cobra.Command) {
		if command.HasParent() && !command.IsAvailableCommand() {
			return
		}
		pages++
		page := manPage(command)
		for line := range strings.Lines(page) {
			line = strings.TrimSuffix(line, "\n")
			if strings.HasPrefix(line, ".") {
				if !macro.MatchString(line) {
					t.Errorf("%s: unknown macro: %s", command.CommandPath(), line)
				}
				continue
			}
			rest := escape.ReplaceAllString(line, "")
			if line == "" || line[0] == '\'' || line[0] == ' ' || strings.ContainsAny(rest, "\\-'\"`~^") || strings.ContainsFunc(rest, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%s: not escaped: %q", command.CommandPath(), line)
			}
		}
		for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "SEE ALSO"} {
			if !strings.Contains(page, `.SH "`+section+`"`) {
				t.Errorf("%s: no section %s", command.CommandPath(), section)
			}
		}
		if command.HasAvailableSubCommands() {
			return
		}
		command.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(page, `\fB`+roff("--"+f.Name)+`\fR`) {
				t.Errorf("%s: no flag --%s", command.CommandPath(), f.Name)
			}
		})
		for line := range strings.Lines(command.Long) {
			if strings.HasPrefix(line, "  parley ") && !strings.Contains(page, "\n"+roff(strings.TrimSpace(line))+"\n") {
				t.Errorf("%s: no example %q", command.CommandPath(), line)
			}
		}
	}
	check(root)
	everyCommand(root, check)
	if pages < 40 {
		t.Errorf("there are %d pages", pages)
	}
}

// TestRoff checks texts that roff would take for something else.
func TestRoff(t *testing.T) {
	m := &manual{}
	m.text("First -x 'a' \"b\" `c` ~ ^ C:\\new\n.TH is text\n'quoted' begins\n\n  $ printf '\\n'   # …\n  .dotfile\n\n  'after a gap\n\nLast.")
	want := `First \-x \(aqa\(aq \(dqb\(dq \(gac\(ga \(ti \(ha C:\(rsnew
\&.TH is text
\(aqquoted\(aq begins
.PP
.RS "2"
.nf
$ printf \(aq\(rsn\(aq   # \[u2026]
\&.dotfile
\&
\(aqafter a gap
.fi
.RE
.PP
Last.
`
	if m.String() != want {
		t.Errorf("got\n%s\nwant\n%s", m.String(), want)
	}
}
