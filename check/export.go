package check

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/internal/x/junit"
)

// WriteJUnit writes the report as JUnit XML, one suite for each family of rules. A failure is a
// rule that makes the verdict Fail; other failed rules pass, with their finding as output. Rules
// that were not checked are skipped.
func (r *Report) WriteJUnit(w io.Writer, strict bool) error {
	out := junit.Report{Name: "parley check " + r.Target}
	for _, rule := range r.Rules {
		name := family(rule.ID)
		if len(out.Suites) == 0 || out.Suites[len(out.Suites)-1].Name != name {
			out.Suites = append(out.Suites, junit.Suite{Name: name})
		}
		suite := &out.Suites[len(out.Suites)-1]
		c := junit.Case{Name: rule.ID, Class: "parley.check." + r.Transport + "." + name}
		detail := fmt.Sprintf("%s, %s\nsent     %s\nreceived %s", rule.Level, rule.Section, rule.Sent, rule.Received)
		switch {
		case rule.Outcome == NotChecked:
			c.Skipped = &junit.Message{Message: rule.Why}
		case rule.Outcome == Fail && rule.violates(strict):
			c.Failure = &junit.Message{Message: rule.Why, Type: string(rule.Level), Text: detail}
		case rule.Outcome == Fail:
			c.Output = rule.Why + "\n" + detail
		}
		suite.Cases = append(suite.Cases, c)
	}
	return junit.Write(w, &out)
}

// violates reports whether a failed rule makes the verdict Fail.
func (r Result) violates(strict bool) bool { return r.Level == Must || strict && r.Level == Expect }

type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool struct {
		Driver sarifDriver `json:"driver"`
	} `json:"tool"`
	Results []sarifResult `json:"results"`
}

type sarifDriver struct {
	Name  string      `json:"name"`
	Rules []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID                   string         `json:"id"`
	ShortDescription     sarifText      `json:"shortDescription"`
	DefaultConfiguration sarifConfig    `json:"defaultConfiguration"`
	Properties           map[string]any `json:"properties"`
}

type sarifConfig struct {
	Level string `json:"level"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifResult struct {
	RuleID     string          `json:"ruleId"`
	RuleIndex  int             `json:"ruleIndex"`
	Kind       string          `json:"kind"`
	Level      string          `json:"level"`
	Message    sarifText       `json:"message"`
	Locations  []sarifLocation `json:"locations"`
	Properties map[string]any  `json:"properties"`
}

type sarifLocation struct {
	PhysicalLocation struct {
		ArtifactLocation struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
	} `json:"physicalLocation"`
}

// WriteSARIF writes the report as SARIF 2.1.0. MUST is an error, EXPECT a warning, or with strict
// an error, SHOULD and free are notes. The location is the target. Rules that were not checked have
// the kind notApplicable, rules that passed the kind pass.
func (r *Report) WriteSARIF(w io.Writer, strict bool) error {
	var run sarifRun
	run.Tool.Driver.Name = "parley check"
	for i, rule := range r.Rules {
		level := "note"
		switch {
		case rule.violates(strict):
			level = "error"
		case rule.Level == Expect:
			level = "warning"
		}
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{
			ID: rule.ID, ShortDescription: sarifText{rule.ID + " (" + rule.Section + ")"},
			DefaultConfiguration: sarifConfig{level}, Properties: map[string]any{"level": rule.Level, "section": rule.Section},
		})
		result := sarifResult{RuleID: rule.ID, RuleIndex: i, Kind: "fail", Level: level, Message: sarifText{rule.Why}, Properties: map[string]any{"sent": rule.Sent, "received": rule.Received}}
		switch rule.Outcome {
		case Pass:
			result.Kind, result.Level, result.Message.Text = "pass", "none", "passed"
		case NotChecked:
			result.Kind, result.Level = "notApplicable", "none"
		}
		var at sarifLocation
		at.PhysicalLocation.ArtifactLocation.URI = sarifURI(r.Target)
		result.Locations = []sarifLocation{at}
		run.Results = append(run.Results, result)
	}
	e := json.NewEncoder(harmless.NewJSONWriter(w)) // a server chooses most of the texts
	e.SetIndent("", "  ")
	return e.Encode(sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}})
}

// sarifURI returns a target as a URI reference. A command is no URI: what has a meaning in one is
// escaped.
func sarifURI(target string) string {
	const hex = "0123456789ABCDEF"
	scheme, _, found := strings.Cut(target, ":")
	isURI := found && !strings.ContainsAny(scheme, " /.")
	var b strings.Builder
	for i := range len(target) {
		switch c := target[i]; {
		case c == '%' && isURI: // it is escaped already
			b.WriteByte(c)
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~/", c) >= 0, isURI && strings.IndexByte(":?#[]@!$&'()*+,;=", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}
