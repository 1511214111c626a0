package acpagent

import (
	"maps"
	"slices"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/agent"
)

// metaManifest is the metadata key of a manifest's metadata.
const metaManifest = "acp/metadata"

// Manifest converts a card to this protocol: skills become capabilities, and the rest goes into the
// annotations.
func Manifest(c *agent.Card) acp.AgentManifest {
	m := acp.AgentManifest{Name: c.Name, Description: c.Description, InputContentTypes: c.Takes(), OutputContentTypes: c.Gives()}
	about := acp.Metadata{}
	rest := *c
	if value, ok := c.Metadata[metaManifest]; ok {
		var own acp.Metadata
		if value.Decode(&own) == nil {
			about = own
			rest.Metadata = maps.Clone(c.Metadata)
			delete(rest.Metadata, metaManifest)
		}
	}
	if len(rest.Metadata) == 0 {
		rest.Metadata = nil
	}
	about.Capabilities = slices.Clone(about.Capabilities)
	for _, s := range c.Skills {
		if slices.ContainsFunc(about.Capabilities, func(c acp.Capability) bool { return c.Name == s.Name }) {
			continue
		}
		about.Capabilities = append(about.Capabilities, acp.Capability{Name: s.Name, Description: s.Description})
		for _, tag := range s.Tags {
			if !slices.Contains(about.Tags, tag) {
				about.Tags = append(about.Tags, tag)
			}
		}
	}
	if c.Title != "" || c.Version != "" || c.Skills != nil || rest.Metadata != nil {
		about.Annotations = with(cloned(about.Annotations), agent.MetaCard, text(rest))
	}
	if !empty(&about) {
		m.Metadata = &about
	}
	return m
}

func cloned(m acp.Extra) acp.Extra {
	out := acp.Extra{}
	for key, value := range m {
		out[key] = value
	}
	return out
}

func empty(m *acp.Metadata) bool { return string(text(m)) == "{}" }

// CardOf converts a manifest to a card.
func CardOf(m *acp.AgentManifest) agent.Card {
	c := agent.Card{}
	if m.Metadata != nil {
		about := *m.Metadata
		if own, ok := about.Annotations[agent.MetaCard]; ok && own.Decode(&c) == nil {
			about.Annotations = cloned(about.Annotations)
			if delete(about.Annotations, agent.MetaCard); len(about.Annotations) == 0 {
				about.Annotations = nil
			}
		} else {
			c.Skills = skillsOf(&about)
		}
		about.Capabilities = slices.DeleteFunc(slices.Clone(about.Capabilities), func(one acp.Capability) bool {
			return one.Extra == nil && slices.ContainsFunc(c.Skills, func(s agent.Skill) bool { return s.Name == one.Name && s.Description == one.Description })
		})
		about.Tags = slices.DeleteFunc(slices.Clone(about.Tags), func(tag string) bool {
			return slices.ContainsFunc(c.Skills, func(s agent.Skill) bool { return slices.Contains(s.Tags, tag) })
		})
		about.Capabilities, about.Tags = nilIfEmpty(about.Capabilities), nilIfEmpty(about.Tags)
		if !empty(&about) {
			c.Metadata = c.Metadata.With(metaManifest, &about)
		}
	}
	c.Name, c.Description, c.Input, c.Output = m.Name, m.Description, m.InputContentTypes, m.OutputContentTypes
	if m.Status != nil {
		c.Metadata = c.Metadata.With("acp/status", m.Status)
	}
	c.Metadata = c.Metadata.Merge(fromExtra(m.Extra, ""))
	return c
}

func nilIfEmpty[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// skillsOf converts the capabilities of another implementation's agent to skills.
func skillsOf(m *acp.Metadata) []agent.Skill {
	var out []agent.Skill
	for _, c := range m.Capabilities {
		out = append(out, agent.Skill{ID: c.Name, Name: c.Name, Description: c.Description, Tags: m.Tags})
	}
	return out
}
