package playground

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/da1ed7bb/parley/internal/x/private"
	"github.com/da1ed7bb/parley/playground/internal/copyas"
)

// Configs reads configurations for the page. Its methods are safe for concurrent use.
type Configs interface {
	// Found returns the configurations of other programs on this machine. They are read, never
	// written.
	Found() []Config

	// Read parses a configuration that was pasted or dropped. name is its file name, or "" for
	// pasted text; in that case the Path of the result is the path that such a file would have.
	Read(name, text string) Config
}

// A Config is a parsed configuration.
type Config struct {
	Client   string // the program that owns it, "" for pasted text
	Path     string // path for display
	File     string // absolute path; "" for pasted text
	Entries  []ConfigEntry
	Problems []ConfigProblem
}

// A ConfigEntry is one server of a configuration. Its Target contains the secrets; the page
// receives only what the target shows.
type ConfigEntry struct {
	Target
	Transport string
	Missing   []string // unset variables
}

// A ConfigProblem is an unusable part of a configuration. Line and Column start at 1; 0 means the
// whole file.
type ConfigProblem struct {
	Line   int    `json:"line,omitzero"`
	Column int    `json:"column,omitzero"`
	Text   string `json:"text"`
}

// A pasted is a pasted configuration, which the page refers to by a generated ID.
type pasted struct {
	config Config
	text   string // the pasted text
	save   string // where it can be saved, so that parley up has a file to start with
}

// configs contains the configurations that the page shows. The zero value is ready for use.
type configs struct {
	mu   sync.Mutex
	file *ConfigView // the one that the program was started with, or nil
	byID map[string]*pasted
	last int // number of the newest that was pasted
}

// started returns the configuration that the program was started with, or nil.
func (s *configs) started() *ConfigView {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file
}

// setStarted stores the configuration that the program was started with.
func (s *configs) setStarted(v *ConfigView) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file = v
}

// put stores a configuration under an ID.
func (s *configs) put(id string, c *pasted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putLocked(id, c)
}

func (s *configs) putLocked(id string, c *pasted) {
	if s.byID == nil {
		s.byID = make(map[string]*pasted)
	}
	s.byID[id] = c
}

// paste stores a pasted configuration and returns its ID. It drops the oldest beyond maxPasted.
func (s *configs) paste(c *pasted) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	id = "p" + strconv.Itoa(s.last)
	s.putLocked(id, c)
	delete(s.byID, "p"+strconv.Itoa(s.last-maxPasted))
	return id
}

// find returns a stored configuration.
func (s *configs) find(id string) (*pasted, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.byID[id]; c != nil {
		return c, nil
	}
	return nil, badParam("/config", "configuration %q is no longer stored; paste it again", id)
}

// maxPasted is the maximum number of pasted configurations. The oldest are dropped.
const maxPasted = 50

// A ConfigView is a configuration as the page receives it.
type ConfigView struct {
	Config string `json:"config,omitzero"` // for targets/open
	Client string `json:"client,omitzero"`
	Path   string `json:"path,omitzero"`
	File   string `json:"file,omitzero"` // for parley up -c
	// Save is the path to which config/save writes it; "" if it is a file already.
	Save     string          `json:"save,omitzero"`
	Entries  []EntryView     `json:"entries"`
	Problems []ConfigProblem `json:"problems"`
}

// An EntryView is one server of a configuration. Secrets are masked.
type EntryView struct {
	Name      string   `json:"name"`
	Kind      string   `json:"kind"`
	Address   string   `json:"address"`
	Protocol  string   `json:"protocol"`
	Transport string   `json:"transport,omitzero"`
	Problem   string   `json:"problem,omitzero"`
	Missing   []string `json:"missing,omitzero"`
	// Command is the command to type, for a program that the page may not start.
	Command string `json:"command,omitzero"`
}

// view returns c for the page. started reports whether parley up was started with c, so that its
// programs may run.
func (c *Config) view(id string, started bool) ConfigView {
	v := ConfigView{Config: id, Client: c.Client, Path: c.Path, Entries: []EntryView{}, Problems: append([]ConfigProblem{}, c.Problems...)}
	for _, e := range c.Entries {
		entry := EntryView{Name: e.Name, Kind: e.kind(), Address: e.show(), Protocol: e.protocol(), Transport: e.Transport, Problem: e.Problem, Missing: e.Missing}
		if entry.Kind == "command" && !started {
			entry.Command = c.start()
		}
		v.Entries = append(v.Entries, entry)
	}
	return v
}

// start returns the command that starts parley up with the configuration, from any folder.
func (c *Config) start() string {
	name := c.File
	if strings.HasPrefix(c.Path, "~/") || name == "" {
		name = orDefault(c.Path, "mcp.json")
	}
	return "parley up -c " + copyas.ShellPath(name)
}

type configResult struct {
	ConfigView
	Found []ConfigView `json:"found"`
}

// SetConfig shows the configuration that the program was started with. The caller passes its
// entries to [Playground.SetTargets].
func (p *Playground) SetConfig(c *Config) {
	v := c.view("", true)
	v.File = c.Path
	p.configs.setStarted(&v)
	p.changes.signal()
}

func (p *Playground) configList(context.Context, none) (configResult, error) {
	out := configResult{Found: []ConfigView{}}
	out.Entries, out.Problems = []EntryView{}, []ConfigProblem{}
	if file := p.configs.started(); file != nil {
		out.ConfigView = *file
	}
	if p.options.Configs == nil {
		return out, nil
	}
	found := p.options.Configs.Found()
	for i := range found {
		id := "f" + strconv.Itoa(i+1)
		p.configs.put(id, &pasted{config: found[i]})
		out.Found = append(out.Found, found[i].view(id, false))
	}
	return out, nil
}

type configParams struct {
	Text string `json:"text"`
	Name string `json:"name,omitzero"`
}

// configRead parses pasted text. It opens no connection and starts no program.
func (p *Playground) configRead(_ context.Context, in configParams) (ConfigView, error) {
	if p.options.Configs == nil {
		return ConfigView{}, badParam("/text", "this server does not read configurations")
	}
	name := ""
	if in.Name != "" {
		name = cleanName(in.Name)
	}
	c := p.options.Configs.Read(name, in.Text)
	save := p.placeOf(c.Path, in.Text)
	c.File = save
	id := p.configs.paste(&pasted{c, in.Text, save})
	v := c.view(id, false)
	if _, err := os.Lstat(save); err != nil {
		v.Save = save
	}
	return v, nil
}

// placeOf returns where a configuration without a file can be saved: next to the folder of saved
// calls, under a name derived from its content.
func (p *Playground) placeOf(name, text string) string {
	sum := sha256.Sum256([]byte(text))
	ending := filepath.Ext(name)
	base := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return -1
	}, strings.TrimSuffix(filepath.Base(name), ending)), "-")
	place := filepath.Join(filepath.Dir(p.options.Folder), "configs", orDefault(base, "mcp")+"-"+hex.EncodeToString(sum[:4])+ending)
	if abs, err := filepath.Abs(place); err == nil {
		return abs
	}
	return place
}

type configSaveParams struct {
	Config string `json:"config"` // from config/read
}

// configSave writes pasted text into a file that only this user can read, so that parley up can be
// started with it. The person has to start it: configSave opens no connection and starts no
// program.
func (p *Playground) configSave(_ context.Context, in configSaveParams) (ConfigView, error) {
	c, err := p.configs.find(in.Config)
	if err != nil {
		return ConfigView{}, err
	}
	if c.save == "" {
		return ConfigView{}, badParam("/config", "configuration %q is no longer stored; paste it again", in.Config)
	}
	err = private.Folder(filepath.Dir(c.save))
	if err == nil {
		err = private.Write(c.save, []byte(c.text))
	}
	if err != nil {
		return ConfigView{}, unavailable("cannot save the configuration: %v", err)
	}
	return c.config.view(in.Config, false), nil
}

// fromConfig makes a target of an entry that has an address. The page cannot start an entry's
// program.
func (p *Playground) fromConfig(id, name string) (*target, error) {
	c, err := p.configs.find(id)
	if err != nil {
		return nil, err
	}
	for _, e := range c.config.Entries {
		if e.Name != name {
			continue
		}
		if len(e.Command) > 0 {
			fault := badParam("/name", "%s runs a command. To start it: %s", name, c.config.start())
			return nil, fault
		}
		if e.Problem != "" {
			return nil, unavailable("%s: %s", name, e.Problem)
		}
		spec := e.Target
		p.mu.Lock()
		defer p.mu.Unlock()
		spec.From, spec.Name = FromPage, freeName(p.targets, "@"+name)
		spec.Command, spec.Env = nil, nil
		return p.addLocked(spec)
	}
	return nil, badParam("/name", "the configuration has no entry %q", name)
}

// freeName returns name, with a number appended if it is taken.
func freeName(taken map[string]*target, name string) string {
	free := name
	for i := 2; taken[free] != nil; i++ {
		free = name + "-" + strconv.Itoa(i)
	}
	return free
}
