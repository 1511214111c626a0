package mcp

// A Prompt is a text or a conversation that a user may start from.
type Prompt struct {
	Name        string           `json:"name"`
	Title       string           `json:"title,omitzero"` // since 2025-06-18
	Description string           `json:"description,omitzero"`
	Arguments   []PromptArgument `json:"arguments,omitzero"`
	Icons       []Icon           `json:"icons,omitzero"` // since 2025-11-25
	Meta        Meta             `json:"_meta,omitzero"`
}

// A PromptArgument is one argument of a prompt. All arguments are strings.
type PromptArgument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitzero"` // since 2025-06-18
	Description string `json:"description,omitzero"`
	Required    bool   `json:"required,omitzero"`
}

// A PromptMessage is one message of a prompt.
type PromptMessage struct {
	Role    Role    `json:"role"`
	Content Content `json:"content"`
}

// GetPromptParams are the params of prompts/get.
type GetPromptParams struct {
	Name      string            `json:"name"`
	Arguments map[string]string `json:"arguments,omitzero"`
	Meta      Meta              `json:"_meta,omitzero"`
}

// GetPromptResult is a prompt with its arguments filled in.
type GetPromptResult struct {
	Description string          `json:"description,omitzero"`
	Messages    []PromptMessage `json:"messages"`
	Meta        Meta            `json:"_meta,omitzero"`
}

// ListPromptsResult is one page of prompts.
type ListPromptsResult struct {
	Prompts    []Prompt `json:"prompts"`
	NextCursor *string  `json:"nextCursor,omitzero"`
	Caching
	Meta Meta `json:"_meta,omitzero"`
}

// Kinds of references in completion/complete.
const (
	RefPrompt   = "ref/prompt"
	RefResource = "ref/resource"
)

// A Reference identifies what is being completed: a prompt by name, or a resource template by URI.
type Reference struct {
	Type  string `json:"type"` // RefPrompt or RefResource
	Name  string `json:"name,omitzero"`
	Title string `json:"title,omitzero"`
	URI   string `json:"uri,omitzero"`
}

// CompleteParams are the params of completion/complete.
type CompleteParams struct {
	Ref      Reference        `json:"ref"`
	Argument CompleteArgument `json:"argument"`
	Context  *CompleteContext `json:"context,omitzero"` // since 2025-06-18
	Meta     Meta             `json:"_meta,omitzero"`
}

// CompleteArgument is the argument being typed, with its text so far.
type CompleteArgument struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// CompleteContext contains the arguments that are already filled in.
type CompleteContext struct {
	Arguments map[string]string `json:"arguments,omitzero"`
}

// CompleteResult is the result of completion/complete.
type CompleteResult struct {
	Completion Completion `json:"completion"`
	Meta       Meta       `json:"_meta,omitzero"`
}

// A Completion contains up to 100 proposed values.
type Completion struct {
	Values  []string `json:"values"`
	Total   *int     `json:"total,omitzero"`
	HasMore bool     `json:"hasMore,omitzero"`
}
