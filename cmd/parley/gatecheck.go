package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/da1ed7bb/parley/config"
)

// printProblems prints the problems of a file on stderr, one a line.
func (a *app) printProblems(name string, problems []config.Problem) {
	for _, p := range problems {
		fmt.Fprintln(a.stderr, visible(p.In(name), 2000))
	}
}

// printWarnings prints the warnings of a file on stderr, one a line.
func (a *app) printWarnings(name string, file *config.File) {
	for _, p := range file.Warnings {
		p.Text = "warning: " + p.Text
		fmt.Fprintln(a.stderr, visible(p.In(name), 2000))
	}
}

// gateCheck prints the servers of a configuration without problems, one a line, with the names
// under which the gateway offers them. With --live it connects to each of them.
func (a *app) gateCheck(ctx context.Context, file *config.File, flags gateFlags) error {
	var live map[string]liveState
	if flags.live {
		live = a.gateLive(ctx, file, flags)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	down := 0
	for i := range file.Entries {
		e := &file.Entries[i]
		state := gatePlaces(file, e)
		if flags.live && !e.Disabled {
			state = live[e.Name].text
			if live[e.Name].down {
				down++
			}
		}
		if _, err := fmt.Fprintf(a.stdout, "%s\t%s\t%s\t%s\n", visible(e.Name, 100), visible(e.Protocol, 40), visible(e.Show, 300), visible(state, 1000)); err != nil {
			return err
		}
	}
	g := file.Gateway
	fmt.Fprintf(a.stderr, "parley: %s has no problems: %s, %s, %s, %s; listens on %s\n", visible(flags.config, 300), countOf(len(file.Entries), "server"),
		countOf(len(g.Routes), "route"), countOf(len(g.Policy), "rule"), countOf(len(g.Sets), "MCP endpoint"), visible(strings.Join(g.Listen, ", "), 300))
	if down > 0 {
		fmt.Fprintf(a.stderr, "parley: %s cannot be used\n", countOf(down, "server"))
		return &silentError{exitAway}
	}
	return nil
}

// gatePlaces returns where a server is in the gateway.
func gatePlaces(file *config.File, e *config.Entry) string {
	if e.Disabled {
		return "disabled"
	}
	var parts []string
	if e.Renamed != "" {
		parts = append(parts, "called "+e.Renamed+" in the file")
	}
	names := []string{e.Name}
	if group := e.Upstream.Group; group != "" {
		parts = append(parts, "group "+group)
		names = append(names, group)
	}
	for _, s := range file.Gateway.Sets {
		if slices.ContainsFunc(s.Servers, func(name string) bool { return slices.Contains(names, name) }) {
			parts = append(parts, "set "+s.Name)
		}
	}
	for _, r := range file.Gateway.Routes {
		if slices.Contains(names, r.To) {
			parts = append(parts, "route "+strings.Join(r.Method, "|"))
		}
	}
	return strings.Join(append(parts, "/s/"+e.Name), ", ")
}

// A liveState is the result of a connection to a server.
type liveState struct {
	text string
	down bool
}

// gateLive connects to all servers and lists what they offer.
func (a *app) gateLive(ctx context.Context, file *config.File, flags gateFlags) map[string]liveState {
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex // guards states
		states = make(map[string]liveState)
		slots  = make(chan struct{}, maxSurveys)
		out    = &screen{w: a.stderr}
	)
	for i := range file.Entries {
		e := &file.Entries[i]
		if e.Disabled {
			continue
		}
		a.hide(e.Secrets...)
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			state := a.gateLook(ctx, e, flags, out)
			mu.Lock()
			defer mu.Unlock()
			states[e.Name] = state
		})
	}
	wg.Wait()
	return states
}

// gateLook connects to one server.
func (a *app) gateLook(ctx context.Context, e *config.Entry, flags gateFlags, out *screen) liveState {
	if _, ok := finders[e.Protocol]; !ok {
		return liveState{text: "not checked: the protocol " + e.Protocol + " has no list"}
	}
	if u := e.Upstream; u.Exchange != nil || u.OAuth != nil || u.ForwardToken {
		return liveState{text: "not checked: it needs an access token"}
	}
	target, err := e.Target()
	if err != nil {
		return liveState{"down: " + err.Error(), true}
	}
	s := &survey{app: a, reach: reachFlags{timeout: flags.timeout, entry: e}, forced: e.Protocol, brief: true, target: target, screen: out}
	found, err := s.find(ctx)
	switch {
	case errors.Is(err, errNothing) && e.Protocol == config.JSONRPC:
		return liveState{text: "up: it has no list of methods"}
	case err != nil:
		return liveState{"down: " + s.reason(ctx, err), true}
	}
	counts := make(map[string]int)
	for _, entry := range found.Entries {
		counts[entry.Kind]++
	}
	var parts []string
	for _, kind := range kinds {
		if counts[kind] > 0 {
			parts = append(parts, countOf(counts[kind], kind))
		}
	}
	if len(parts) == 0 {
		parts = []string{"it lists nothing"}
	}
	return liveState{text: "up: " + strings.Join(parts, ", ")}
}
