package check

import "slices"

// discover maps methods by the document of rpc.discover (OpenRPC 1.3), unless methods were given.
// A method that panics is never called because of its name.
func (s *session) discover() {
	o := &s.o
	if o.NoDiscovery || o.Profile != "" || o.Echo != "" || o.Fail != "" || o.Sleep != "" || o.Panic != "" || o.Named != "" {
		return
	}
	r := s.ask(request(`"discover"`, "rpc.discover", ""))
	m, why := parsed(r)
	if why != "" || m.member("result") == nil || m.member("result")[0] != '{' {
		return
	}
	var names []string
	methods := messageOf(m.member("result"), 1).member("methods")
	if len(methods) == 0 || methods[0] != '[' {
		return
	}
	for method := range methods.Elements() {
		if len(method) > 0 && method[0] == '{' {
			if name, ok := stringOf(messageOf(method, 1).member("name")); ok {
				names = append(names, name)
			}
		}
	}
	has := func(name string) string {
		if slices.Contains(names, name) {
			return name
		}
		return ""
	}
	o.Fail, o.Sleep = has("fail"), has("sleep")
	if has("subtract") != "" {
		o.Named, o.NamedParams = "subtract", []string{"minuend", "subtrahend"}
	}
	// A method called echo may do something else: it is used only if it echoes.
	if has("echo") != "" {
		got := s.ask(request(`"echo"`, "echo", `["parley-check"]`))
		if m, why := parsed(got); why == "" && compareText(`["parley-check"]`, string(m.member("result"))) == "" {
			o.Echo = "echo"
		}
	}
}
