package orchestrator

import (
	"sync"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/internal/x/expr"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// vars holds the values that templates can use.
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

func (v *vars) Lookup(name string) (jsonrpc.Raw, bool) {
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

// value returns what templates see of a step.
func (r *Report) value() jsonrpc.Raw {
	m := map[string]any{}
	for name, v := range expr.Object(r.Value) {
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
	v, err := expr.ValueOf(m)
	if err != nil {
		// These always encode.
		v, _ = expr.ValueOf(map[string]any{"text": "", "state": string(Failed), "error": err.Error(), "json": nil, "parts": []int{}, "ms": 0})
	}
	return v
}

// jsonOf returns the JSON in an output: the first JSON part, or else the text if it parses as JSON.
func jsonOf(parts []agent.Part) jsonrpc.Raw {
	for _, p := range parts {
		if p.JSON != nil {
			return p.JSON
		}
	}
	v, err := expr.ParseJSON(agent.TextOf(parts))
	if err != nil {
		return jsonrpc.Raw("null")
	}
	return v
}
