// Command agenteditor implements both sides of the Agent Client Protocol. Without arguments it is
// an agent on its stdin and stdout, which an editor may start. With a file and a command it is an
// editor: it starts the agent with the command and lets it tidy up the file.
//
//	$ printf 'tulips   \n\n\n\nroses\n' >beds.txt
//	$ go run ./examples/agenteditor beds.txt -- agenteditor
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/transport/stdio"
)

var (
	trailing = regexp.MustCompile(`[ \t]+\n`)
	gaps     = regexp.MustCompile(`\n{3,}`)
)

// tidy is the agent: the prompt names a file, which it tidies up if permitted.
func tidy(ctx context.Context, t *editor.Turn) (editor.StopReason, error) {
	path := t.Text()
	before, err := t.ReadTextFile(ctx, path, 0, 0)
	if err != nil {
		return "", err
	}
	after := gaps.ReplaceAllString(trailing.ReplaceAllString(before, "\n"), "\n\n")
	if after == before {
		return editor.EndTurn, t.Say(ctx, "It is tidy already.")
	}

	tool := editor.ToolCall{ID: "tidy", Title: "Tidy up " + filepath.Base(path), Kind: editor.ToolEdit, Status: editor.StatusPending,
		Content: []editor.ToolContent{editor.Changed(editor.Diff{Path: path, OldText: &before, NewText: after})}}
	if err := t.Update(ctx, editor.StartTool(tool)); err != nil {
		return "", err
	}
	options := []editor.PermissionOption{{ID: "go", Name: "Write it", Kind: editor.AllowOnce}, {ID: "stop", Name: "Leave it", Kind: editor.RejectOnce}}
	answer, err := t.RequestPermission(ctx, editor.ToolCall{ID: "tidy"}, options...)
	if err != nil {
		return "", err
	}
	done := editor.ToolCall{ID: "tidy", Status: editor.StatusFailed}
	if answer.Allowed(options) {
		if err := t.WriteTextFile(ctx, path, after); err != nil {
			return "", err
		}
		done.Status = editor.StatusCompleted
	}
	if err := t.Update(ctx, editor.ChangeTool(done)); err != nil {
		return "", err
	}
	return editor.EndTurn, t.Say(ctx, fmt.Sprintf("%d bytes less.", len(before)-len(after)))
}

func newAgent() *editor.Agent {
	return editor.NewAgent(editor.Implementation{Name: "tidy", Title: "Tidy", Version: "1.0"}, &editor.AgentOptions{Prompt: tidy})
}

// An office is the editor's side: it has files, and a user to ask.
type office struct{ in *bufio.Scanner }

func (o *office) options() *editor.ClientOptions {
	return &editor.ClientOptions{
		ReadTextFile: func(_ context.Context, p *editor.ReadTextFileParams) (string, error) {
			text, err := os.ReadFile(p.Path)
			return string(text), err
		},
		WriteTextFile: func(_ context.Context, p *editor.WriteTextFileParams) error {
			return os.WriteFile(p.Path, []byte(p.Content), 0o600)
		},
		Permission: func(_ context.Context, p *editor.PermissionParams) (*editor.PermissionResult, error) {
			for i, option := range p.Options {
				fmt.Printf("%d. %s\n", i+1, option.Name)
			}
			if o.in.Scan() && strings.TrimSpace(o.in.Text()) == "1" {
				return editor.Select(p.Options[0].ID), nil
			}
			return nil, nil // nil means no
		},
	}
}

// show prints one update.
func show(u *editor.Update) error {
	switch {
	case u.Tool != nil && u.Tool.Title != "":
		fmt.Println(u.Tool.Title + "?")
	case u.Tool != nil:
		fmt.Println(u.Tool.Status)
	default:
		fmt.Println(u.Text())
	}
	return nil
}

// edit starts an agent with a command and lets it work on a file.
func edit(ctx context.Context, path string, argv []string) error {
	child, err := stdio.Start(ctx, argv, nil)
	if err != nil {
		return err
	}
	o := &office{in: bufio.NewScanner(os.Stdin)}
	c, err := editor.Connect(ctx, child, editor.Implementation{Name: "office", Version: "1.0"}, o.options())
	if err != nil {
		return err
	}
	defer c.Close()

	session, err := c.NewSession(ctx, &editor.NewSessionParams{CWD: filepath.Dir(path)})
	if err != nil {
		return err
	}
	prompt := &editor.PromptParams{SessionID: session.SessionID, Prompt: []editor.Content{editor.Text(path)}}
	end, err := c.Prompt(ctx, prompt, show)
	if err != nil {
		return err
	}
	fmt.Println(end.StopReason)
	return nil
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 0:
		return newAgent().Serve(ctx, stdio.New(nil))
	case len(args) < 3 || args[1] != "--":
		return errors.New("usage: agenteditor [FILE -- COMMAND …]")
	}
	path, err := filepath.Abs(args[0])
	if err != nil {
		return err
	}
	return edit(ctx, path, args[2:])
}
