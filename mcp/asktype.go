package mcp

import (
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A SamplingRequest asks the client's model: the params of sampling/createMessage.
type SamplingRequest struct {
	Messages         []SamplingMessage `json:"messages"`
	MaxTokens        int64             `json:"maxTokens"`
	SystemPrompt     string            `json:"systemPrompt,omitzero"`
	ModelPreferences *ModelPreferences `json:"modelPreferences,omitzero"`
	Temperature      *float64          `json:"temperature,omitzero"`
	StopSequences    []string          `json:"stopSequences,omitzero"`
	IncludeContext   string            `json:"includeContext,omitzero"` // "none"; the others are deprecated
	Metadata         jsonrpc.Raw       `json:"metadata,omitzero"`       // an object for the provider of the model
	Tools            []Tool            `json:"tools,omitzero"`          // from 2025-11-25; needs sampling.tools
	ToolChoice       *ToolChoice       `json:"toolChoice,omitzero"`     // from 2025-11-25
	Task             *TaskMetadata     `json:"task,omitzero"`           // 2025-11-25
	Meta             Meta              `json:"_meta,omitzero"`
}

// A SamplingMessage is one turn of the conversation with the model. Several blocks are possible from 2025-11-25.
type SamplingMessage struct {
	Role    Role   `json:"role"`
	Content Blocks `json:"content"`
	Meta    Meta   `json:"_meta,omitzero"`
}

// Blocks are one or more blocks: a single one is written as an object, several as an array, and both are read.
type Blocks []Content

// MarshalJSON writes the blocks.
func (b Blocks) MarshalJSON() ([]byte, error) {
	if len(b) == 1 {
		return b[0].AppendJSON(nil)
	}
	return appendBlocks(nil, b)
}

// UnmarshalJSON reads one block or an array of them.
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

// ModelPreferences are wishes about the model. Priorities go from 0 to 1.
type ModelPreferences struct {
	Hints                []ModelHint `json:"hints,omitzero"`
	CostPriority         *float64    `json:"costPriority,omitzero"`
	SpeedPriority        *float64    `json:"speedPriority,omitzero"`
	IntelligencePriority *float64    `json:"intelligencePriority,omitzero"`
}

// A ModelHint is part of a model's name.
type ModelHint struct {
	Name string `json:"name,omitzero"`
}

// ToolChoice says whether the model must use a tool: "auto", "required" or "none".
type ToolChoice struct {
	Mode string `json:"mode,omitzero"`
}

// A SamplingResult is what the model said.
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
	ElicitURL  = "url" // from 2025-11-25
)

// An Elicitation asks the user: the params of elicitation/create.
type Elicitation struct {
	Mode    string `json:"mode,omitzero"` // ElicitForm when empty
	Message string `json:"message"`

	// RequestedSchema describes the form: a flat object of strings, numbers, booleans and choices. [FormOf] makes it of a Go struct.
	RequestedSchema jsonrpc.Raw `json:"requestedSchema,omitzero"`

	URL           string `json:"url,omitzero"`           // for ElicitURL
	ElicitationID string `json:"elicitationId,omitzero"` // for ElicitURL in 2025-11-25; made when empty

	Task *TaskMetadata `json:"task,omitzero"` // 2025-11-25
	Meta Meta          `json:"_meta,omitzero"`
}

// What the user did.
const (
	ActionAccept  = "accept" // with ElicitURL it means consent, not completion
	ActionDecline = "decline"
	ActionCancel  = "cancel"
)

// An ElicitResult is the user's answer.
type ElicitResult struct {
	Action  string      `json:"action"`
	Content jsonrpc.Raw `json:"content,omitzero"` // what was filled in, when accepted
	Meta    Meta        `json:"_meta,omitzero"`
}

// Accepted decodes what the user filled in into v and reports whether they accepted and it fits.
func (r *ElicitResult) Accepted(v any) bool {
	if r.Action != ActionAccept {
		return false
	}
	return v == nil || r.Content != nil && r.Content.Decode(v) == nil
}

// ElicitationCompleteParams say in 2025-11-25 that what happened at a URL is done.
type ElicitationCompleteParams struct {
	ElicitationID string `json:"elicitationId"`
	Meta          Meta   `json:"_meta,omitzero"`
}

// An InputRequest is a question inside an answer, in the modern era and in tasks.
type InputRequest struct {
	Method string      `json:"method"` // MethodElicit, MethodCreateMessage or MethodRootsList
	Params jsonrpc.Raw `json:"params,omitzero"`
}

// InputRequired is an answer that asks: the client calls again with answers to the questions, and with the state as it came.
type InputRequired struct {
	InputRequests map[string]InputRequest `json:"inputRequests,omitzero"`
	RequestState  string                  `json:"requestState,omitzero"`
}

// What resultType may say in the modern era.
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
	ResultTask          = "task" // of the tasks extension
)
