package acp

import (
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// An AgentManifest says what an agent is and takes (ACP 0.2.0, components/schemas/AgentManifest).
type AgentManifest struct {
	Name               string    `json:"name"` // a DNS label (RFC 1123): a-z, 0-9 and inner hyphens, at most 63
	Description        string    `json:"description"`
	InputContentTypes  []string  `json:"input_content_types"`  // MIME types and patterns, at least one
	OutputContentTypes []string  `json:"output_content_types"` // the same
	Metadata           *Metadata `json:"metadata,omitzero"`
	Status             *Status   `json:"status,omitzero"`

	Extra Extra `json:",embed"`
}

// Metadata are facts about an agent, for those who look for one (ACP 0.2.0, components/schemas/Metadata). All may be left out.
type Metadata struct {
	Annotations         Extra             `json:"annotations,omitzero"`
	Documentation       string            `json:"documentation,omitzero"` // Markdown
	License             string            `json:"license,omitzero"`       // SPDX
	ProgrammingLanguage string            `json:"programming_language,omitzero"`
	NaturalLanguages    []string          `json:"natural_languages,omitzero"` // ISO 639-1
	Framework           string            `json:"framework,omitzero"`
	Capabilities        []Capability      `json:"capabilities,omitzero"`
	Domains             []string          `json:"domains,omitzero"`
	Tags                []string          `json:"tags,omitzero"`
	CreatedAt           time.Time         `json:"created_at,omitzero"`
	UpdatedAt           time.Time         `json:"updated_at,omitzero"`
	Author              *Person           `json:"author,omitzero"`
	Contributors        []Person          `json:"contributors,omitzero"`
	Links               []AgentLink       `json:"links,omitzero"`
	Dependencies        []AgentDependency `json:"dependencies,omitzero"`
	RecommendedModels   []string          `json:"recommended_models,omitzero"`

	Extra Extra `json:",embed"`
}

// A Capability is one thing that an agent can do.
type Capability struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Extra       Extra  `json:",embed"`
}

// A Person wrote an agent, or helped.
type Person struct {
	Name  string `json:"name"`
	Email string `json:"email,omitzero"`
	URL   string `json:"url,omitzero"`
	Extra Extra  `json:",embed"`
}

// An AgentLink leads to more about an agent. Type is "source-code", "container-image", "homepage" or "documentation".
type AgentLink struct {
	Type  string `json:"type"`
	URL   string `json:"url"`
	Extra Extra  `json:",embed"`
}

// An AgentDependency is what an agent cannot work without. Type is "agent", "tool" or "model".
type AgentDependency struct {
	Type  string `json:"type"`
	Name  string `json:"name"`
	Extra Extra  `json:",embed"`
}

// Status is how an agent has done so far (ACP 0.2.0, components/schemas/Status). Nil fields are not known.
type Status struct {
	AvgRunTokens      *float64 `json:"avg_run_tokens,omitzero"`
	AvgRunTimeSeconds *float64 `json:"avg_run_time_seconds,omitzero"`
	SuccessRate       *float64 `json:"success_rate,omitzero"` // percent, from 0 to 100
	Extra             Extra    `json:",embed"`
}

// completed returns the manifest with what the schema wants and was left out, and no part of it shared.
func (m AgentManifest) completed() AgentManifest {
	if len(m.InputContentTypes) == 0 {
		m.InputContentTypes = []string{"*/*"}
	}
	if len(m.OutputContentTypes) == 0 {
		m.OutputContentTypes = []string{"*/*"}
	}
	return m
}

// emptyObject is the result of a ping.
var emptyObject = jsonrpc.Raw("{}")
