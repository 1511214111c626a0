package playground

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/secret"
	"github.com/da1ed7bb/parley/playground/suite"
)

// This file lists the suites of parley test on the page, with their calls and environments. The
// page only reads them.

// maxSuites is the maximum number of suites that the page lists.
const maxSuites = 50

// A suiteView is a suite as the page lists it.
type suiteView struct {
	File  string      `json:"file"`
	Name  string      `json:"name"`
	Calls []savedView `json:"calls"`
}

// addSuites adds the suites of the options and of the folder, and the names of all environments.
func (p *Playground) addSuites(out *savedResult) {
	files := slices.Clone(p.options.Suites)
	for _, pattern := range []string{"*.yaml", "*.yml"} {
		names, _ := filepath.Glob(filepath.Join(globEscape(p.options.Folder), pattern)) // the pattern is valid
		files = append(files, names...)
	}
	calls := len(out.Calls)
	for i, file := range files {
		if i == maxSuites || calls > maxSaved {
			out.Problems = append(out.Problems, savedProblem{file, fmt.Sprintf("not listed: the page shows at most %d suites and %d calls", maxSuites, maxSaved)})
			break
		}
		s, err := suite.Read(file)
		if err != nil {
			out.Problems = append(out.Problems, savedProblem{file, strings.TrimPrefix(err.Error(), file+":")})
			continue
		}
		calls += len(s.Calls)
		out.Suites = append(out.Suites, viewOfSuite(s))
	}
	names := make(map[string]bool)
	add := func(c savedView) {
		for name := range c.Environments {
			names[name] = true
		}
	}
	for _, c := range out.Calls {
		add(c)
	}
	for _, s := range out.Suites {
		for _, c := range s.Calls {
			add(c)
		}
	}
	out.Environments = append(out.Environments, slices.Sorted(maps.Keys(names))...)
}

// viewOfSuite returns the calls of a suite in the form of saved calls: with the headers and
// variables of the suite.
func viewOfSuite(s *suite.Suite) suiteView {
	v := suiteView{File: s.File, Name: s.Name, Calls: []savedView{}}
	shown := func(values suite.Values) Variables { return shownVariables(s, values) }
	for i := range s.Calls {
		c := s.Calls[i] // a copy
		own := c.Variables
		c.Variables = maps.Clone(s.Variables)
		if c.Variables == nil {
			c.Variables = make(suite.Values)
		}
		maps.Copy(c.Variables, own)
		c.Headers = slices.DeleteFunc(append(slices.Clone(s.Headers), c.Headers...), func(h suite.Header) bool {
			return h.Value != nil && strings.Contains(*h.Value, "${") && shownText(s, *h.Value) == ""
		})
		for j, h := range c.Headers {
			if h.Value != nil {
				value := shownText(s, *h.Value)
				c.Headers[j].Value = &value
			}
		}
		// For a command, which the page does not start, the target is "".
		c.Target = orDefault(c.Target, s.Target)
		c.Target = shownText(s, c.Target)
		one := savedView{Saved: savedOf(&c), File: s.File, Asserts: []assertView{}, Environments: environmentsOf(s.Environments, own, shown)}
		one.Text = unquoted(&c, append(slices.Collect(maps.Values(s.Environments)), c.Variables)...)
		one.Variables = shown(c.Variables)
		for _, a := range c.Asserts {
			one.Asserts = append(one.Asserts, assertView{a, string(a.Value)})
		}
		v.Calls = append(v.Calls, one)
	}
	return v
}

// environmentsOf returns the values of environments without those that a call replaces.
func environmentsOf(all map[string]suite.Values, own suite.Values, shown func(suite.Values) Variables) map[string]Variables {
	out := make(map[string]Variables)
	for name, values := range all {
		values = maps.Clone(values)
		maps.DeleteFunc(values, func(variable string, _ suite.Value) bool { _, replaced := own[variable]; return replaced })
		out[name] = shown(values)
	}
	return out
}

// shownVariables returns values of a suite with their environment variables expanded. A value that
// contains a secret of the environment or of a file is left out, and so is one that cannot be
// expanded: the page then shows that the variable has no value.
func shownVariables(s *suite.Suite, values suite.Values) Variables {
	v := make(Variables)
	for name, value := range values {
		if strings.Contains(value.Text, "${") {
			if secret.Name(name) || slices.Contains(s.Secrets, name) {
				continue
			}
			if value.Text = shownText(s, value.Text); value.Text == "" {
				continue
			}
		}
		v[name] = value.Text
	}
	return v
}

// shownText returns a text of a suite with its environment variables expanded, or "" if it contains
// a secret or cannot be expanded.
func shownText(s *suite.Suite, text string) string {
	if !strings.Contains(text, "${") {
		return text
	}
	expanded, secrets, err := config.Expand(text, &config.ExpandOptions{Dir: filepath.Dir(s.File)})
	if err != nil || len(secrets) > 0 {
		return ""
	}
	return expanded
}

var quotedVariable = regexp.MustCompile(`"\{\{([A-Za-z_][A-Za-z0-9_.-]*)\}\}"`)

// unquoted returns the message of a call as the page fills it: as text. A string of the params that
// is only a variable has no quotes there if one of the variable's values is not a string, or if it
// has none because it is captured.
func unquoted(c *suite.Call, groups ...suite.Values) string {
	if c.Method == "" {
		return c.Text
	}
	return quotedVariable.ReplaceAllStringFunc(c.Message(), func(found string) string {
		name, text := found[3:len(found)-3], false
		for _, values := range groups {
			if value, ok := values[name]; ok {
				if len(value.JSON) > 0 && value.JSON[0] != '"' {
					return found[1 : len(found)-1]
				}
				text = true
			}
		}
		if text {
			return found
		}
		return found[1 : len(found)-1]
	})
}
