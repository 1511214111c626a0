package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

const refunds = `---
name: refunds
description: >-
  Process refunds
  per policy
license: 'Apache-2.0' # kept
metadata:
  version: "2.1.0"
  tags: [a, "b, c", 3]
  steps:
  - one
  - name: two
    last: true
---
# Refunds
`

func TestSkills(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V20251125, mcp.V20260728} {
		t.Run(v.String(), func(t *testing.T) {
			s := mcp.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil)
			files := fstest.MapFS{"SKILL.md": {Data: []byte(refunds)}, "templates/a b.md": {Data: []byte("A")}, "templates/eu/c.bin": {Data: []byte{0xff}}}
			must(t, s.AddSkill("acme/billing/refunds", files))
			c := connect(t, s, mcp.ClientOptions{}, v)
			if _, ok := c.ServerCapabilities().Extensions[mcp.ExtensionSkills]; !ok {
				t.Errorf("capabilities %+v", c.ServerCapabilities())
			}
			list, err := c.ListSkills(t.Context(), nil)
			must(t, err)
			if len(list.Skills) != 1 {
				t.Fatalf("skills %+v", list)
			}
			want := `{"description":"Process refunds per policy","license":"Apache-2.0","metadata":{"steps":["one",{"last":true,"name":"two"}],"tags":["a","b, c",3],"version":"2.1.0"},"name":"refunds"}`
			if got := string(list.Skills[0].Frontmatter); got != want {
				t.Errorf("front matter\n got %s\nwant %s", got, want)
			}
			skill, err := c.GetSkill(t.Context(), "skill://acme/billing/refunds/SKILL.md")
			must(t, err)
			if len(skill.Resources) != 3 {
				t.Errorf("files %+v", skill.Resources)
			}
			for _, r := range skill.Resources {
				body, err := c.ReadSkillFile(t.Context(), skill, r.URI)
				if err != nil || int64(len(body)) != r.Size {
					t.Errorf("%s: %q, %v", r.URI, body, err)
				}
			}
			forged := *skill
			forged.Frontmatter = jsonrpc.Raw(`{"name":"refunds","description":"Be nice"}`)
			if _, err := c.ReadSkillFile(t.Context(), &forged, skill.URI); !errors.Is(err, mcp.ErrSkillChanged) {
				t.Errorf("another front matter: %v", err)
			}
			must(t, s.AddResource(mcp.Resource{URI: skill.Resources[1].URI, Name: "x"}, func(_ context.Context, r *mcp.Request) (*mcp.ReadResourceResult, error) {
				return mcp.TextResource(r, "", "changed"), nil
			}))
			if _, err := c.ReadSkillFile(t.Context(), skill, skill.Resources[1].URI); !errors.Is(err, mcp.ErrSkillChanged) {
				t.Errorf("a changed file: %v", err)
			}
			if _, err := c.ReadSkillFile(t.Context(), skill, "skill://acme/billing/refunds/other"); !errors.Is(err, mcp.ErrSkillChanged) {
				t.Errorf("a file from nowhere: %v", err)
			}
			for uri, want := range map[string]string{
				"skill://acme":                           "billing/",
				"skill://acme/billing/refunds":           "refunds templates/",
				"skill://acme/billing/refunds/templates": "a b.md eu/",
			} {
				dir, err := c.ReadDirectory(t.Context(), uri, nil)
				must(t, err)
				var names []string
				for _, r := range dir.Resources {
					if r.MIMEType == "inode/directory" {
						r.Name += "/"
					}
					names = append(names, r.Name)
				}
				slices.Sort(names)
				if got := strings.Join(names, " "); got != want {
					t.Errorf("%s holds %s, want %s", uri, got, want)
				}
			}
			for _, uri := range []string{skill.URI, "skill://nowhere"} {
				if _, err := c.ReadDirectory(t.Context(), uri, nil); !errors.Is(err, jsonrpc.ErrInvalidParams) {
					t.Errorf("directory %s: %v", uri, err)
				}
			}
			if _, err := c.GetSkill(t.Context(), "skill://nowhere/SKILL.md"); !errors.Is(err, jsonrpc.ErrInvalidParams) {
				t.Errorf("no skill: %v", err)
			}
		})
	}
}

// TestBlockStringsInSkills checks the line ends of block strings (YAML 1.2.2, section 8.1.1.2).
func TestBlockStringsInSkills(t *testing.T) {
	for header, want := range map[string]string{
		"|":  "a\n\nb\n",
		"|-": "a\n\nb",
		"|+": "a\n\nb\n\n\n",
		">":  "a\nb\n",
		">-": "a\nb",
		">+": "a\nb\n\n\n",
	} {
		s := mcp.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil)
		text := "---\nname: x\ndescription: d\nnote: " + header + "\n  a\n\n  b\n\n\nend: true\n---\n"
		must(t, s.AddSkill("x", fstest.MapFS{"SKILL.md": {Data: []byte(text)}}))
		list, err := connect(t, s, mcp.ClientOptions{}, mcp.V20260728).ListSkills(t.Context(), nil)
		must(t, err)
		var front struct {
			Note string `json:"note"`
			End  bool   `json:"end"`
		}
		must(t, list.Skills[0].Frontmatter.Decode(&front))
		if front.Note != want || !front.End {
			t.Errorf("%s: %q, want %q", header, front.Note, want)
		}
	}
}

func TestWrongSkills(t *testing.T) {
	s := mcp.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil)
	for what, text := range map[string]string{
		"no front matter":   "# Hello",
		"no end":            "---\nname: x\n",
		"another name":      "---\nname: y\ndescription: d\n---\n",
		"no description":    "---\nname: x\n---\n",
		"a member twice":    "---\nname: x\nname: x\ndescription: d\n---\n",
		"an anchor":         "---\nname: x\ndescription: &a d\n---\n",
		"a colon":           "---\nname: x\ndescription: d: e\n---\n",
		"wrong indentation": "---\nname: x\n  more: y\ndescription: d\n---\n",
	} {
		if err := s.AddSkill("x", fstest.MapFS{"SKILL.md": {Data: []byte(text)}}); err == nil {
			t.Errorf("%s was taken", what)
		}
	}
	for _, at := range []string{"", "X", "a--b", "../x", "/x", "x/"} {
		if err := s.AddSkill(at, fstest.MapFS{"SKILL.md": {Data: []byte("---\nname: x\ndescription: d\n---\n")}}); err == nil {
			t.Errorf("path %q was taken", at)
		}
	}
}

func TestApps(t *testing.T) {
	s := mcp.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil)
	mcp.AddTool(s, mcp.Tool{Name: "chart"}.WithApp(mcp.AppTool{ResourceURI: "ui://chart", Visibility: []string{"model"}}),
		func(_ context.Context, r *mcp.Request, _ struct{}) (string, error) {
			return fmt.Sprint(r.ShowsApps()), nil
		})
	must(t, s.AddResource(mcp.Resource{URI: "ui://chart", Name: "chart", MIMEType: mcp.AppMIMEType}, func(_ context.Context, r *mcp.Request) (*mcp.ReadResourceResult, error) {
		page := mcp.ResourceContents{URI: r.Name, Text: "<p>"}.WithApp(mcp.AppResource{CSP: &mcp.AppCSP{ConnectDomains: []string{"https://example.com"}}})
		return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{page}}, nil
	}))
	c := connect(t, s, mcp.ClientOptions{Extensions: map[string]mcp.Settings{mcp.ExtensionUI: mcp.AppSettings()}})
	for tool, err := range c.Tools(t.Context()) {
		must(t, err)
		if a := tool.App(); a == nil || a.ResourceURI != "ui://chart" {
			t.Errorf("app %+v", a)
		}
	}
	got, err := c.CallTool(t.Context(), "chart", nil, nil)
	must(t, err)
	if got.Text() != "true" {
		t.Errorf("shows apps: %s", got.Text())
	}
	page, err := c.ReadResource(t.Context(), "ui://chart", nil)
	must(t, err)
	if a := page.Contents[0].App(); a == nil || a.CSP.ConnectDomains[0] != "https://example.com" {
		t.Errorf("page %+v", page)
	}
}
