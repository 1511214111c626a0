package gateway

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/internal/x/private"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Kinds of what is pinned.
const (
	pinTool         = "tool"
	pinPrompt       = "prompt"
	pinInstructions = "instructions" // of a server; its name is empty
)

const (
	maxPinFile = 16 << 20 // bytes of the file with the pins
	maxPinShow = 300      // bytes of one value in the text of a change
)

// A pinKey names one thing that a server offers.
type pinKey struct{ kind, name string }

func (k pinKey) String() string {
	if k.name == "" {
		return k.kind
	}
	return k.kind + " " + k.name
}

// A pinned is one thing that a server offers, as it is now.
type pinned struct {
	pinKey
	text jsonrpc.Raw // the whole object
}

// pins remember what the servers offered when a person accepted it: a server that later changes the
// description of a tool could lead a model to do something else than that person had read. The file
// has the SHA-256 of the canonical form (RFC 8785, but numbers keep their spelling) of each tool,
// of each prompt and of the instructions of each server.
//
// Call learn with every list of a server, and accepts for each entry before it is shown. All
// methods are safe for concurrent use; a nil pins accepts everything.
type pins struct {
	report func(what string, err error)

	mu      sync.Mutex // guards the fields below
	mode    string     // one of the constants of package config
	path    string
	servers map[string]*pinServer
	changes uint64
}

// isOff reports whether nothing is pinned. The lock is held.
func (p *pins) isOff() bool { return p.mode == config.PinsOff || p.mode == "" }

// A pinServer is what is known of one server.
type pinServer struct {
	known bool                   // it is in the file
	pins  map[pinKey]string      // accepted digests, in hexadecimal digits
	now   map[pinKey]string      // digests of what it offers now
	texts map[pinKey]jsonrpc.Raw // what had the accepted digest, or else what it offers now
	told  map[pinKey]string      // digests that were reported
}

// pinFile is the form of the file.
type pinFile struct {
	Version int                     `json:"version"` // 1
	Servers map[string]*pinFileItem `json:"servers"`
}

type pinFileItem struct {
	Instructions string            `json:"instructions,omitempty"`
	Tools        map[string]string `json:"tools,omitempty"`
	Prompts      map[string]string `json:"prompts,omitempty"`
}

// openPins reads the file with the pins; a file that does not exist has none.
func openPins(mode, path string, report func(what string, err error)) (*pins, error) {
	p := &pins{report: report, servers: make(map[string]*pinServer)}
	return p, p.reload(mode, path)
}

// reload reads the file again: a person may have removed entries from it.
func (p *pins) reload(mode, path string) error {
	p.mu.Lock()
	p.mode, p.path = mode, path
	p.changes++
	p.mu.Unlock()
	if mode == config.PinsOff || mode == "" {
		return nil
	}
	return p.read()
}

// read replaces the pins by those of the file. What the servers offer now stays known.
func (p *pins) read() error {
	p.mu.Lock()
	path := p.path
	p.mu.Unlock()
	content, err := private.Read(path, false)
	if errors.Is(err, fs.ErrNotExist) {
		content, err = []byte(`{"version":1}`), nil
	}
	if err != nil {
		return fmt.Errorf("gateway: pins: %w", err)
	}
	var f pinFile
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	if len(content) > maxPinFile {
		return fmt.Errorf("gateway: pins: %s is longer than %d MiB", path, maxPinFile>>20)
	}
	if err := d.Decode(&f); err != nil || f.Version != 1 {
		return fmt.Errorf("gateway: pins: %s is no file with pins of version 1: %w", path, cmp.Or(err, errPinVersion))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.servers {
		s.known, s.pins = false, make(map[pinKey]string)
	}
	for name, item := range f.Servers {
		if item == nil {
			continue
		}
		s := p.server(name)
		s.known = true
		if item.Instructions != "" {
			s.pins[pinKey{pinInstructions, ""}] = item.Instructions
		}
		for tool, digest := range item.Tools {
			s.pins[pinKey{pinTool, tool}] = digest
		}
		for prompt, digest := range item.Prompts {
			s.pins[pinKey{pinPrompt, prompt}] = digest
		}
	}
	return nil
}

var errPinVersion = errors.New("the version is not 1")

// server returns what is known of a server. The lock is held.
func (p *pins) server(name string) *pinServer {
	s := p.servers[name]
	if s == nil {
		s = &pinServer{pins: make(map[pinKey]string), now: make(map[pinKey]string), texts: make(map[pinKey]jsonrpc.Raw), told: make(map[pinKey]string)}
		p.servers[name] = s
	}
	return s
}

// learn takes what a server offers now; whole means that it offers nothing else to any caller. The
// first list of a server is accepted and stored, unless only a person may do that. Later
// differences are reported once.
func (p *pins) learn(server string, list []pinned, whole bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	if p.isOff() {
		p.mu.Unlock()
		return
	}
	s := p.server(server)
	before := s.texts
	if s.texts = make(map[pinKey]jsonrpc.Raw); whole {
		s.now = make(map[pinKey]string)
	} else {
		maps.Copy(s.texts, before)
	}
	for _, one := range list {
		digest := digestOf(one.text)
		s.now[one.pinKey] = digest
		if accepted := s.pins[one.pinKey]; accepted != digest && before[one.pinKey] != nil && digestOf(before[one.pinKey]) == accepted {
			s.texts[one.pinKey] = before[one.pinKey]
		} else {
			s.texts[one.pinKey] = one.text.Clone()
		}
	}
	first := !s.known && p.mode != config.PinsLocked
	var reports []string
	if first {
		s.known = true
		p.changes++
		maps.Copy(s.pins, s.now)
	} else {
		for _, one := range list {
			if k := one.pinKey; s.pins[k] != s.now[k] && s.told[k] != s.now[k] {
				s.told[k] = s.now[k]
				reports = append(reports, s.change(k, one.text))
			}
		}
	}
	p.mu.Unlock()
	if first {
		if err := p.save(); err != nil {
			p.report(ReportPins, fmt.Errorf("%s: %w", server, err))
		}
	}
	for _, text := range reports {
		p.report(ReportPins, fmt.Errorf("%s: %s", server, text))
	}
}

// change describes a difference between what was accepted and what is offered now.
func (s *pinServer) change(k pinKey, now jsonrpc.Raw) string {
	if s.pins[k] == "" {
		return k.String() + " is new: " + harmless.Cut(string(now), maxPinShow)
	}
	was := s.texts[k]
	if digestOf(was) != s.pins[k] {
		return k.String() + " has changed; now it is " + harmless.Cut(string(now), maxPinShow)
	}
	var parts []string
	members := func(text jsonrpc.Raw) map[string]string {
		m := make(map[string]string)
		for name, value := range text.Members() {
			m[string(name)] = string(value)
		}
		if len(m) == 0 {
			m["text"] = string(text)
		}
		return m
	}
	old, fresh := members(was), members(now)
	names := slices.Sorted(maps.Keys(old))
	for name := range fresh {
		if _, ok := old[name]; !ok {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if a, b := old[name], fresh[name]; a != b {
			parts = append(parts, fmt.Sprintf("%s was %s, is %s", name, shownPin(a), shownPin(b)))
		}
	}
	return k.String() + " has changed: " + strings.Join(parts, "; ")
}

func shownPin(text string) string {
	if text == "" {
		return "absent"
	}
	return harmless.Cut(text, maxPinShow)
}

// accepts reports whether something that a server offers is what was approved. digest is that of
// its text, from digestOf.
func (p *pins) accepts(server string, k pinKey, digest string) bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mode != config.PinsEnforce && p.mode != config.PinsLocked {
		return true
	}
	s := p.servers[server]
	return s != nil && s.pins[k] == digest
}

// version returns a number that changes with what is accepted.
func (p *pins) version() uint64 {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changes
}

// allows reports whether a tool or prompt may be called whose text is not at hand: what the server
// listed last is approved. What it has not listed is not for this place to decide.
func (p *pins) allows(server, kind, name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mode != config.PinsEnforce && p.mode != config.PinsLocked {
		return true
	}
	s := p.servers[server]
	if s == nil {
		return true
	}
	k := pinKey{kind, name}
	return s.now[k] == "" || s.pins[k] == s.now[k]
}

// A PinChange is something that waits for approval.
type PinChange struct {
	Server string `json:"server"`
	Kind   string `json:"kind"` // tool, prompt or instructions
	Name   string `json:"name,omitzero"`
	Text   string `json:"text"` // what has changed
}

// waiting returns what waits for approval, sorted.
func (p *pins) waiting() []PinChange {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []PinChange
	for _, server := range slices.Sorted(maps.Keys(p.servers)) {
		s := p.servers[server]
		keys := slices.SortedFunc(maps.Keys(s.now), func(a, b pinKey) int { return strings.Compare(a.kind+a.name, b.kind+b.name) })
		for _, k := range keys {
			if s.pins[k] != s.now[k] && !p.isOff() {
				list = append(list, PinChange{Server: server, Kind: k.kind, Name: k.name, Text: s.change(k, s.texts[k])})
			}
		}
	}
	return list
}

// approve accepts what a server offers now, or only the tool, prompt or instructions of this name,
// and forgets what it does not offer any more. It returns how many entries it accepted.
func (p *pins) approve(server, name string) (n int, err error) {
	p.mu.Lock()
	s := p.servers[server]
	if s == nil || len(s.now) == 0 {
		p.mu.Unlock()
		return 0, fmt.Errorf("%s has not listed anything yet", server)
	}
	for k, digest := range s.now {
		if (name == "" || k.name == name || k.kind == name) && s.pins[k] != digest {
			s.pins[k] = digest
			n++
		}
	}
	if name == "" {
		for k := range s.pins {
			if s.now[k] == "" {
				delete(s.pins, k)
			}
		}
	}
	s.known = true
	p.changes++
	p.mu.Unlock()
	if n == 0 && name != "" {
		return 0, fmt.Errorf("nothing of %s with the name %s waits for approval", server, name)
	}
	return n, p.save()
}

// save writes the file.
func (p *pins) save() error {
	p.mu.Lock()
	f := pinFile{Version: 1, Servers: make(map[string]*pinFileItem)}
	for name, s := range p.servers {
		if !s.known {
			continue
		}
		item := &pinFileItem{Tools: make(map[string]string), Prompts: make(map[string]string)}
		for k, digest := range s.pins {
			switch k.kind {
			case pinTool:
				item.Tools[k.name] = digest
			case pinPrompt:
				item.Prompts[k.name] = digest
			default:
				item.Instructions = digest
			}
		}
		f.Servers[name] = item
	}
	content, err := json.MarshalIndent(&f, "", "  ")
	path := p.path
	p.mu.Unlock()
	if err != nil {
		return err
	}
	err = private.Write(path, append(content, '\n'))
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("the pins cannot be stored: %w", err)
	}
	return err
}

// digestOf returns the SHA-256 of the canonical form of a JSON value.
func digestOf(text jsonrpc.Raw) string {
	sum, ok := canonicalSum(text)
	if !ok { // with doubled names: every byte counts
		sum = sha256.Sum256(text)
	}
	return hex.EncodeToString(sum[:])
}

// pinFault is the error for a call of something that is not what was accepted.
func pinFault(server string) *jsonrpc.Error {
	return newFault(jsonrpc.CodePinMismatch, "Not approved", "pin_mismatch", server, false).error()
}
