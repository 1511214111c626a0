package acp

import (
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// An AgentManifest describes an agent and its input and output (ACP 0.2.0,
// components/schemas/AgentManifest).
type AgentManifest struct {
	// a DNS label (RFC 1123): a-z, 0-9 and inner hyphens, at most 63
	Name        string `json:"name"`
	Description string `json:"description"`
	// MIME types and patterns, at least one
	InputContentTypes  []string  `json:"input_content_types"`
	OutputContentTypes []string  `json:"output_content_types"` // likewise
	Metadata           *Metadata `json:"metadata,omitzero"`
	Status             *Status   `json:"status,omitzero"`

	Extra Extra `json:",embed"`
}

// Metadata describes an agent for those who search for one (ACP 0.2.0,
// components/schemas/Metadata). All fields are optional.
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

// A Capability is one capability of an agent.
type Capability struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Extra       Extra  `json:",embed"`
}

// A Person is an author or contributor of an agent.
type Person struct {
	Name  string `json:"name"`
	Email string `json:"email,omitzero"`
	URL   string `json:"url,omitzero"`
	Extra Extra  `json:",embed"`
}

// An AgentLink is a link to more information about an agent. Type is "source-code",
// "container-image", "homepage" or "documentation".
type AgentLink struct {
	Type  string `json:"type"`
	URL   string `json:"url"`
	Extra Extra  `json:",embed"`
}

// An AgentDependency is something that an agent requires. Type is "agent", "tool" or "model".
type AgentDependency struct {
	Type  string `json:"type"`
	Name  string `json:"name"`
	Extra Extra  `json:",embed"`
}

// Status holds statistics of an agent (ACP 0.2.0, components/schemas/Status). Nil fields are
// unknown.
type Status struct {
	AvgRunTokens      *float64 `json:"avg_run_tokens,omitzero"`
	AvgRunTimeSeconds *float64 `json:"avg_run_time_seconds,omitzero"`
	SuccessRate       *float64 `json:"success_rate,omitzero"` // percent, from 0 to 100
	Extra             Extra    `json:",embed"`
}

// completed returns a deep copy of the manifest with defaults for missing members that the schema
// requires.
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
