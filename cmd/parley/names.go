package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/private"
	"github.com/da1ed7bb/parley/internal/x/secret"
	"github.com/da1ed7bb/parley/transport/stdio"
	"github.com/spf13/cobra"
)

// The name of a server, @name, is looked up in the file of -c, in parley.yaml in the working
// directory, in the user's own file, and in the files of installed clients. The first file with the
// name wins.

// configFlag registers -c.
func configFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVarP(to, "config", "c", "", "`FILE` with servers, to look up @NAME first; approves its programs")
}

// A namedServer is the entry of a configuration file that a name stands for.
type namedServer struct {
	config.Entry
	file    string // as people write it
	project bool   // the file is in the working directory, and the user did not name it

	unexpanded *config.Entry // the entry without the values of environment variables; nil if the file was named
}

// named returns the target that a name stands for. It asks the user before a program of a file in
// the working directory is used for the first time. The entry is stored in r.
func (a *app) named(ctx context.Context, r *reachFlags, word string) (parley.Target, error) {
	s, err := a.lookUp(r.config, word)
	if err != nil {
		return parley.Target{}, err
	}
	a.hide(s.Secrets...)
	t, err := s.Target()
	if err != nil {
		return t, usagef("%s of %s: %v", word, s.file, err)
	}
	if err := a.approve(ctx, s, t); err != nil {
		return t, err
	}
	r.entry = &s.Entry
	return t, nil
}

// lookUp finds the entry of a name such as @notes. An entry that cannot be used is an error.
func (a *app) lookUp(file, word string) (*namedServer, error) {
	name := strings.TrimPrefix(word, "@")
	all, problems, err := a.namedServers(file)
	if err != nil {
		return nil, err
	}
	var disabled *namedServer
	var names []string
	for i := range all {
		s := &all[i]
		switch {
		case s.Name != name:
			if !s.Disabled {
				names = append(names, "@"+s.Name)
			}
		case s.Disabled:
			disabled = s
		case s.Problem != "":
			return nil, usagef("%s in %s: %s", word, s.file, s.Problem)
		default:
			return s, nil
		}
	}
	if disabled != nil {
		return nil, usagef("%s is disabled in %s; enable it there, or use its address", word, disabled.file)
	}
	text := "unknown name " + cut(word, 60) + didYouMean(word, names)
	switch {
	case len(problems) > 0:
		text += "; " + problems[0]
	case len(names) == 0:
		text += "; no configuration file lists a server: use -c FILE, or write a parley.yaml"
	default:
		text += "; known names: " + cut(strings.Join(names, ", "), 300)
	}
	return nil, usagef("%s", text)
}

// namedServers returns the servers of all files in which names are looked up, in that order, and
// the files that cannot be read. An unreadable file of -c is an error.
func (a *app) namedServers(file string) (all []namedServer, problems []string, err error) {
	add := func(shown string, f, unexpanded *config.File, project bool) {
		for i, e := range f.Entries {
			s := namedServer{Entry: e, file: shown, project: project}
			if project && unexpanded != nil && i < len(unexpanded.Entries) {
				s.unexpanded = &unexpanded.Entries[i]
			}
			all = append(all, s)
		}
		if len(f.Entries) == 0 && len(f.Problems) > 0 {
			problems = append(problems, shown+": "+f.Problems[0].String())
		}
	}
	if file != "" {
		path := a.atHome(file)
		f, err := config.Read(path, nil)
		if err != nil {
			return nil, nil, usagef("-c %s: %v", file, bareReason(err))
		}
		if len(f.Entries) == 0 && len(f.Problems) > 0 {
			return nil, nil, usagef("-c %s: %s", file, f.Problems[0])
		}
		add(file, f, nil, false)
	}
	for _, found := range detectBoth() {
		add(found.Shown, found.File, found.unexpanded, found.project)
	}
	return all, problems, nil
}

// markedVariables reads a file with a mark in place of the value of each variable and file, so that
// an entry shows which of them it uses.
var markedVariables = &config.Options{
	Lookup:   func(name string) (string, bool) { return markOf(name), true },
	ReadFile: func(name string) ([]byte, error) { return []byte(markedFile + name + markEnd), nil },
}

const (
	markBegin = "parley.variable."
	markEnd   = ".end"
	// markedFile begins the content of each file. In an envFile it is a variable, which [own] omits.
	markedFile = "FILE=" + markBegin + "file:"
)

func markOf(name string) string { return markBegin + name + markEnd }

var variableMark = regexp.MustCompile(`parley\.variable\.(.*?)\.end`)

// A foundFile is a detected configuration file, with and without the values of environment
// variables.
type foundFile struct {
	config.Found
	unexpanded *config.File
	project    bool // it is in the working directory, where another person may have written it
}

// detectBoth detects the configuration files of this user and of the working directory.
func detectBoth() (list []foundFile) {
	mine, plain := config.Detect(config.Places{}, nil), config.Detect(config.Places{}, markedVariables)
	for _, found := range mine {
		f := foundFile{Found: found, project: !filepath.IsAbs(found.Name)}
		for _, other := range plain {
			if other.Name == found.Name {
				f.unexpanded = other.File
			}
		}
		list = append(list, f)
	}
	return list
}

// approve returns nil if the server may be used. A program that a file in the working directory
// lists could have been written by somebody else, as could an address that receives environment
// variables. The user is asked for it once; without a terminal it is an error.
func (a *app) approve(ctx context.Context, s *namedServer, t parley.Target) error {
	reads := s.variables()
	if !s.project || t.Scheme != "exec" && (len(reads) == 0 || isLocal(t)) {
		return nil
	}
	digest, err := s.digest()
	if err != nil {
		return err
	}
	if slices.Contains(a.approved(), digest) {
		return nil
	}
	if !isTerminal(a.stdin) || !isTerminal(a.stderr) {
		return usagef("@%s in %s %s; it needs your approval: name the file with -c %s, or run this once in a terminal",
			s.Name, s.file, s.does(t, reads), shellWord(s.file))
	}
	fmt.Fprintf(a.stderr, "@%s in %s, a file that you did not name, %s.\n", visible(s.Name, 100), visible(s.file, 300), visible(s.does(t, reads), 4000))
	if t.Scheme == "exec" {
		fmt.Fprintf(a.stderr, "  command  %s\n  folder   %s\n", visible(s.commandLine(), 4000), visible(s.Dir, 1000))
		if names := s.environment(); len(names) > 0 {
			fmt.Fprintf(a.stderr, "  sets     %s\n", visible(strings.Join(names, ", "), 1000))
		}
		if len(s.Risky) > 0 {
			fmt.Fprintf(a.stderr, "  caution  %s can make programs run other code\n", visible(strings.Join(s.Risky, ", "), 1000))
		}
	}
	fmt.Fprint(a.stderr, "Allow this? The answer is stored until the entry changes. [y/N] ")
	line, err := a.typed(ctx)
	if err != nil && !is[errNoMore](err) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return a.storeApproval(digest)
	}
	return usagef("@%s was not approved; nothing was started", s.Name)
}

// does describes what needs an approval.
func (s *namedServer) does(t parley.Target, reads []string) string {
	if t.Scheme == "exec" {
		return "starts the program " + cut(s.commandLine(), 300) + " in " + s.Dir
	}
	return "sends the values of " + strings.Join(reads, ", ") + " to " + t.Address
}

// commandLine returns the program with its arguments in the syntax of a shell, without secrets.
func (s *namedServer) commandLine() string {
	words := make([]string, len(s.Command))
	for i, word := range s.Command {
		words[i] = shellWord(word)
	}
	hidden := secret.New(nil)
	hidden.Add(s.Secrets...)
	return strings.ReplaceAll(hidden.Address(strings.Join(words, " ")), secret.Hidden, "•••")
}

// variables returns the names of the environment variables and files whose values the address and
// the headers of the entry contain.
func (s *namedServer) variables() (names []string) {
	if s.unexpanded == nil {
		return nil
	}
	text := []string{s.unexpanded.Address}
	for _, name := range slices.Sorted(maps.Keys(s.unexpanded.Header)) {
		text = append(text, s.unexpanded.Header[name]...)
	}
	for _, mark := range variableMark.FindAllStringSubmatch(strings.Join(text, " "), -1) {
		if !slices.Contains(names, mark[1]) {
			names = append(names, mark[1])
		}
	}
	if names == nil && (s.Address != s.unexpanded.Address || !maps.EqualFunc(s.Header, s.unexpanded.Header, slices.Equal)) {
		return []string{"variables"} // the file changed in between
	}
	return names
}

// isLocal reports whether the target is on this machine.
func isLocal(t parley.Target) bool {
	if t.Scheme == "unix" {
		return true
	}
	host, _, err := net.SplitHostPort(t.Address)
	if err != nil {
		host = strings.Trim(t.Address, "[]")
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// own returns the environment that the entry itself defines: its variables as they are in the file,
// then those of its envFile with their values, because a program may do something else with other
// values.
func (s *namedServer) own() []string {
	usual, _ := stdio.CleanEnv()
	isUsual := func(pair string) bool { return slices.Contains(usual, pair) }
	if s.unexpanded == nil {
		return slices.DeleteFunc(slices.Clone(s.Env), isUsual)
	}
	list := slices.DeleteFunc(slices.Clone(s.unexpanded.Env), func(pair string) bool { return isUsual(pair) || strings.HasPrefix(pair, markedFile) })
	var names []string
	for _, pair := range list {
		names = append(names, nameOf(pair))
	}
	for _, pair := range s.Env {
		if !isUsual(pair) && !slices.Contains(names, nameOf(pair)) {
			list = append(list, pair)
		}
	}
	return list
}

// nameOf returns the name of a variable with its value.
func nameOf(pair string) string {
	name, _, _ := strings.Cut(pair, "=")
	return name
}

// environment returns the names of the variables that the entry sets.
func (s *namedServer) environment() (names []string) {
	for _, pair := range s.own() {
		names = append(names, nameOf(pair))
	}
	return names
}

// digest identifies what an approval is for: the file and everything that decides what is run or
// sent.
func (s *namedServer) digest() (string, error) {
	path, err := filepath.Abs(s.file)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal([]any{"parley approval 1", path, s.Name, s.Command, s.Dir, s.own(), s.Address, s.variables()})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// maxApprovals is the maximum number of stored approvals; beyond it, the oldest is removed.
const maxApprovals = 1000

// approvalFile returns the file with the digests of approved entries, one per line, or "" if there
// is no folder for it.
func (a *app) approvalFile() string {
	dir := a.stateDir()
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "approved")
}

// approved returns the stored approvals. A file that other users could have written has none.
func (a *app) approved() []string {
	text, err := private.ReadSecret(a.approvalFile(), 1<<20)
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

func (a *app) storeApproval(digest string) error {
	file := a.approvalFile()
	if file == "" {
		return nil // the user is asked again
	}
	list := append(a.approved(), digest)
	list = list[max(0, len(list)-maxApprovals):]
	err := private.Folder(filepath.Dir(file))
	if err == nil {
		err = private.Write(file, []byte(strings.Join(list, "\n")+"\n"))
	}
	if err != nil {
		fmt.Fprintf(a.stderr, "parley: the approval cannot be stored: %s\n", visible(err.Error(), 400))
	}
	return nil
}

// completeNames completes @names. It reads files only.
func (a *app) completeNames(file, typed string) (names []cobra.Completion) {
	all, _, err := a.namedServers(file)
	if err != nil {
		return nil
	}
	for i := range all {
		if s := &all[i]; !s.Disabled && strings.HasPrefix("@"+s.Name, typed) {
			names = append(names, cobra.CompletionWithDesc("@"+s.Name, s.Show))
		}
	}
	return names
}
