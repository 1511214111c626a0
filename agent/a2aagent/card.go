package a2aagent

import (
	"maps"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/agent"
)

// Extension is the URI of the extension with which a card carries data that this protocol has no
// field for: its params hold an agent.Card.
const Extension = "https://github.com/da1ed7bb/parley/blob/main/docs/guides/agent.md#a2a"

// Metadata keys of data from a card of this protocol.
const (
	metaCard  = "a2a/card"
	metaSkill = "a2a/skill"
)

// Card converts a card to this protocol. The server must add the addresses. An agent without skills
// gets one skill that describes the agent itself, because some clients require one.
func Card(c *agent.Card) a2a.AgentCard {
	out := a2a.AgentCard{}
	rest := *c
	rest.Skills = nil
	if value, ok := c.Metadata[metaCard]; ok && value.Decode(&out) == nil {
		rest.Metadata = maps.Clone(c.Metadata)
		delete(rest.Metadata, metaCard)
	}
	if len(rest.Metadata) == 0 {
		rest.Metadata = nil
	}
	out.Name, out.Description, out.Version = c.Name, c.Description, c.Version
	if out.Version == "" {
		out.Version = "0"
	}
	out.DefaultInputModes, out.DefaultOutputModes = c.Takes(), c.Gives()
	out.Capabilities.Streaming = true
	out.Skills = []a2a.AgentSkill{}
	plain := true
	for _, s := range c.Skills {
		var skill a2a.AgentSkill
		own, ok := s.Metadata[metaSkill]
		if !ok || own.Decode(&skill) != nil {
			skill = a2a.AgentSkill{}
		}
		skill.ID, skill.Name, skill.Description, skill.Tags, skill.Examples = s.ID, s.Name, s.Description, append([]string{}, s.Tags...), s.Examples
		out.Skills = append(out.Skills, skill)
		plain = plain && (len(s.Metadata) == 0 || ok && len(s.Metadata) == 1)
	}
	if len(out.Skills) == 0 {
		out.Skills = append(out.Skills, a2a.AgentSkill{ID: c.Name, Name: c.DisplayName(), Description: c.Description, Tags: []string{}})
		plain = false
	}
	if !plain {
		rest.Skills = c.Skills
	}
	if c.Title != "" || c.Version == "" || rest.Metadata != nil || !plain {
		params := a2a.Metadata{agent.MetaCard: text(rest)}
		if rest.Skills == nil && !plain {
			params = params.With("parley/skills", []agent.Skill{})
		}
		out.Capabilities.Extensions = append(append([]a2a.AgentExtension{}, out.Capabilities.Extensions...),
			a2a.AgentExtension{URI: Extension, Description: "Additional properties of parley's agents.", Params: params})
	}
	return out
}

// CardOf converts a card of this protocol.
func CardOf(card *a2a.AgentCard) agent.Card {
	rest := *card
	c := agent.Card{Version: card.Version}
	var skills []agent.Skill
	for _, s := range card.Skills {
		skill := agent.Skill{ID: s.ID, Name: s.Name, Description: s.Description, Tags: s.Tags, Examples: s.Examples}
		if s.InputModes != nil || s.OutputModes != nil || s.SecurityRequirements != nil {
			skill.Metadata = skill.Metadata.With(metaSkill, s)
		}
		skills = append(skills, skill)
	}
	c.Skills = skills
	rest.Capabilities.Extensions = nil
	for _, x := range card.Capabilities.Extensions {
		var own agent.Card
		if x.URI != Extension || !x.Params.Get(agent.MetaCard, &own) {
			rest.Capabilities.Extensions = append(rest.Capabilities.Extensions, x)
			continue
		}
		c = own
		if c.Skills == nil {
			c.Skills = skills
		}
		var none []agent.Skill
		if x.Params.Get("parley/skills", &none) {
			c.Skills = none
		}
	}
	c.Name, c.Description, c.Input, c.Output = card.Name, card.Description, card.DefaultInputModes, card.DefaultOutputModes
	rest.Skills = []a2a.AgentSkill{}
	c.Metadata = c.Metadata.With(metaCard, rest)
	return c
}
