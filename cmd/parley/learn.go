package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/da1ed7bb/parley/internal/lessons"
	"github.com/da1ed7bb/parley/internal/x/private"
	"github.com/da1ed7bb/parley/playground"
)

const learnHelp = `Learn JSON-RPC, MCP and agents in the terminal, by calls on a demo server.

  parley learn                    list the lessons, and which are done
  parley learn request            do a lesson, by its name or number
  parley learn errors --all       run all steps of it without waiting

Each step shows a command. Press Enter to run it, or type a call of your own: the step is done when
the messages on the wire show it, however they were sent. The lessons are those of the page of
parley up. Their server runs only during the lesson, on ports of this machine that other programs
can call, too: a call from another terminal also counts.

Without a terminal, all steps run and the transcript goes to stdout; --all alone runs all lessons.
Every command in it was run as it is shown.`

// learnFlags are the flags of the learn command.
type learnFlags struct {
	all     bool
	timeout time.Duration
}

func (a *app) learnCommand() *cobra.Command {
	var flags learnFlags
	cmd := &cobra.Command{
		Use:   "learn [LESSON]",
		Short: "learn JSON-RPC, MCP and agents, step by step",
		Long:  learnHelp,
		RunE:  func(cmd *cobra.Command, words []string) error { return a.learn(cmd.Context(), flags, words) },
		ValidArgsFunction: func(_ *cobra.Command, words []string, typed string) (list []cobra.Completion, _ cobra.ShellCompDirective) {
			for _, l := range lessons.All() {
				if len(words) == 0 && strings.HasPrefix(l.ID, typed) {
					list = append(list, cobra.CompletionWithDesc(l.ID, l.Title))
				}
			}
			return list, cobra.ShellCompDirectiveNoFileComp
		},
	}
	f := cmd.Flags()
	f.BoolVar(&flags.all, "all", false, "run all steps without waiting and print a transcript; without LESSON, of all lessons")
	f.DurationVar(&flags.timeout, "timeout", callTimeout, "`TIME` that one command may take; 0 means no timeout")
	return cmd
}

// learn lists the lessons, or runs those that the words select.
func (a *app) learn(ctx context.Context, flags learnFlags, words []string) error {
	all := lessons.All()
	switch {
	case a.hasArgv:
		return usagef("parley learn does not start a command; remove -- and the words after it")
	case len(words) > 1:
		return usagef("unexpected argument %q (see parley learn --help)", cut(words[1], 60))
	case flags.timeout < 0:
		return usagef("--timeout must not be negative")
	case len(words) == 0 && !flags.all:
		return a.listLessons(all)
	}
	chosen := all
	if len(words) == 1 {
		i, err := lessonOf(all, words[0])
		if err != nil {
			return err
		}
		chosen = all[i : i+1]
	}
	room, err := a.openRoom(ctx)
	if err != nil {
		return err
	}
	defer room.close()
	p := &pupil{app: a, room: room, all: all, timeout: flags.timeout, done: a.lessonsDone(), width: textWidth}
	p.alone = flags.all || !isTerminal(a.stdin) || !isTerminal(a.stdout) || !isTerminal(a.stderr)
	if isTerminal(a.stdout) {
		p.width = min(textWidth, widthOf(a.stdout)-1)
		if colour, _ := a.wantsColour("auto", true); colour {
			p.palette = colours
		}
	}
	for i := range chosen {
		if i > 0 {
			p.print("\n")
		}
		if err := p.lesson(ctx, &chosen[i]); err != nil {
			if errors.Is(err, errLeft) || is[errNoMore](err) {
				return nil
			}
			return err
		}
	}
	return nil
}

// lessonOf finds a lesson by its ID or number.
func lessonOf(all []playground.Lesson, word string) (int, error) {
	ids := make([]string, len(all))
	for i, l := range all {
		if ids[i] = l.ID; l.ID == word {
			return i, nil
		}
	}
	if n, err := strconv.Atoi(word); err == nil && n >= 1 && n <= len(all) {
		return n - 1, nil
	}
	return 0, usagef("unknown lesson %q%s; parley learn lists them", cut(word, 60), didYouMean(word, ids))
}

// listLessons prints the lessons with what was done of each.
func (a *app) listLessons(all []playground.Lesson) error {
	done := a.lessonsDone()
	var b strings.Builder
	next := ""
	for i, l := range all {
		passed := 0
		for _, s := range l.Steps {
			if slices.Contains(done, l.ID+"/"+s.ID) {
				passed++
			}
		}
		note := fmt.Sprintf("%d steps", len(l.Steps))
		switch {
		case passed == len(l.Steps):
			note = "done"
		case passed > 0:
			note = fmt.Sprintf("%d of %d steps", passed, len(l.Steps))
		}
		if passed < len(l.Steps) && next == "" {
			next = l.ID
		}
		fmt.Fprintf(&b, "%2d  %-12s  %-28s  %s\n", i+1, l.ID, l.Title, note)
	}
	_, err := io.WriteString(a.stdout, b.String())
	if err == nil && next != "" && isTerminal(a.stderr) {
		fmt.Fprintf(a.stderr, "\nContinue with: %s learn %s\n", commandName(), next)
	}
	return err
}

// lessonsFile returns the file with the passed steps, one LESSON/STEP per line, or "" if there is
// no folder for it.
func (a *app) lessonsFile() string {
	dir := a.stateDir()
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "lessons")
}

// lessonsDone returns the passed steps.
func (a *app) lessonsDone() []string {
	text, err := private.ReadSecret(a.lessonsFile(), 1<<20)
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

// storeDone adds passed steps to the file. It does not matter if that fails: only the list of
// lessons uses them.
func (a *app) storeDone(steps []string) {
	file := a.lessonsFile()
	if file == "" || len(steps) == 0 {
		return
	}
	known := make(map[string]bool)
	for _, l := range lessons.All() {
		for _, s := range l.Steps {
			known[l.ID+"/"+s.ID] = true
		}
	}
	var list []string
	for _, step := range append(a.lessonsDone(), steps...) {
		if known[step] && !slices.Contains(list, step) {
			list = append(list, step)
		}
	}
	if err := private.Folder(filepath.Dir(file)); err == nil {
		_ = private.Write(file, []byte(strings.Join(list, "\n")+"\n")) // see above
	}
}
