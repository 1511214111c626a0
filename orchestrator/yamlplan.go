package orchestrator

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/internal/x/expr"
)

// A field parses the value of one key.
type field func(n *yamlNode, path string)

// mapping parses a mapping with known keys.
func (r *planReader) mapping(n *yamlNode, path string, fields map[string]field) {
	if n.kind != 'm' {
		r.wrong(n.pos, or(path, "plan"), "must be a mapping with %s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		return
	}
	for i, key := range n.keys {
		at := key.text
		if path != "" {
			at = path + "." + key.text
		}
		f, known := fields[key.text]
		if !known {
			r.wrong(key.pos, at, "unknown member; the members are %s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
			continue
		}
		r.plan.positions[at] = n.list[i].at
		f(n.list[i], at)
	}
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

func (r *planReader) text(to *string) field {
	return func(n *yamlNode, path string) {
		switch {
		case n.kind == 's':
			*to = n.text
		case n.kind == 'v' && expr.Kind(n.value) != 'n':
			*to = string(n.value)
		default:
			r.wrong(n.pos, path, "must be a string")
		}
		if *to == "" {
			r.wrong(n.pos, path, "is empty")
		}
	}
}

func (r *planReader) flag(to *bool) field {
	return func(n *yamlNode, path string) {
		switch string(n.value) {
		case "true", "false":
			*to = string(n.value) == "true"
		default:
			r.wrong(n.pos, path, "must be true or false")
		}
	}
}

func (r *planReader) count(to *int, most int) field {
	return func(n *yamlNode, path string) {
		i, err := strconv.Atoi(string(n.value))
		if err != nil || i < 1 || i > most {
			r.wrong(n.pos, path, "must be a number from 1 to %d", most)
			return
		}
		*to = i
	}
}

func (r *planReader) duration(to *time.Duration) field {
	return func(n *yamlNode, path string) {
		d, err := time.ParseDuration(n.text)
		if err != nil || d <= 0 {
			r.wrong(n.pos, path, "must be a duration such as 30s, 5m or 1h30m")
			return
		}
		*to = d
	}
}

func (r *planReader) texts(to *[]string) field {
	return func(n *yamlNode, path string) {
		if n.kind != 'l' {
			r.wrong(n.pos, path, "must be a list of strings")
			return
		}
		for i, v := range n.list {
			var s string
			r.text(&s)(v, fmt.Sprintf("%s[%d]", path, i))
			*to = append(*to, s)
		}
	}
}

// any parses any JSON value and records the positions of its texts.
func (r *planReader) any(to *any) field {
	return func(n *yamlNode, path string) { *to = r.anything(n, path) }
}

func (r *planReader) anything(n *yamlNode, path string) any {
	r.plan.positions[path] = n.at
	switch n.kind {
	case 's':
		return n.text
	case 'v':
		return n.value
	case 'l':
		out := []any{}
		for i, v := range n.list {
			out = append(out, r.anything(v, fmt.Sprintf("%s[%d]", path, i)))
		}
		return out
	}
	out := map[string]any{}
	for i, key := range n.keys {
		out[key.text] = r.anything(n.list[i], path+"."+key.text)
	}
	return out
}

func (r *planReader) readPlan(root *yamlNode) {
	p := r.plan
	r.mapping(root, "", map[string]field{
		"name":        r.text(&p.Name),
		"description": r.text(&p.Description),
		"deadline":    r.duration(&p.Deadline),
		"output":      r.text(&p.Output),
		"input":       r.inputs,
		"team":        r.team,
		"steps":       r.steps(&p.Steps),
	})
}

func (r *planReader) inputs(n *yamlNode, path string) {
	if n.kind != 'm' {
		r.wrong(n.pos, path, "must be a mapping of names")
		return
	}
	for i, key := range n.keys {
		in := Input{Name: key.text, Required: true}
		v, at := n.list[i], path+"."+key.text
		if v.kind == 'm' {
			r.mapping(v, at, map[string]field{
				"description": r.text(&in.Description),
				"default": func(n *yamlNode, path string) {
					in.Required, in.Default = false, r.anything(n, path)
				},
			})
		} else if v.kind != 'v' || expr.Kind(v.value) != 'n' {
			// The short form, such as topic: cats.
			in.Required, in.Default = false, r.anything(v, at)
		}
		r.plan.positions[at] = key.pos
		r.plan.Input = append(r.plan.Input, in)
	}
}

func (r *planReader) team(n *yamlNode, path string) {
	if n.kind != 'm' {
		r.wrong(n.pos, path, "must be a mapping of names")
		return
	}
	r.plan.Team = map[string]Member{}
	for i, key := range n.keys {
		var m Member
		at := path + "." + key.text
		r.plan.positions[at] = key.pos
		r.mapping(n.list[i], at, map[string]field{
			"target":   r.text(&m.Target),
			"command":  r.texts(&m.Command),
			"protocol": r.text(&m.Protocol),
			"agent":    r.text(&m.Agent),
			"env":      r.texts(&m.Env),
			"token":    r.text(&m.Token),
			"headers":  r.headers(&m.Headers),
		})
		m.from = &source{r.plan.file, r.plan.positions}
		r.plan.Team[key.text] = m
	}
}

func (r *planReader) headers(to *map[string]string) field {
	return func(n *yamlNode, path string) {
		if n.kind != 'm' {
			r.wrong(n.pos, path, "must be a mapping of names to strings")
			return
		}
		*to = map[string]string{}
		for i, key := range n.keys {
			at := path + "." + key.text
			r.plan.positions[at] = n.list[i].at
			var value string
			r.text(&value)(n.list[i], at)
			(*to)[key.text] = value
		}
	}
}

func (r *planReader) steps(to *[]Step) field {
	return func(n *yamlNode, path string) {
		if n.kind != 'l' {
			r.wrong(n.pos, path, "must be a list of steps")
			return
		}
		*to = []Step{}
		for i, v := range n.list {
			*to = append(*to, r.step(v, fmt.Sprintf("%s[%d]", path, i)))
		}
	}
}

func (r *planReader) step(n *yamlNode, path string) (s Step) {
	r.plan.positions[path] = n.pos
	var join string
	r.mapping(n, path, map[string]field{
		"id":         r.text(&s.ID),
		"when":       r.text(&s.When),
		"timeout":    r.duration(&s.Timeout),
		"optional":   r.flag(&s.Optional),
		"idempotent": r.flag(&s.Idempotent),
		"retries":    r.count(&s.Retries, maxRetries),

		stepAgent: r.text(&s.Agent),
		stepSkill: r.text(&s.Skill),
		"prompt":  r.text(&s.Prompt),
		"session": r.text(&s.Session),

		stepTool: r.text(&s.Tool),
		stepCall: r.text(&s.Call),
		"args":   r.any(&s.Args),

		stepAsk:   r.text(&s.Ask),
		"options": r.texts(&s.Options),

		stepSteps:    r.steps(&s.Steps),
		stepParallel: r.steps(&s.Parallel),
		"after":      r.texts(&s.After),
		"join":       r.text(&join),
		"agree":      r.flag(&s.Agree),

		stepMap: r.text(&s.Map),
		"as":    r.text(&s.As),
		"limit": r.count(&s.Limit, maxLimit),
		"do":    r.steps(&s.Do),

		stepRoute: r.text(&s.Route),
		"cases":   r.cases(&s.Cases),
		"else":    r.steps(&s.Else),

		stepLoop: r.steps(&s.Loop),
		"times":  r.count(&s.Times, maxTimes),
		"until":  r.text(&s.Until),
	})
	s.Join = Join(join)
	if n.kind == 'm' && len(n.keys) > 0 {
		r.plan.positions[path] = n.keys[0].pos
	}
	return s
}

func (r *planReader) cases(to *map[string][]Step) field {
	return func(n *yamlNode, path string) {
		if n.kind != 'm' {
			r.wrong(n.pos, path, "must be a mapping of cases to steps")
			return
		}
		*to = map[string][]Step{}
		for i, key := range n.keys {
			at := path + "." + key.text
			r.plan.positions[at] = key.pos
			var steps []Step
			r.steps(&steps)(n.list[i], at)
			(*to)[key.text] = steps
		}
	}
}
