package orchestrator

import (
	"sync"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// vars are the values that templates see.
type vars struct {
	up *vars
	mu sync.RWMutex // guards m
	m  map[string]jsonrpc.Raw
}

func newVars(up *vars) *vars { return &vars{up: up, m: map[string]jsonrpc.Raw{}} }

func (v *vars) set(name string, value jsonrpc.Raw) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.m[name] = value
}

func (v *vars) lookup(name string) (jsonrpc.Raw, bool) {
	for ; v != nil; v = v.up {
		v.mu.RLock()
		value, ok := v.m[name]
		v.mu.RUnlock()
		if ok {
			return value, true
		}
	}
	return nil, false
}

// value is what templates see of a step.
func (r *Report) value() jsonrpc.Raw {
	m := map[string]any{}
	for name, v := range object(r.Value) {
		m[name] = v
	}
	m["text"], m["state"], m["ms"], m["error"] = r.Text(), string(r.State), r.Ms, ""
	if r.Error != nil {
		m["error"] = r.Error.Text
	}
	parts := r.Output
	if parts == nil {
		parts = []agent.Part{}
	}
	m["parts"] = parts
	if _, has := m["json"]; !has {
		m["json"] = jsonOf(parts)
	}
	v, err := valueOf(m)
	if err != nil {
		v, _ = valueOf(map[string]any{"text": "", "state": string(Failed), "error": err.Error(), "json": nil, "parts": []int{}, "ms": 0}) // these have JSON
	}
	return v
}

// jsonOf is the JSON in some output: the first part that is, or else the text if it can be read as such.
func jsonOf(parts []agent.Part) jsonrpc.Raw {
	for _, p := range parts {
		if p.JSON != nil {
			return p.JSON
		}
	}
	v, err := parseJSON([]jsonrpc.Raw{textValue(agent.TextOf(parts))})
	if err != nil {
		return jsonrpc.Raw("null")
	}
	return v
}
