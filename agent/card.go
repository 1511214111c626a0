package agent

// A Card is what an agent tells about itself.
type Card struct {
	Name        string   `json:"name"` // up to 63 of a-z, 0-9 and -, not at the ends: good for all protocols (RFC 1123)
	Title       string   `json:"title,omitzero"`
	Description string   `json:"description"`
	Version     string   `json:"version,omitzero"`
	Skills      []Skill  `json:"skills,omitzero"`
	Input       []string `json:"input,omitzero"`    // media types that it takes; nil means text/plain
	Output      []string `json:"output,omitzero"`   // media types that it gives; nil means text/plain
	Metadata    Metadata `json:"metadata,omitzero"` // what a protocol says beside
}

// A Skill is something that an agent can do.
type Skill struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Tags        []string `json:"tags,omitzero"`
	Examples    []string `json:"examples,omitzero"`
	Metadata    Metadata `json:"metadata,omitzero"`
}

var plain = []string{"text/plain"}

// Takes returns Input, and what stands for none.
func (c *Card) Takes() []string {
	if len(c.Input) == 0 {
		return plain
	}
	return c.Input
}

// Gives returns Output, and what stands for none.
func (c *Card) Gives() []string {
	if len(c.Output) == 0 {
		return plain
	}
	return c.Output
}

// DisplayName returns the title, or the name if there is none.
func (c *Card) DisplayName() string {
	if c.Title != "" {
		return c.Title
	}
	return c.Name
}

// CheckName returns what is wrong with a name, or nil.
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

// Keys of the metadata by which this module's two ends of a protocol tell each other what the protocol has no word for. Others may ignore them.
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
	MetaResult   = "parley/result"   // the State, Text and Metadata of a Result
)
