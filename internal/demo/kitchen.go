package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// The service kitchen demonstrates long-running work: with progress and log messages, as a task
// that a client can leave and rejoin, and with a list of tools that changes.

const (
	maxSteps    = 1_000
	maxStep     = time.Minute
	specialTool = "kitchen/order-special"
)

type cooking struct {
	Dish  string `json:"dish" jsonschema:"what to cook" mcp:"default=risotto"`
	Steps int    `json:"steps,omitzero" jsonschema:"in how many steps; 5 if absent" mcp:"min=1,max=1000"`
	Ms    int    `json:"step_ms,omitzero" jsonschema:"how long a step takes, in milliseconds; 400 if absent" mcp:"min=1,max=60000"`
}

type kitchen struct {
	server *mcp.Server

	mu      sync.Mutex // guards the fields below
	special bool
}

func addKitchen(s *mcp.Server) {
	k := &kitchen{server: s}
	mcp.AddTool(s, mcp.Tool{
		Name:  "kitchen/cook",
		Title: "Cook",
		Description: "Cooks a dish step by step: it reports progress after each step, logs what it does, and can be cancelled. " +
			"Use it to see how a client shows a long call.",
		Annotations: readsOnly(),
	}, k.cook)
	mcp.AddTool(s, mcp.Tool{
		Name:  "kitchen/bake",
		Title: "Bake",
		Description: "Bakes something as a task: a client with tasks gets a handle at once and can request the progress later, " +
			"others wait for the result as for any call. Halfway it asks the user for the colour of the crust, if the client supports it.",
		Annotations: readsOnly(),
		Task:        mcp.TaskOptional,
	}, k.bake)
	mcp.AddTool(s, mcp.Tool{
		Name:  "kitchen/invent",
		Title: "Invent a dish",
		Description: "Requests a dish for the given ingredients from the client's own model, and returns its answer. " +
			"It requires a client with sampling.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(true)},
	}, k.invent)
	mcp.AddTool(s, mcp.Tool{
		Name:  "kitchen/switch-special",
		Title: "Add or remove a special",
		Description: "Adds the tool " + specialTool + " to the list of tools of all clients, or removes it. " +
			"Subscribed clients get a notification that the list has changed.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: new(false), OpenWorldHint: new(false)},
	}, k.switchSpecial)
}

func (k *kitchen) cook(ctx context.Context, r *mcp.Request, in cooking) (string, error) {
	dish := in.Dish
	steps, pause := 5, 400*time.Millisecond
	if in.Steps > 0 {
		steps = in.Steps
	}
	if in.Ms > 0 {
		pause = time.Duration(in.Ms) * time.Millisecond
	}
	if err := r.Log(ctx, mcp.LevelInfo, "kitchen", map[string]any{"dish": dish, "steps": steps}); err != nil {
		return "", err
	}
	for i := range steps {
		if err := waitFor(ctx, pause); err != nil {
			return "", err
		}
		doing := work[i*len(work)/steps]
		if err := r.Progress(ctx, float64(i+1), float64(steps), doing); err != nil {
			return "", err
		}
		if err := r.Log(ctx, mcp.LevelDebug, "kitchen", fmt.Sprintf("step %d of %d: %s", i+1, steps, doing)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("The %s is ready, after %d steps.", dish, steps), nil
}

var work = []string{"washing", "chopping", "heating the pan", "stirring", "serving"}

type baking struct {
	What    string `json:"what" jsonschema:"what to bake, such as bread"`
	Seconds int    `json:"seconds,omitzero" jsonschema:"how long it is in the oven; 3 if absent" mcp:"min=1,max=600"`
}

func (k *kitchen) bake(ctx context.Context, r *mcp.Request, in baking) (string, error) {
	oven := 3 * time.Second
	if in.Seconds > 0 {
		oven = time.Duration(in.Seconds) * time.Second
	}
	if _, err := mcp.Once(ctx, r, "first half", func(ctx context.Context) (bool, error) { return true, waitFor(ctx, oven/2) }); err != nil {
		return "", err
	}
	crust, err := k.crust(ctx, r, in.What)
	if err != nil {
		return "", err
	}
	if err := waitFor(ctx, oven-oven/2); err != nil {
		return "", err
	}
	return fmt.Sprintf("The %s is baked, with a %s crust.", in.What, crust), nil
}

// crust asks the user for the crust. It returns golden if the client cannot ask or the user
// declines.
func (k *kitchen) crust(ctx context.Context, r *mcp.Request, what string) (string, error) {
	type form struct {
		Crust string `json:"crust" mcp:"title=Crust,enum=pale|golden|dark,default=golden"`
	}
	answer, err := r.Elicit(ctx, "crust", &mcp.Elicitation{
		Message: "The " + what + " is half done. How dark should the crust be?", RequestedSchema: mcp.FormOf[form](),
	})
	if _, ok := errors.AsType[*mcp.CapabilityError](err); ok {
		return "golden", nil
	}
	if err != nil {
		return "", err
	}
	var said form
	if !answer.Accepted(&said) {
		return "golden", nil
	}
	return said.Crust, nil
}

type pantry struct {
	Ingredients []string `json:"ingredients" jsonschema:"what there is"`
}

func (k *kitchen) invent(ctx context.Context, r *mcp.Request, in pantry) (string, error) {
	answer, err := r.Sample(ctx, "dish", &mcp.SamplingRequest{
		SystemPrompt: "You are a cook. Answer with the name of one dish and one sentence about it.",
		Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Blocks{
			mcp.Text("Invent a dish from: " + strings.Join(in.Ingredients, ", ") + "."),
		}}},
		MaxTokens: 200,
	})
	if theirs, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return "", mcp.Errorf("The request to the model failed: %s.", theirs.Message)
	}
	if err != nil {
		return "", err
	}
	var text []string
	for _, block := range answer.Content {
		if block.Kind == mcp.KindText {
			text = append(text, block.Text)
		}
	}
	return strings.Join(text, "\n"), nil
}

func (k *kitchen) switchSpecial(context.Context, *mcp.Request, struct{}) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.special = !k.special
	if !k.special {
		k.server.RemoveTools(specialTool)
		return "The special is off the list.", nil
	}
	mcp.AddTool(k.server, mcp.Tool{
		Name: specialTool, Title: "Order the special", Description: "Orders the special of the day. kitchen/switch-special adds and removes it.",
		Annotations: readsOnly(),
	}, func(context.Context, *mcp.Request, struct{}) (string, error) {
		return "One special of the day, coming up.", nil
	})
	return "The special is on the list.", nil
}
