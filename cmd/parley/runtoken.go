package main

import (
	"context"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/orchestrator"
	"github.com/da1ed7bb/parley/transport/stdio"
)

// credentials groups --token, --token-file and -H by member. A credential without a member's name
// would be sent to every member, so it is rejected unless the team has one address.
func (r *planRun) credentials(team map[string]orchestrator.Member) (map[string]string, error) {
	tokens := map[string]string{}
	set := func(flag, member, token string) error {
		if _, twice := tokens[member]; twice {
			return usagef("%s: %s has two tokens; use only one", flag, cut(member, 60))
		}
		if team[member].Target == "" {
			return usagef("%s: %s is a program; set its credentials with env: in the plan", flag, cut(member, 60))
		}
		tokens[member] = token
		return nil
	}
	for _, word := range r.tokens {
		member, value, named := cutMember(team, word)
		if !named {
			if err := r.everybody("--token VALUE", "--token MEMBER=VALUE", team); err != nil {
				return nil, err
			}
			if r.reach.token != "" {
				return nil, usagef("two --token flags without a member name; use only one")
			}
			r.reach.token = word
			continue
		}
		if err := set("--token", member, value); err != nil {
			return nil, err
		}
	}
	for _, word := range r.tokenFiles {
		member, file, named := cutMember(team, word)
		if !named {
			if err := r.everybody("--token-file FILE", "--token-file MEMBER=FILE", team); err != nil {
				return nil, err
			}
			if r.reach.tokenFile != "" {
				return nil, usagef("two --token-file flags without a member name; use only one")
			}
			r.reach.tokenFile = word
			continue
		}
		content, err := r.app.readInput(file)
		if err != nil {
			return nil, err
		}
		if err := set("--token-file", member, strings.TrimSpace(string(content))); err != nil {
			return nil, err
		}
	}
	for _, line := range r.reach.header {
		name, _, _ := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); config.IsSecret(name) || strings.EqualFold(name, "cookie") {
			if err := r.everybody("-H "+cut(name, 60), "headers: of the member in the plan", team); err != nil {
				return nil, err
			}
		}
	}
	return tokens, nil
}

// named returns the member that @NAME stands for.
func (r *planRun) named(ctx context.Context, name string) (orchestrator.Member, error) {
	reach := r.reach
	t, err := r.app.named(ctx, &reach, name)
	if err != nil {
		return orchestrator.Member{}, err
	}
	if t.Scheme == "exec" {
		usual, _ := stdio.CleanEnv() // which every program of a plan has
		env := slices.DeleteFunc(slices.Clone(t.Env), func(pair string) bool { return slices.Contains(usual, pair) })
		return orchestrator.Member{Command: t.Argv, Env: env, Dir: t.Dir}, nil
	}
	m := orchestrator.Member{Target: t.String()}
	for name, values := range reach.entry.Header {
		if m.Headers == nil {
			m.Headers = make(map[string]string)
		}
		m.Headers[name] = strings.Join(values, ", ")
	}
	return m, nil
}

// cutMember splits MEMBER=VALUE if it starts with the name of a member.
func cutMember(team map[string]orchestrator.Member, word string) (member, value string, named bool) {
	member, value, found := strings.Cut(word, "=")
	if _, known := team[member]; !found || !known {
		return "", "", false
	}
	return member, value, true
}

// everybody rejects a flag whose credential would be sent to more than one address.
func (r *planRun) everybody(flag, instead string, team map[string]orchestrator.Member) error {
	var at, names []string
	for _, name := range sortedNames(team) {
		m := team[name]
		if m.Target == "" {
			continue
		}
		place := m.Target
		if t, err := parley.ParseTarget(m.Target); err == nil {
			place = t.Address
		}
		names = append(names, name)
		if !slices.Contains(at, place) {
			at = append(at, place)
		}
	}
	if len(at) > 1 {
		return usagef("%s would be sent to %d addresses; add the member name: %s (%s)", flag, len(at), instead, cut(strings.Join(names, ", "), 200))
	}
	return nil
}
