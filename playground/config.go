package playground

import (
	"context"
	"strconv"
)

// Configs reads configurations for the page. The methods are called from many goroutines.
type Configs interface {
	// Found are the configurations of other programs on this machine. They are read, never written.
	Found() []Config

	// Read reads one that was pasted or dropped. name is what the file was called, "" for a text; then the Path of what is returned is what
	// such a file would be called.
	Read(name, text string) Config
}

// A Config is a configuration that was read.
type Config struct {
	Client   string // whose it is, "" for a pasted one
	Path     string // as people write it
	Entries  []ConfigEntry
	Problems []ConfigProblem
}

// A ConfigEntry is a server in it. Its Target has the secrets; the page gets what it shows.
type ConfigEntry struct {
	Target
	Transport string
	Missing   []string // variables that are not set
}

// A ConfigProblem is a place that cannot be used. Line and Column count from 1; 0 is the whole file.
type ConfigProblem struct {
	Line   int    `json:"line,omitzero"`
	Column int    `json:"column,omitzero"`
	Text   string `json:"text"`
}

// A pasted is a configuration that the page knows by a name of ours.
type pasted struct{ config Config }

// maxPasted bounds them; the oldest go.
const maxPasted = 50

// A ConfigView is a configuration as the page sees it.
type ConfigView struct {
	Config   string          `json:"config,omitzero"` // for targets/open
	Client   string          `json:"client,omitzero"`
	Path     string          `json:"path,omitzero"`
	File     string          `json:"file,omitzero"` // of parley up -c
	Entries  []EntryView     `json:"entries"`
	Problems []ConfigProblem `json:"problems"`
}

// An EntryView is a server in it. Secrets are masked.
type EntryView struct {
	Name      string   `json:"name"`
	Kind      string   `json:"kind"`
	Address   string   `json:"address"`
	Protocol  string   `json:"protocol"`
	Transport string   `json:"transport,omitzero"`
	Problem   string   `json:"problem,omitzero"`
	Missing   []string `json:"missing,omitzero"`
	Command   string   `json:"command,omitzero"` // what to type, for a program that the page may not start
}

// view is c for the page. started tells that parley up was started with it, so that its programs may run.
func (c *Config) view(id string, started bool) ConfigView {
	v := ConfigView{Config: id, Client: c.Client, Path: c.Path, Entries: []EntryView{}, Problems: append([]ConfigProblem{}, c.Problems...)}
	for _, e := range c.Entries {
		entry := EntryView{Name: e.Name, Kind: e.kind(), Address: e.show(), Protocol: e.protocol(), Transport: e.Transport, Problem: e.Problem, Missing: e.Missing}
		if entry.Kind == "command" && !started {
			entry.Command = "parley up -c " + shellWord(orDefault(c.Path, "mcp.json"))
		}
		v.Entries = append(v.Entries, entry)
	}
	return v
}

type configResult struct {
	ConfigView
	Found []ConfigView `json:"found"`
}

// SetConfig shows the configuration that the program was started with. Its entries are told to SetTargets by the caller.
func (p *Playground) SetConfig(c *Config) {
	v := c.view("", true)
	v.File = c.Path
	p.mu.Lock()
	defer p.mu.Unlock()
	p.file = &v
	p.tellLocked()
}

func (p *Playground) configList(context.Context, none) (configResult, error) {
	p.mu.Lock()
	out := configResult{Found: []ConfigView{}}
	out.Entries, out.Problems = []EntryView{}, []ConfigProblem{}
	if p.file != nil {
		out.ConfigView = *p.file
	}
	p.mu.Unlock()
	if p.options.Configs == nil {
		return out, nil
	}
	found := p.options.Configs.Found()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range found {
		id := "f" + strconv.Itoa(i+1)
		p.configs[id] = &pasted{found[i]}
		out.Found = append(out.Found, found[i].view(id, false))
	}
	return out, nil
}

type configParams struct {
	Text string `json:"text"`
	Name string `json:"name,omitzero"`
}

// configRead reads what was pasted. Nothing is opened, and no program is ever started for it.
func (p *Playground) configRead(_ context.Context, in configParams) (ConfigView, error) {
	if p.options.Configs == nil {
		return ConfigView{}, badParam("/text", "no configurations are read here")
	}
	name := ""
	if in.Name != "" {
		name = cleanName(in.Name)
	}
	c := p.options.Configs.Read(name, in.Text)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pasteNo++
	id := "p" + strconv.Itoa(p.pasteNo)
	p.configs[id] = &pasted{c}
	delete(p.configs, "p"+strconv.Itoa(p.pasteNo-maxPasted))
	return c.view(id, false), nil
}

// fromConfig makes a target of an entry that leads to an address. A program is not started from the page.
func (p *Playground) fromConfig(id, name string) (*target, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.configs[id]
	if c == nil {
		return nil, badParam("/config", "there is no configuration %q any more; paste it again", id)
	}
	for _, e := range c.config.Entries {
		if e.Name != name {
			continue
		}
		if len(e.Command) > 0 {
			fault := badParam("/name", "%s is a program. Start it yourself: parley up -c %s", name, shellWord(orDefault(c.config.Path, "mcp.json")))
			return nil, fault
		}
		if e.Problem != "" {
			return nil, unavailable("%s: %s", name, e.Problem)
		}
		spec := e.Target
		spec.From, spec.Name = FromPage, freeName(p.targets, "@"+name)
		spec.Command, spec.Env = nil, nil
		return p.addLocked(spec)
	}
	return nil, badParam("/name", "there is no %q in it", name)
}

// freeName is name, with a number behind it if it is taken.
func freeName(taken map[string]*target, name string) string {
	free := name
	for i := 2; taken[free] != nil; i++ {
		free = name + "-" + strconv.Itoa(i)
	}
	return free
}
