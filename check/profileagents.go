package check

import (
	"strings"

	"github.com/da1ed7bb/parley/capture/lens"
)

// a2aVersion is what differs between the versions of A2A.
type a2aVersion struct {
	version, get, cancel, send, unknown, message, header string
}

var a2aVersions = []a2aVersion{
	{"1.0", "GetTask", "CancelTask", "SendMessage", "ParleyCheckUnknown", `{"messageId":"parley-check","role":"ROLE_USER","parts":[{"text":"hello"}]}`, "1.0"},
	{"0.3", "tasks/get", "tasks/cancel", "message/send", "parley-check/unknown", `{"kind":"message","messageId":"parley-check","role":"user","parts":[{"kind":"text","text":"hello"}]}`, ""},
}

// serves reports whether the server has a version: it looks for a task that does not exist.
func (v a2aVersion) serves(t *talk) bool {
	if v.header != "" {
		t.s.o.Header.Set("A2A-Version", v.header)
	}
	_, f := t.call(v.get, `{"id":"parley-check-unknown"}`, noMethod, "-32009")
	return f != nil
}

func a2aRules() (rules []rule) {
	rules = append(rules, converse("a2a/version", "A2A 1.0, 3.6", lens.A2A, func(t *talk) *finding {
		for _, v := range a2aVersions {
			if v.serves(t) {
				return nil
			}
			t.s.o.Header.Del("A2A-Version")
		}
		return failed("the server has neither version 1.0 nor 0.3 of A2A over JSON-RPC")
	}))
	for _, v := range a2aVersions {
		open := func(t *talk) *finding {
			if !v.serves(t) {
				return skipped("the server does not support version " + v.version)
			}
			return nil
		}
		within := func(id, section string, f func(t *talk) *finding) {
			name := "a2a/" + id
			if v.version != "1.0" || strings.HasPrefix(id, "unknown-task") || strings.HasPrefix(id, "unknown-cancel") {
				name += "/" + v.version
			}
			rules = append(rules, converse(name, "A2A "+v.version+", "+section, lens.A2A, func(t *talk) *finding {
				if found := open(t); found != nil {
					return found
				}
				return f(t)
			}))
		}
		sections := map[string][4]string{"1.0": {"3.1.3 and 5.4", "3.1.5 and 5.4", "9.5", "3.1.1"}, "0.3": {"7.3 and 8.2", "7.4 and 8.2", "8.1", "7.1"}}[v.version]
		within("unknown-task", sections[0], func(t *talk) *finding {
			_, f := t.call(v.get, `{"id":"parley-check-unknown"}`, "-32001")
			return f
		})
		within("unknown-cancel", sections[1], func(t *talk) *finding {
			_, f := t.call(v.cancel, `{"id":"parley-check-unknown"}`, "-32001")
			return f
		})
		within("unknown-method", "JSON-RPC 2.0, 5.1", func(t *talk) *finding {
			_, f := t.call(v.unknown, `{}`, noMethod)
			return f
		})
		within("invalid-params", sections[2], func(t *talk) *finding {
			_, f := t.call(v.send, `{"message":5}`, invalidParams)
			return f
		})
		within("send", sections[3], func(t *talk) *finding {
			result, f := t.call(v.send, `{"message":`+v.message+`}`)
			if f != nil {
				return f
			}
			m := messageOf(result, 1)
			kind, _ := stringOf(m.member("kind"))
			if v.version == "1.0" && (m.kind != '{' || (m.member("task") == nil) == (m.member("message") == nil)) || v.version == "0.3" && kind != "task" && kind != "message" {
				return failed("%s: the result must be a task or a message: %s", v.send, cut(result))
			}
			return nil
		})
		if v.version == "1.0" {
			rules = append(rules, baseRules("a2a", lens.A2A, func(t *talk) *finding {
				_ = v.serves(t) // sets the header; every version answers unknown methods
				return nil
			}, call{method: v.unknown, params: "{}", codes: []string{noMethod}})...)
		}
	}
	return rules
}

func acpRules() []rule {
	return append(baseRules("acp", lens.Agents, func(*talk) *finding { return nil }, call{method: "ping"}), []rule{
		converse("acp/unknown-method", spec+"5.1", lens.Agents, func(t *talk) *finding {
			_, f := t.call("parley-check/unknown", `{}`, noMethod)
			return f
		}),
		converse("acp/ping", "ACP 0.2.0, GET /ping", lens.Agents, func(t *talk) *finding {
			result, f := t.call("ping", "")
			if f != nil {
				return f
			}
			return object("ping", result)
		}),
		converse("acp/agents", "ACP 0.2.0, GET /agents", lens.Agents, func(t *talk) *finding {
			result, f := t.call("agents/list", `{}`)
			if f == nil {
				f = object("agents/list", result, "agents:[")
			}
			if f != nil {
				return f
			}
			for agent := range messageOf(result, 1).member("agents").Elements() {
				if f := object("agents/list, an agent", agent, `name:"`, `description:"n`); f != nil {
					return f
				}
			}
			return nil
		}),
		converse("acp/unknown-agent", "ACP 0.2.0, GET /agents/{name}", lens.Agents, func(t *talk) *finding {
			_, f := t.call("agents/get", `{"name":"parley-check-unknown"}`, anyError)
			return f
		}),
		converse("acp/unknown-run", "ACP 0.2.0, GET /runs/{run_id}", lens.Agents, func(t *talk) *finding {
			_, f := t.call("runs/get", `{"run_id":"00000000-0000-4000-8000-000000000000"}`, anyError)
			return f
		}),
	}...)
}
