package check_test

import (
	"bytes"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"testing"

	"github.com/da1ed7bb/parley/check"
)

// The part of the published schema of SARIF 2.1.0 that the export uses. The schema permits no other
// members; a pointer is a member that it requires, or that a rule of its text does.
type (
	sarifLog struct {
		Schema  *string     `json:"$schema"`
		Version *string     `json:"version"`
		Runs    *[]sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool *struct {
			Driver *struct {
				Name           *string         `json:"name"`
				InformationURI string          `json:"informationUri"`
				Rules          []sarifRuleType `json:"rules"`
			} `json:"driver"`
		} `json:"tool"`
		Results *[]sarifResult `json:"results"`
	}
	sarifRuleType struct {
		ID                   *string       `json:"id"`
		ShortDescription     *sarifMessage `json:"shortDescription"`
		DefaultConfiguration *struct {
			Level *string `json:"level"`
		} `json:"defaultConfiguration"`
		Properties map[string]any `json:"properties"`
	}
	sarifMessage struct {
		Text *string `json:"text"`
	}
	sarifResult struct {
		RuleID    *string       `json:"ruleId"`
		RuleIndex *int          `json:"ruleIndex"`
		Kind      *string       `json:"kind"`
		Level     *string       `json:"level"`
		Message   *sarifMessage `json:"message"`
		Locations []struct {
			PhysicalLocation *struct {
				ArtifactLocation *struct {
					URI *string `json:"uri"`
				} `json:"artifactLocation"`
			} `json:"physicalLocation"`
		} `json:"locations"`
		Properties map[string]any `json:"properties"`
	}
)

// uriReference has only characters of RFC 3986, section 2.
var uriReference = regexp.MustCompile(`^([A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+$`)

// TestSARIF checks the export against what the schema of SARIF 2.1.0 and sections 3.27.9 and
// 3.27.10 require, also for targets that are not URIs.
func TestSARIF(t *testing.T) {
	report := run(t, serve(t, &plainServer{defect: "nul-lost"})["http"], &check.Options{Echo: "echo", Strict: true, Only: []string{"value", "fail", "http"}})
	outcomes := map[string]int{}
	for _, target := range []string{report.Target, "./server --port 80 a:b \"é\" 100% {x}|<y>\\^`", "unix:/tmp/a b.sock", "tcp://[::1]:80?framing=header"} {
		report.Target = target
		var out bytes.Buffer
		if err := report.WriteSARIF(&out, true); err != nil {
			t.Fatal(err)
		}
		var log sarifLog
		d := json.NewDecoder(&out)
		d.DisallowUnknownFields()
		if err := d.Decode(&log); err != nil {
			t.Fatal(err)
		}
		if log.Version == nil || *log.Version != "2.1.0" || log.Schema == nil || log.Runs == nil || len(*log.Runs) != 1 {
			t.Fatalf("%+v", log)
		}
		one := (*log.Runs)[0]
		if one.Tool == nil || one.Tool.Driver == nil || one.Tool.Driver.Name == nil || *one.Tool.Driver.Name == "" || one.Results == nil {
			t.Fatalf("%+v", one)
		}
		rules := one.Tool.Driver.Rules
		seen := map[string]bool{}
		for _, r := range rules {
			if r.ID == nil || seen[*r.ID] || r.ShortDescription == nil || r.ShortDescription.Text == nil || r.DefaultConfiguration == nil || !isLevel(r.DefaultConfiguration.Level) {
				t.Fatalf("%+v", r)
			}
			seen[*r.ID] = true
		}
		if len(*one.Results) != len(report.Rules) {
			t.Fatalf("%d results for %d rules", len(*one.Results), len(report.Rules))
		}
		for i, r := range *one.Results {
			switch {
			case r.RuleID == nil || r.RuleIndex == nil || *r.RuleIndex < 0 || *r.RuleIndex >= len(rules) || *rules[*r.RuleIndex].ID != *r.RuleID:
				t.Fatalf("result %d: rule %v %v", i, r.RuleID, r.RuleIndex)
			case r.Kind == nil || !slices.Contains([]string{"pass", "fail", "notApplicable"}, *r.Kind) || !isLevel(r.Level):
				t.Fatalf("result %d: kind %v, level %v", i, r.Kind, r.Level)
			case (*r.Kind == "fail") == (*r.Level == "none"):
				t.Errorf("result %d: kind %s with level %s", i, *r.Kind, *r.Level)
			case r.Message == nil || r.Message.Text == nil || *r.Message.Text == "":
				t.Errorf("result %d: no message", i)
			case len(r.Locations) != 1 || r.Locations[0].PhysicalLocation == nil || r.Locations[0].PhysicalLocation.ArtifactLocation == nil || r.Locations[0].PhysicalLocation.ArtifactLocation.URI == nil:
				t.Errorf("result %d: no location", i)
			default:
				uri := *r.Locations[0].PhysicalLocation.ArtifactLocation.URI
				if _, err := url.Parse(uri); err != nil || !uriReference.MatchString(uri) {
					t.Fatalf("%q is not a URI reference: %v", uri, err)
				}
			}
			outcomes[*r.Kind]++
		}
	}
	if outcomes["pass"] == 0 || outcomes["fail"] == 0 || outcomes["notApplicable"] == 0 {
		t.Errorf("%v", outcomes)
	}
}

func isLevel(level *string) bool {
	return level != nil && slices.Contains([]string{"none", "note", "warning", "error"}, *level)
}
