package mcp

import (
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A SamplingRequest is a request to the client's model: the params of sampling/createMessage.
type SamplingRequest struct {
	Messages         []SamplingMessage `json:"messages"`
	MaxTokens        int64             `json:"maxTokens"`
	SystemPrompt     string            `json:"systemPrompt,omitzero"`
	ModelPreferences *ModelPreferences `json:"modelPreferences,omitzero"`
	Temperature      *float64          `json:"temperature,omitzero"`
	StopSequences    []string          `json:"stopSequences,omitzero"`
	// "none"; the other values are deprecated
	IncludeContext string `json:"includeContext,omitzero"`
	// an object for the model's provider
	Metadata jsonrpc.Raw `json:"metadata,omitzero"`
	// since 2025-11-25; requires sampling.tools
	Tools      []Tool        `json:"tools,omitzero"`
	ToolChoice *ToolChoice   `json:"toolChoice,omitzero"` // since 2025-11-25
	Task       *TaskMetadata `json:"task,omitzero"`       // 2025-11-25 only
	Meta       Meta          `json:"_meta,omitzero"`
}

// A SamplingMessage is one turn of the conversation with the model. It may have several blocks
// since 2025-11-25.
type SamplingMessage struct {
	Role    Role   `json:"role"`
	Content Blocks `json:"content"`
	Meta    Meta   `json:"_meta,omitzero"`
}

// Blocks are one or more content blocks. A single block is written as an object and several as an
// array; both forms are read.
type Blocks []Content

// MarshalJSON encodes the blocks.
func (b Blocks) MarshalJSON() ([]byte, error) {
	if len(b) == 1 {
		return b[0].AppendJSON(nil)
	}
	return appendBlocks(nil, b)
}

// UnmarshalJSON decodes one block or an array of blocks.
func (b *Blocks) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '[' {
		var many []Content
		err := jsonrpc.Raw(text).Decode(&many)
		*b = many
		return err
	}
	var one Content
	err := one.UnmarshalJSON(text)
	*b = Blocks{one}
	return err
}

// ModelPreferences are preferences for the choice of a model. Priorities range from 0 to 1.
type ModelPreferences struct {
	Hints                []ModelHint `json:"hints,omitzero"`
	CostPriority         *float64    `json:"costPriority,omitzero"`
	SpeedPriority        *float64    `json:"speedPriority,omitzero"`
	IntelligencePriority *float64    `json:"intelligencePriority,omitzero"`
}

// A ModelHint is a part of a model's name.
type ModelHint struct {
	Name string `json:"name,omitzero"`
}

// ToolChoice controls whether the model must use a tool: Mode is "auto", "required" or "none".
type ToolChoice struct {
	Mode string `json:"mode,omitzero"`
}

// A SamplingResult is the model's response.
type SamplingResult struct {
	Role       Role   `json:"role"`
	Content    Blocks `json:"content"`
	Model      string `json:"model"`
	StopReason string `json:"stopReason,omitzero"` // such as "endTurn", "maxTokens", "toolUse"
	Meta       Meta   `json:"_meta,omitzero"`
}

// Modes of elicitation.
const (
	ElicitForm = "form"
	ElicitURL  = "url" // since 2025-11-25
)

// An Elicitation is a question to the user: the params of elicitation/create.
type Elicitation struct {
	Mode    string `json:"mode,omitzero"` // ElicitForm if empty
	Message string `json:"message"`

	// RequestedSchema describes the form: a flat object of strings, numbers, booleans and choices.
	// [FormOf] derives it from a Go struct.
	RequestedSchema jsonrpc.Raw `json:"requestedSchema,omitzero"`

	URL string `json:"url,omitzero"` // for ElicitURL
	// for ElicitURL in 2025-11-25; generated if empty
	ElicitationID string `json:"elicitationId,omitzero"`

	Task *TaskMetadata `json:"task,omitzero"` // 2025-11-25 only
	Meta Meta          `json:"_meta,omitzero"`
}

// Actions of the user.
const (
	ActionAccept  = "accept" // with ElicitURL it means consent, not completion
	ActionDecline = "decline"
	ActionCancel  = "cancel"
)

// An ElicitResult is the user's answer.
type ElicitResult struct {
	Action  string      `json:"action"`
	Content jsonrpc.Raw `json:"content,omitzero"` // the form values, if accepted
	Meta    Meta        `json:"_meta,omitzero"`
}

// Accepted decodes the form values into v. It reports whether the user accepted and the values fit
// v.
func (r *ElicitResult) Accepted(v any) bool {
	if r.Action != ActionAccept {
		return false
	}
	return v == nil || r.Content != nil && r.Content.Decode(v) == nil
}

// ElicitationCompleteParams report in 2025-11-25 that the interaction at a URL is complete.
type ElicitationCompleteParams struct {
	ElicitationID string `json:"elicitationId"`
	Meta          Meta   `json:"_meta,omitzero"`
}

// An InputRequest is a question inside a result, in the modern era and in tasks.
type InputRequest struct {
	Method string      `json:"method"` // MethodElicit, MethodCreateMessage or MethodRootsList
	Params jsonrpc.Raw `json:"params,omitzero"`
}

// InputRequired is a result that asks questions: the client calls again with the answers and with
// the unchanged state.
type InputRequired struct {
	InputRequests map[string]InputRequest `json:"inputRequests,omitzero"`
	RequestState  string                  `json:"requestState,omitzero"`
}

// Values of resultType in the modern era.
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
	ResultTask          = "task" // of the tasks extension
)
