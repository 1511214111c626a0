package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// A scene is one run of a scenario.
type scene struct {
	*mcp.Client
	context jsonrpc.Raw // the context that the suite passes
	log     io.Writer
}

// scenarios maps the suite's names to scenarios. Those of auth/ are all the same here, see
// withToken.
var scenarios = map[string]func(context.Context, *scene) error{
	"initialize":                          list,
	"tools_call":                          call("add_numbers", jsonrpc.Raw(`{"a":5,"b":3}`)),
	"request-metadata":                    call("", nil),
	"elicitation-sep1034-client-defaults": call("test_client_elicitation_defaults", nil),
	"sse-retry":                           call("test_reconnection", nil),
	"sep-2322-client-request-state":       requestState,
	"http-standard-headers":               oneOfEach,
	"http-custom-headers":                 customHeaders,
	"http-invalid-tool-headers":           everyTool,
	"json-schema-ref-no-deref":            list,
	"json-schema-2020-12-preservation":    sendSchemaBack,
	"sep-2640-client-no-prefetch":         listSkills,
	"sep-2640-client-verify-digest":       loadSkill,
	"sep-2640-client-verify-size":         loadSkill,
	"sep-2640-client-verify-frontmatter":  loadSkill,
}

// tools lists all tools.
func (s *scene) tools(ctx context.Context) ([]mcp.Tool, error) {
	var all []mcp.Tool
	for t, err := range s.Tools(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

func list(ctx context.Context, s *scene) error {
	_, err := s.tools(ctx)
	return err
}

// call returns a scenario that lists the tools and calls one, if tool is not empty.
func call(tool string, arguments jsonrpc.Raw) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		if err := list(ctx, s); err != nil || tool == "" {
			return err
		}
		return s.call(ctx, tool, arguments)
	}
}

// call calls a tool. If the tool fails, the scenario fails.
func (s *scene) call(ctx context.Context, tool string, arguments any) error {
	r, err := s.CallTool(ctx, tool, arguments, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	if r.IsError {
		return fmt.Errorf("%s failed: %s", tool, r.Text())
	}
	fmt.Fprintf(s.log, "%s: %s\n", tool, r.Text())
	return nil
}

// withToken is the conversation that all scenarios of auth/ require.
func withToken(ctx context.Context, s *scene) error {
	return call("test-tool", jsonrpc.Raw(`{}`))(ctx, s)
}

func requestState(ctx context.Context, s *scene) error {
	if err := list(ctx, s); err != nil {
		return err
	}
	for _, tool := range []string{"test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_unrelated", "test_mrtr_no_result_type"} {
		if err := s.call(ctx, tool, jsonrpc.Raw(`{}`)); err != nil {
			return err
		}
	}
	return nil
}

// oneOfEach lists and uses a tool, a resource and a prompt.
func oneOfEach(ctx context.Context, s *scene) error {
	tools, err := s.tools(ctx)
	if err != nil {
		return err
	}
	for _, t := range tools[:min(len(tools), 1)] {
		if _, err := s.CallTool(ctx, t.Name, jsonrpc.Raw(`{}`), nil); err != nil {
			return err
		}
	}
	for r, err := range s.Resources(ctx) {
		if err != nil {
			return err
		}
		if _, err := s.ReadResource(ctx, r.URI, nil); err != nil {
			return err
		}
		break
	}
	for p, err := range s.Prompts(ctx) {
		if err != nil {
			return err
		}
		if _, err := s.GetPrompt(ctx, p.Name, nil, nil); err != nil {
			return err
		}
		break
	}
	return nil
}

// customHeaders makes the calls that the suite requests.
func customHeaders(ctx context.Context, s *scene) error {
	var asked struct {
		ToolCalls []struct {
			Name      string      `json:"name"`
			Arguments jsonrpc.Raw `json:"arguments"`
		} `json:"toolCalls"`
	}
	if err := s.context.Decode(&asked); err != nil {
		return fmt.Errorf("the suite's context: %w", err)
	}
	if err := list(ctx, s); err != nil {
		return err
	}
	for _, c := range asked.ToolCalls {
		if err := s.call(ctx, c.Name, c.Arguments); err != nil {
			return err
		}
	}
	return nil
}

// everyTool calls each tool whose headers are valid.
func everyTool(ctx context.Context, s *scene) error {
	tools, err := s.tools(ctx)
	if err != nil {
		return err
	}
	for _, t := range tools {
		if err := s.call(ctx, t.Name, jsonrpc.Raw(`{"region":"us-west1"}`)); err != nil {
			return err
		}
	}
	return nil
}

// sendSchemaBack sends the server the schema of its tool as received.
func sendSchemaBack(ctx context.Context, s *scene) error {
	tools, err := s.tools(ctx)
	if err != nil {
		return err
	}
	for _, t := range tools {
		if t.Name == "json_schema_2020_12_tool" {
			return s.call(ctx, "json_schema_echo", map[string]jsonrpc.Raw{"schema": t.InputSchema})
		}
	}
	return errors.New("there is no json_schema_2020_12_tool")
}

func listSkills(ctx context.Context, s *scene) error {
	_, err := s.ListSkills(ctx, nil)
	return err
}

// loadSkill loads the complete first skill. The suite has tampered with the skill, and expects that
// to be detected.
func loadSkill(ctx context.Context, s *scene) error {
	skills, err := s.ListSkills(ctx, nil)
	if err != nil {
		return err
	}
	for i := range skills.Skills {
		skill := &skills.Skills[i]
		if _, err := s.ReadSkillFile(ctx, skill, skill.URI); err != nil {
			return err
		}
		for _, file := range skill.Resources {
			if _, err := s.ReadSkillFile(ctx, skill, file.URI); err != nil {
				return err
			}
		}
	}
	return nil
}
