package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/lens"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/private"
	"github.com/da1ed7bb/parley/playground"
)

// lookEvery is the interval at which parley up checks its file for changes.
const lookEvery = time.Second

// judges returns the rules of every protocol.
func judges() []capture.Judge { return lens.Judges() }

// An upFile is the configuration that parley up was started with, if any. It also finds the
// configurations of other programs.
type upFile struct {
	path string
	log  func(line string)

	mu      sync.Mutex // guards the fields below
	text    []byte
	refused string // why the file is not read again; reported once
	file    *config.File
	// Programs that may be started, as they were when the user approved them.
	approved map[string]config.Entry
}

// upFile reads the named file and approves its programs. A file that cannot be read at all is a
// usage error; a server in it that cannot be used is shown on the page.
func (a *app) upFile(path string) (*upFile, error) {
	path = a.atHome(path)
	f := &upFile{path: path, log: func(line string) { fmt.Fprintf(a.stderr, "parley: %s\n", visible(line, 2000)) }}
	if path == "" {
		return f, nil
	}
	file, text, err := config.ReadText(path, nil)
	if err != nil {
		return nil, usagef("-c %s: %v", path, bareReason(err))
	}
	if len(file.Entries) == 0 {
		reason := "the file lists no servers"
		if len(file.Problems) > 0 {
			reason = visible(file.Problems[0].String(), 1000)
		}
		return nil, usagef("-c %s: %s", path, reason)
	}
	for _, p := range file.Problems {
		f.log(path + ":" + p.String())
	}
	f.text = text
	f.approve(file)
	return f, nil
}

// atHome replaces a leading ~ in path with the home folder where the shell has not done so: after
// -c= and in quotes. A file whose name starts with ~ takes precedence.
func (a *app) atHome(path string) string {
	rest, ok := strings.CutPrefix(filepath.ToSlash(path), "~/")
	if !ok {
		return path
	}
	if _, err := os.Lstat(path); err == nil {
		return path
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return path
	}
	return filepath.Join(home, filepath.FromSlash(rest))
}

// bareReason returns why a file could not be read, without the name of the file.
func bareReason(err error) error {
	if where, ok := errors.AsType[*fs.PathError](err); ok {
		return where.Err
	}
	return err
}

// approve allows the programs of file to run.
func (f *upFile) approve(file *config.File) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.file, f.approved = file, make(map[string]config.Entry)
	for _, e := range file.Entries {
		if len(e.Command) > 0 {
			f.approved[e.Name] = e
		}
	}
}

// isApproved reports whether e may be started: an approved entry of the file equals it in all
// relevant fields.
func (f *upFile) isApproved(e *config.Entry) bool {
	known, ok := f.approved[e.Name]
	return ok && slices.Equal(known.Command, e.Command) && slices.Equal(known.Env, e.Env) && known.Dir == e.Dir
}

const notApproved = "it was not in the file when parley up started; to approve it, restart parley or send it the signal HUP"

// targets returns the servers of the file as targets of the page.
func (f *upFile) targets() []playground.Target {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	var list []playground.Target
	for _, e := range f.file.Entries {
		if e.Disabled {
			continue
		}
		t := targetOf(&e)
		t.Name, t.From = "@"+e.Name, playground.FromFile
		if len(e.Command) > 0 && !f.isApproved(&e) {
			t.Problem = notApproved
		}
		list = append(list, t)
	}
	return list
}

func targetOf(e *config.Entry) playground.Target {
	return playground.Target{
		Name: e.Name, Title: e.Title, About: e.About, Protocol: e.Protocol, Address: e.Address, Command: e.Command, Env: e.Env, Dir: e.Dir,
		Framing: e.Framing, Header: e.Header, Show: e.Show, Problem: e.Problem, Secrets: e.Secrets,
	}
}

// secrets returns the texts of the file that must not be recorded.
func (f *upFile) secrets() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	if f.file != nil {
		for _, e := range f.file.Entries {
			list = append(list, e.Secrets...)
		}
	}
	return list
}

// config returns the file for the page, or nil if none was named.
func (f *upFile) config() *playground.Config {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	return configOf("", f.path, f.file)
}

func configOf(client, path string, file *config.File) *playground.Config {
	c := &playground.Config{Client: client, Path: path}
	for i := range file.Entries {
		e := &file.Entries[i]
		transport := "stdio"
		if len(e.Command) == 0 {
			transport = "http"
			if t, err := e.Target(); err == nil {
				transport = t.Scheme
			}
		}
		c.Entries = append(c.Entries, playground.ConfigEntry{Target: targetOf(e), Transport: transport, Missing: e.Missing})
	}
	for _, p := range file.Problems {
		text := p.Text
		if p.Path != "" {
			text = p.Path + ": " + text
		}
		c.Problems = append(c.Problems, playground.ConfigProblem{Line: p.Line, Column: p.Column, Text: text})
	}
	return c
}

// Found returns the configurations of other programs.
func (f *upFile) Found() []playground.Config {
	own, _ := filepath.Abs(f.path) // a path without an absolute form counts as another file
	var list []playground.Config
	// Another person may have written the project's files, and could use them to read our
	// environment.
	mine, theirs := config.Detect(config.Places{}, nil), config.Detect(config.Places{}, noVariables)
	for i, found := range mine {
		if !strings.HasPrefix(found.Shown, "~/") && i < len(theirs) {
			found = theirs[i]
		}
		if name, err := filepath.Abs(found.Name); f.path != "" && err == nil && name == own {
			continue
		}
		c := configOf(found.Client, found.Shown, found.File)
		c.File, _ = filepath.Abs(found.Name) // if it fails, the name as shown is used
		list = append(list, *c)
	}
	return list
}

// Read parses text that was pasted on the page. It does not expand environment variables, because
// the author of the text may not be the user.
func (f *upFile) Read(name, text string) playground.Config {
	if name == "" {
		name = config.UsualName([]byte(text))
	}
	file := config.Parse(name, []byte(text), noVariables)
	for i := range file.Entries {
		if e := &file.Entries[i]; len(e.Missing) > 0 {
			e.Problem = "it uses " + strings.Join(e.Missing, " and ") + "; only parley up -c FILE expands variables"
			for _, name := range e.Missing { // do not disclose whether the variable is set
				file.Problems = slices.DeleteFunc(file.Problems, func(p config.Problem) bool { return strings.HasPrefix(p.Text, name+" is not set") })
			}
		}
	}
	return *configOf("", name, file)
}

// noVariables reads a file as if no environment variable were set.
var noVariables = &config.Options{
	Lookup: func(string) (string, bool) { return "", false },
	ReadFile: func(string) ([]byte, error) {
		return nil, &os.PathError{Err: errors.New("only parley up -c FILE reads files")}
	},
}

// watch reads the file again after each change, until ctx ends. New programs in it may run only
// after a HUP signal.
func (f *upFile) watch(ctx context.Context, changed func()) {
	if f.path == "" {
		return
	}
	lookRepeatedly(ctx, func(approve bool) { f.reload(approve, changed) })
}

// lookRepeatedly calls reload every second, and with approve at the signal HUP, until ctx ends.
func lookRepeatedly(ctx context.Context, reload func(approve bool)) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	again, stop := hangups()
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			reload(false)
		case <-again:
			reload(true)
		}
	}
}

// reload reads the file if it has changed, or if the user approves its content. A file that is
// being written or is missing changes nothing. changed is called before the reload is reported, so
// that a report is true when it is printed.
func (f *upFile) reload(approve bool, changed func()) {
	file, text, err := config.ReadText(f.path, nil)
	if refused, ok := errors.AsType[*private.RefusedError](err); ok {
		f.mu.Lock()
		said := f.refused == refused.Error()
		f.refused = refused.Error()
		f.mu.Unlock()
		if !said {
			f.log(refused.Error() + "; not reloaded")
		}
		return
	}
	if err != nil {
		return
	}
	f.mu.Lock()
	f.refused = ""
	same := bytes.Equal(text, f.text)
	f.mu.Unlock()
	if same && !approve {
		return
	}
	f.mu.Lock()
	f.text = text
	f.mu.Unlock()
	if len(file.Entries) == 0 {
		f.log(f.path + ": the file lists no servers; the previous ones stay active")
		return
	}
	if approve {
		f.approve(file)
		changed()
		f.log("reloaded " + f.path + "; its programs are approved")
		return
	}
	f.mu.Lock()
	f.file = file
	var waiting []string
	for i := range file.Entries {
		if e := &file.Entries[i]; len(e.Command) > 0 && !f.isApproved(e) {
			waiting = append(waiting, e.Name)
		}
	}
	f.mu.Unlock()
	changed()
	f.log("reloaded " + f.path)
	for _, name := range waiting {
		f.log("@" + name + " is not approved: " + notApproved)
	}
}

var errNoConfig = errors.New("missing FILE. Usage: parley config check FILE")
