package agent

// A Card is an agent's description of itself.
type Card struct {
	// Name is up to 63 of a-z, 0-9 and -, with no - at the ends: valid in all protocols (RFC 1123).
	Name        string   `json:"name"`
	Title       string   `json:"title,omitzero"`
	Description string   `json:"description"`
	Version     string   `json:"version,omitzero"`
	Skills      []Skill  `json:"skills,omitzero"`
	Input       []string `json:"input,omitzero"`    // accepted media types; nil means text/plain
	Output      []string `json:"output,omitzero"`   // produced media types; nil means text/plain
	Metadata    Metadata `json:"metadata,omitzero"` // further protocol-specific members
}

// A Skill is a capability of an agent.
type Skill struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Tags        []string `json:"tags,omitzero"`
	Examples    []string `json:"examples,omitzero"`
	Metadata    Metadata `json:"metadata,omitzero"`
}

var plain = []string{"text/plain"}

// Takes returns Input, or its default if Input is nil.
func (c *Card) Takes() []string {
	if len(c.Input) == 0 {
		return plain
	}
	return c.Input
}

// Gives returns Output, or its default if Output is nil.
func (c *Card) Gives() []string {
	if len(c.Output) == 0 {
		return plain
	}
	return c.Output
}

// DisplayName returns the title, or the name if the title is empty.
func (c *Card) DisplayName() string {
	if c.Title != "" {
		return c.Title
	}
	return c.Name
}

// CheckName returns an error if name is not a valid agent name.
func CheckName(name string) error {
	if name == "" || len(name) > 63 || name[0] == '-' || name[len(name)-1] == '-' {
		return errName
	}
	for _, c := range []byte(name) {
		if c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return errName
		}
	}
	return nil
}

// Keys of the metadata in which this module's clients and agents exchange what a protocol has no
// field for. Other implementations may ignore them.
const (
	MetaCard     = "parley/card"     // a Card
	MetaPart     = "parley/part"     // the Name, MediaType, Filename and Metadata of a Part
	MetaMessage  = "parley/message"  // the Metadata of a Message
	MetaInput    = "parley/input"    // all Messages of an input
	MetaRequest  = "parley/request"  // the Metadata of a Request
	MetaProgress = "parley/progress" // a Progress
	MetaEvent    = "parley/event"    // the Metadata of an Event
	MetaQuestion = "parley/question" // a Question
	MetaAnswer   = "parley/answer"   // an Answer
	// MetaChoices is true if the part repeats the options of a question, for clients without
	// support for options.
	MetaChoices = "parley/choices"
	MetaResult  = "parley/result" // the State, Text and Metadata of a Result
)
