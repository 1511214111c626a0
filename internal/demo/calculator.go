package demo

import (
	"context"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// The service calculator: four tools with typed arguments and structured results, on exact decimal
// numbers.

// A pair is the input of each of the four tools.
type pair struct {
	A Number `json:"a"`
	B Number `json:"b"`
}

// An outcome is the result of each of the four tools.
type outcome struct {
	Result *Number `json:"result"`
	Exact  bool    `json:"exact"`
}

// outcomeSchema is the schema of an outcome. It is explicit because no schema can be derived from
// the type Number.
var outcomeSchema = jsonrpc.Raw(`{"type":"object","properties":{` +
	`"result":{"type":"number","description":"the result"},` +
	`"exact":{"type":"boolean","description":"false when the result was rounded to 34 digits"}},` +
	`"required":["result","exact"],"additionalProperties":false}`)

// pairSchema returns the schema of a pair with descriptions of its two numbers.
func pairSchema(a, b string) jsonrpc.Raw {
	return jsonrpc.Raw(`{"type":"object","properties":{"a":{"type":"number","description":"` + a + `"},"b":{"type":"number","description":"` + b + `"}},` +
		`"required":["a","b"],"additionalProperties":false}`)
}

// errLongResult reports a result that would print as a page of digits.
var errLongResult = mcp.Errorf("The result has more than %d digits.", maxDigits)

func addCalculator(s *mcp.Server) {
	for _, t := range []struct {
		name, title, description, a, b string
		run                            func(a, b *Number) (*Number, bool, error)
	}{
		{
			"add", "Add", "Adds two numbers exactly: 0.1 and 0.2 are 0.3, and long numbers keep all digits.", "the first summand", "the second summand",
			func(a, b *Number) (*Number, bool, error) { return a.Add(b), true, nil },
		}, {
			"subtract", "Subtract", "Subtracts b from a, exactly.", "what is subtracted from", "what is taken away",
			func(a, b *Number) (*Number, bool, error) { return a.Sub(b), true, nil },
		}, {
			"multiply", "Multiply", "Multiplies two numbers, exactly.", "the first factor", "the second factor",
			func(a, b *Number) (*Number, bool, error) { return a.Mul(b), true, nil },
		}, {
			"divide", "Divide", "Divides a by b. A result of more than 34 digits is rounded, and exact is false. Division by zero is an error.",
			"what is divided", "what it is divided by",
			func(a, b *Number) (*Number, bool, error) {
				if b.coef.Sign() == 0 {
					return nil, false, mcp.Errorf("Division by zero: %s ÷ 0 has no result. Give another b.", a)
				}
				q, exact := a.Div(b)
				return q, exact, nil
			},
		},
	} {
		mcp.AddTool(s, mcp.Tool{
			Name:         "calculator/" + t.name,
			Title:        t.title,
			Description:  t.description,
			InputSchema:  pairSchema(t.a, t.b),
			OutputSchema: outcomeSchema,
			Annotations:  readsOnly(),
		}, func(_ context.Context, _ *mcp.Request, in pair) (outcome, error) {
			result, exact, err := t.run(&in.A, &in.B)
			if err != nil {
				return outcome{}, err
			}
			if result.digits() > maxDigits {
				return outcome{}, errLongResult
			}
			return outcome{result, exact}, nil
		})
	}
}

// readsOnly returns the annotations of a tool that changes nothing and accesses no external
// systems.
func readsOnly() *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: new(false), IdempotentHint: true, OpenWorldHint: new(false)}
}
