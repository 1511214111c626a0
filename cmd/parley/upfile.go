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
	"github.com/da1ed7bb/parley/playground"
)

// lookEvery is how often parley up looks whether its file has changed.
const lookEvery = time.Second

// judges are the rules of every protocol.
func judges() []capture.Judge { return lens.Judges() }

// An upFile is the configuration that parley up was started with, if any, and the way to those of others.
type upFile struct {
	path string
	say  func(line string)

	mu       sync.Mutex // guards what is below
	text     []byte
	file     *config.File
	approved map[string]config.Entry // programs that may be started, as they were when somebody approved them
}

// upFile reads the file that was named, and approves the programs in it. A file that cannot be read as a whole is a mistake of
// whoever named it; a server in it that cannot be used is shown on the page.
func (a *app) upFile(path string) (*upFile, error) {
	f := &upFile{path: path, say: func(line string) { fmt.Fprintf(a.stderr, "parley: %s\n", visible(line, 2000)) }}
	if path == "" {
		return f, nil
	}
	file, err := config.Read(path, nil)
	if err != nil {
		return nil, usagef("-c %s: %v", path, bareReason(err))
	}
	if len(file.Entries) == 0 {
		reason := "there are no servers in it"
		if len(file.Problems) > 0 {
			reason = visible(file.Problems[0].String(), 1000)
		}
		return nil, usagef("-c %s: %s", path, reason)
	}
	for _, p := range file.Problems {
		f.say(path + ":" + p.String())
	}
	f.text, _ = os.ReadFile(path) // it was just read
	f.approve(file)
	return f, nil
}

// bareReason is why a file could not be read, without its name, which stands before it.
func bareReason(err error) error {
	if where, ok := errors.AsType[*fs.PathError](err); ok {
		return where.Err
	}
	return err
}

// approve lets the programs of file run.
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

// isApproved reports whether e is a program that may be started: one of the file as somebody approved it, in all that matters.
func (f *upFile) isApproved(e *config.Entry) bool {
	known, ok := f.approved[e.Name]
	return ok && slices.Equal(known.Command, e.Command) && slices.Equal(known.Env, e.Env) && known.Dir == e.Dir
}

const notApproved = "it was not in the file when parley up was started; start it again, or send it the signal HUP, to approve it"

// targets are the servers of the file for the page.
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

// secrets are texts of the file that must not be recorded.
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

// config is the file for the page; nil if none was named.
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

// Found are the configurations of other programs.
func (f *upFile) Found() []playground.Config {
	own, _ := filepath.Abs(f.path) // one that cannot be named is another
	var list []playground.Config
	// Files of the project may be somebody else's, who would like to know what is in our environment.
	mine, theirs := config.Detect(config.Places{}, nil), config.Detect(config.Places{}, noVariables)
	for i, found := range mine {
		if !strings.HasPrefix(found.Shown, "~/") && i < len(theirs) {
			found = theirs[i]
		}
		if name, err := filepath.Abs(found.Name); f.path != "" && err == nil && name == own {
			continue
		}
		list = append(list, *configOf(found.Client, found.Shown, found.File))
	}
	return list
}

// Read reads what was pasted on the page. Variables of the environment are not filled in: whoever pastes is not whoever set them.
func (f *upFile) Read(name, text string) playground.Config {
	if name == "" {
		name = config.UsualName([]byte(text))
	}
	file := config.Parse(name, []byte(text), noVariables)
	for i := range file.Entries {
		if e := &file.Entries[i]; len(e.Missing) > 0 {
			e.Problem = "it names " + strings.Join(e.Missing, " and ") + "; variables are filled in for parley up -c FILE"
			for _, name := range e.Missing { // whether it is set is nobody's business here
				file.Problems = slices.DeleteFunc(file.Problems, func(p config.Problem) bool { return strings.HasPrefix(p.Text, name+" is not set") })
			}
		}
	}
	return *configOf("", name, file)
}

// noVariables reads a file as if nothing were set.
var noVariables = &config.Options{
	Lookup: func(string) (string, bool) { return "", false },
	ReadFile: func(string) ([]byte, error) {
		return nil, &os.PathError{Err: errors.New("files are read for parley up -c FILE")}
	},
}

// watch reads the file again when it has changed, until ctx ends. New programs in it may not run; with the signal HUP they may.
func (f *upFile) watch(ctx context.Context, changed func()) {
	if f.path == "" {
		return
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	again, stop := hangups()
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.reload(false, changed)
		case <-again:
			f.reload(true, changed)
		}
	}
}

// reload reads the file if it is another than before, or if somebody approves what is in it. A file that is being written, or is
// gone, leaves everything as it is. What is said of it is true already: changed is called before.
func (f *upFile) reload(approve bool, changed func()) {
	text, err := os.ReadFile(f.path)
	if err != nil {
		return
	}
	f.mu.Lock()
	same := bytes.Equal(text, f.text)
	f.mu.Unlock()
	if same && !approve {
		return
	}
	file := config.Parse(f.path, text, nil)
	f.mu.Lock()
	f.text = text
	f.mu.Unlock()
	if len(file.Entries) == 0 {
		f.say(f.path + ": there are no servers in it; the old ones stay")
		return
	}
	if approve {
		f.approve(file)
		changed()
		f.say("read " + f.path + " again; its programs are approved")
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
	f.say("read " + f.path + " again")
	for _, name := range waiting {
		f.say("@" + name + " is not approved: " + notApproved)
	}
}

var errNoConfig = errors.New("which file? parley config check FILE")
