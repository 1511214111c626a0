package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/editoragent"
)

// noteFile is the name of the scribe's note.
const noteFile = "note.md"

// writeNote streams a draft of the note to the caller, and stores it if the caller permits.
func writeNote(ctx context.Context, r *agent.Run) error {
	note := draft(r.Text())
	if err := streamWords(ctx, r, note); err != nil {
		return err
	}
	ok, err := r.Confirm(ctx, fmt.Sprintf("Write these %d bytes to %s?", len(note), noteFile))
	if err != nil {
		return err
	}
	if !ok {
		return r.Say(ctx, "\nNot written.\n")
	}
	if err := file(ctx, r, note); err != nil {
		return err
	}
	return r.Say(ctx, "\nWritten to "+noteFile+".\n")
}

// file stores the note where the protocol supports it.
func file(ctx context.Context, r *agent.Run, note string) error {
	if session := editoragent.Turn(r); session != nil {
		if can := session.Capabilities().FS; can.WriteTextFile {
			if err := session.WriteTextFile(ctx, filepath.Join(session.CWD, noteFile), note); err != nil {
				return agent.Errorf("The editor did not write %s: %v", noteFile, err)
			}
			return nil
		}
	}
	p := agent.Text(note).Named(noteFile)
	p.MediaType, p.Filename = "text/markdown", noteFile
	return r.Emit(ctx, p)
}

// maxTitle is the maximum length of a note's heading, in characters.
const maxTitle = 60

// draft formats a text as a note: its first words become the heading, its sentences a list.
func draft(text string) string {
	sentences := strings.FieldsFunc(text, func(c rune) bool { return c == '.' || c == '\n' || c == '!' || c == '?' })
	var points []string
	for _, s := range sentences {
		if s = strings.TrimSpace(s); s != "" {
			points = append(points, s)
		}
	}
	if points == nil {
		points = []string{"nothing in particular"}
	}
	title := []rune(points[0])
	if len(title) > maxTitle {
		title = append(title[:maxTitle-1], '…')
	}
	title[0] = unicode.ToUpper(title[0])
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", string(title))
	for _, p := range points {
		fmt.Fprintf(&b, "- %s\n", p)
	}
	fmt.Fprintf(&b, "\n%s, %s.\n", count(len(strings.Fields(text)), "word"), count(utf8.RuneCountInString(text), "letter"))
	return b.String()
}

// count formats a count with its noun.
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
