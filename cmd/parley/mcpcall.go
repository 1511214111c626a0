package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
)

func (a *app) mcpCall() *cobra.Command {
	var data string
	var asTask bool
	cmd, v := a.mcpSubcommand(&cobra.Command{
		Use:   "call TARGET TOOL [NAME=VALUE…]",
		Short: "call a tool and print its result",
		Long: `Call a tool and print its result.

  parley mcp call :3000/mcp calculator/divide a:=1 b:=3
  parley mcp call :3000/mcp book-table restaurant="Zur Linde" guests:=4 --answer name=Ada
  parley mcp call kitchen/cook dish=risotto --trace -- parley demo --mcp --stdio

Arguments have names: k=text is a string, k:=json any JSON value; k=@file and k:=@file read the
value from a file. A single JSON object, or -d, gives all arguments. By default, text is printed as
text and structured content as JSON; -o json prints the whole result, -o raw the bytes of the
content. If the tool fails, its message goes to stderr and the exit code is 5.`,
	}, -1, func(ctx context.Context, v *mcpCommand, words []string) error {
		return callTool(ctx, v, words, data, asTask)
	})
	v.asking(cmd)
	cmd.Flags().StringVarP(&data, "data", "d", "", "arguments as one `JSON` object, @file or - for stdin")
	cmd.Flags().BoolVar(&asTask, "task", false, "request a task from a server of 2025-11-25; newer servers decide themselves")
	cmd.ValidArgsFunction = a.completeMCP(v, completeToolCall, false)
	return cmd
}

// taskTime is the requested retention time of a task.
const taskTime = time.Hour

func callTool(ctx context.Context, v *mcpCommand, words []string, data string, asTask bool) error {
	if len(words) == 0 {
		return usagef("missing TOOL. Usage: parley mcp call %s TOOL [NAME=VALUE…]", v.target)
	}
	name := words[0]
	arguments, err := v.app.arguments(words[1:], data)
	if err != nil {
		return err
	}
	options := v.callOptions()
	if asTask {
		options.TaskTTL = taskTime
	}
	// Their schemas define the headers of a call and the form of its result.
	for _, err := range v.client.Tools(ctx) {
		if err != nil {
			break // the call itself reports the error
		}
	}
	result, err := v.client.CallTool(ctx, name, arguments, options)
	if err != nil {
		return v.nameHint(ctx, name, err, func(ctx context.Context) ([]string, error) {
			all, err := collect(v.client.Tools(ctx))
			return toolNames(all), err
		})
	}
	v.screen.clear()
	if result.IsError {
		return v.toolFailed(ctx, name, arguments, result)
	}
	return v.printResult(ctx, result)
}

// nameHint adds a suggestion to the error of a call if the server has no tool or prompt with the
// name.
func (v *mcpCommand) nameHint(ctx context.Context, name string, err error, list func(context.Context) ([]string, error)) error {
	named := fmt.Errorf("%s: %w", name, err)
	if !is[*jsonrpc.Error](err) || ctx.Err() != nil {
		return named
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	names, failed := list(ctx)
	if failed != nil || slices.Contains(names, name) {
		return named
	}
	return &hintedError{named, didYouMean(name, names)}
}

// callOptions returns options that display the progress of a call.
func (v *mcpCommand) callOptions() *mcp.CallOptions {
	var last mcp.TaskStatus
	o := &mcp.CallOptions{
		Progress: func(p mcp.Progress) {
			v.patience.renew()
			v.screen.progress(p.Progress, p.Total, p.Message)
		},
		OnTask: func(t *mcp.Task) {
			v.patience.renew()
			if t.Status == last && t.StatusMessage == "" {
				return
			}
			last = t.Status
			v.screen.line(strings.TrimRight(fmt.Sprintf("task %s: %s %s", visible(t.ID, 60), t.Status, visible(t.StatusMessage, 200)), " "))
		},
	}
	if v.log != "none" {
		o.Log = v.heard
	}
	return o
}

// arguments returns the arguments of a tool: from name=value words, from one word that is an
// object, or from -d.
func (a *app) arguments(words []string, data string) (jsonrpc.Raw, error) {
	if data != "" {
		if len(words) > 0 {
			return nil, usagef("-d already has the arguments; remove %q", cut(words[0], 60))
		}
		content, err := a.readData(data)
		if err != nil {
			return nil, err
		}
		value, err := jsonrpc.ParseRaw(content)
		if err != nil {
			return nil, usagef("-d: %q is not JSON: %v", cut(strings.TrimSpace(string(content)), 60), err)
		}
		if kind(value) != '{' {
			return nil, usagef("-d: arguments must be an object, such as {\"a\":1}")
		}
		return value, nil
	}
	if len(words) == 1 {
		if value, err := jsonrpc.ParseRaw([]byte(words[0])); err == nil && kind(value) == '{' {
			return value, nil
		}
	}
	params, err := a.parseParams(words)
	if err != nil {
		return nil, err
	}
	if kind(params) == '[' {
		return nil, usagef("the arguments of a tool have names: use name=%s, or name:=%s for a JSON value", cut(words[0], 40), cut(words[0], 40))
	}
	return params, nil
}

// toolFailed reports the text of a failed tool. Machine-readable formats still get the whole
// result.
func (v *mcpCommand) toolFailed(ctx context.Context, name string, arguments jsonrpc.Raw, result *mcp.ToolResult) error {
	if v.output.format != formText {
		if err := v.printResult(ctx, result); err != nil {
			return err
		}
	}
	text := strings.TrimSpace(result.Text())
	if text == "" {
		text = "the tool failed without a message"
	}
	if v.app.jsonErrors {
		v.app.complainAs(errors.New(name+": "+text), exitTool)
		return &silentError{exitTool}
	}
	v.screen.line("parley: " + visible(name, 100) + ": " + harmless.Block(text))
	if hint := v.textForNumbers(ctx, name, arguments); hint != "" {
		v.screen.line("parley: " + hint)
	}
	return &silentError{exitTool}
}

// textForNumbers returns a hint about arguments that are strings where the tool expects numbers, a
// common typing mistake.
func (v *mcpCommand) textForNumbers(ctx context.Context, name string, arguments jsonrpc.Raw) string {
	for t, err := range v.client.Tools(ctx) {
		if err != nil {
			return ""
		}
		if t.Name != name {
			continue
		}
		for _, f := range fieldsOf(t.InputSchema) {
			given := textOf(memberOf(arguments, f.name))
			switch f.typeName() {
			case "number", "integer", "boolean", "object":
				if _, err := jsonrpc.ParseRaw([]byte(given)); err == nil {
					return fmt.Sprintf("%s=%s is a string; use %s:=%s for type %s", f.name, cut(given, 40), f.name, cut(given, 40), f.typeName())
				}
			}
		}
	}
	return ""
}

// printResult prints the result of a tool.
func (v *mcpCommand) printResult(ctx context.Context, r *mcp.ToolResult) error {
	switch v.output.format {
	case formText:
		return v.printText(ctx, r)
	case "raw":
		return v.printBytes(r.Content)
	case "ndjson":
		return v.printJSON(ctx, r.Content)
	case "table":
		if r.Structured != nil {
			return v.printer.print(ctx, r.Structured)
		}
		return v.printJSON(ctx, r.Content)
	}
	return v.printJSON(ctx, r)
}

// printText prints a result for people: text unchanged, structured content as JSON, and
// descriptions of everything else. Structured content that is also a text block is printed once.
func (v *mcpCommand) printText(ctx context.Context, r *mcp.ToolResult) error {
	told := false
	for _, block := range r.Content {
		if r.Structured != nil && block.Kind == mcp.KindText && sameJSON(jsonrpc.Raw(block.Text), r.Structured) {
			continue
		}
		told = true
		if err := v.printBlock(block); err != nil {
			return err
		}
	}
	if r.Structured == nil || told && kind(r.Structured) != '{' && kind(r.Structured) != '[' {
		return nil
	}
	return v.printer.print(ctx, r.Structured)
}

// sameJSON reports whether text is the same JSON value as value, regardless of formatting.
func sameJSON(text, value jsonrpc.Raw) bool {
	parsed, err := jsonrpc.ParseRaw(text)
	if err != nil {
		return false
	}
	var a, b any
	return parsed.Decode(&a) == nil && value.Decode(&b) == nil && equalJSON(a, b)
}

func equalJSON(a, b any) bool {
	x, errX := json.Marshal(a, json.Deterministic(true))
	y, errY := json.Marshal(b, json.Deterministic(true))
	return errX == nil && errY == nil && string(x) == string(y)
}

// printBlock prints one block of content for people.
func (v *mcpCommand) printBlock(c mcp.Content) error {
	text := ""
	switch {
	case c.Kind == mcp.KindText:
		text = c.Text
	case c.Kind == mcp.KindImage, c.Kind == mcp.KindAudio:
		text = fmt.Sprintf("[%s, %s; use -o raw to get the bytes]", c.MIMEType, bytesOf(len(c.Data)))
	case c.Kind == mcp.KindResource && c.Resource != nil:
		text = contentsText(c.Resource)
	case c.Kind == mcp.KindLink && c.Link != nil:
		text = strings.TrimRight("→ "+c.Link.URI+"  "+orElse(c.Link.Title, c.Link.Name), " ")
	default:
		text = "[" + c.Kind + "]"
	}
	return v.printLines(text)
}

// printLines prints text and a newline, without anything that could control a terminal.
func (v *mcpCommand) printLines(text string) error {
	return v.printer.peer(text)
}

func contentsText(r *mcp.ResourceContents) string {
	if r.Blob != nil {
		return fmt.Sprintf("[%s, %s, %s; use -o raw to get the bytes]", r.URI, orElse(r.MIMEType, "bytes"), bytesOf(len(r.Blob)))
	}
	return r.Text
}

// printBytes prints the content alone: text with a newline, and binary data unchanged.
func (v *mcpCommand) printBytes(blocks []mcp.Content) error {
	for _, c := range blocks {
		switch {
		case c.Kind == mcp.KindResource && c.Resource != nil && c.Resource.Blob != nil:
			if err := v.writeBytes(c.Resource.Blob); err != nil {
				return err
			}
		case c.Kind == mcp.KindImage, c.Kind == mcp.KindAudio:
			if err := v.writeBytes(c.Data); err != nil {
				return err
			}
		default:
			if err := v.printBlock(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeBytes writes binary data, but not to a terminal.
func (v *mcpCommand) writeBytes(data []byte) error {
	if v.printer.terminal {
		return usagef("not printing %s of binary data to the terminal; redirect it to a file: > FILE", bytesOf(len(data)))
	}
	_, err := v.printer.w.Write(data)
	return err
}

func (a *app) mcpRead() *cobra.Command {
	cmd, v := a.mcpSubcommand(&cobra.Command{
		Use:   "read TARGET URI",
		Short: "read a resource",
		Long: `Read a resource and print its contents.

  parley mcp read :3000/mcp weather://sun/Oslo
  parley mcp read :3000/mcp weather://cities --jq '.contents[0].uri'
  parley mcp read clock://now -- parley demo --mcp --stdio

Text is printed as text; -o json prints the whole result, -o raw the bytes.`,
	}, 1, readResource)
	v.asking(cmd)
	v.uris = true
	cmd.ValidArgsFunction = a.completeMCP(v, completeURIs, false)
	return cmd
}

func readResource(ctx context.Context, v *mcpCommand, words []string) error {
	if len(words) == 0 {
		return usagef("missing URI. Usage: parley mcp read %s URI", v.target)
	}
	result, err := v.client.ReadResource(ctx, words[0], v.callOptions())
	if err != nil {
		return fmt.Errorf("%s: %w", words[0], err)
	}
	v.screen.clear()
	switch v.output.format {
	case formText:
		for i := range result.Contents {
			if err := v.printLines(contentsText(&result.Contents[i])); err != nil {
				return err
			}
		}
		return nil
	case "raw":
		for _, c := range result.Contents {
			if err := v.printBytes([]mcp.Content{mcp.Embed(c)}); err != nil {
				return err
			}
		}
		return nil
	case "ndjson", "table":
		return v.printJSON(ctx, result.Contents)
	}
	return v.printJSON(ctx, result)
}

func (a *app) mcpGet() *cobra.Command {
	cmd, v := a.mcpSubcommand(&cobra.Command{
		Use:   "get TARGET PROMPT [NAME=TEXT…]",
		Short: "get a prompt with its arguments filled in",
		Long: `Get a prompt with its arguments filled in, and print its messages.

  parley mcp get :3000/mcp plan-evening city=Oslo
  parley mcp get :3000/mcp plan-evening city=Oslo restaurant="Zur Linde" guests=4
  parley mcp get explain-error code=-32602 -- parley demo --mcp --stdio`,
	}, -1, getPrompt)
	v.asking(cmd)
	cmd.ValidArgsFunction = a.completeMCP(v, completePrompt, false)
	return cmd
}

func getPrompt(ctx context.Context, v *mcpCommand, words []string) error {
	if len(words) == 0 {
		return usagef("missing PROMPT. Usage: parley mcp get %s PROMPT [NAME=TEXT…]", v.target)
	}
	arguments, err := v.app.textArguments(words[1:])
	if err != nil {
		return err
	}
	result, err := v.client.GetPrompt(ctx, words[0], arguments, v.callOptions())
	if err != nil {
		return v.nameHint(ctx, words[0], err, func(ctx context.Context) (names []string, err error) {
			for p, err := range v.client.Prompts(ctx) {
				if err != nil {
					return names, err
				}
				names = append(names, p.Name)
			}
			return names, nil
		})
	}
	v.screen.clear()
	switch v.output.format {
	case formText:
		for _, m := range result.Messages {
			v.screen.line(shownRole(m.Role) + ":")
			if err := v.printBlock(m.Content); err != nil {
				return err
			}
		}
		return nil
	case "raw":
		for _, m := range result.Messages {
			if err := v.printBytes([]mcp.Content{m.Content}); err != nil {
				return err
			}
		}
		return nil
	case "ndjson", "table":
		return v.printJSON(ctx, result.Messages)
	}
	return v.printJSON(ctx, result)
}

// textArguments returns arguments whose values are all strings.
func (a *app) textArguments(words []string) (map[string]string, error) {
	if len(words) == 0 {
		return nil, nil
	}
	raw, err := a.arguments(words, "")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, value := range raw.Members() {
		if kind(value) == '"' {
			out[string(name)] = textOf(value)
		} else { // a prompt's arguments are strings: 4 means "4"
			out[string(name)] = string(appendCompact(nil, value, palette{}))
		}
	}
	return out, nil
}

func (a *app) mcpComplete() *cobra.Command {
	cmd, v := a.mcpSubcommand(&cobra.Command{
		Use:   "complete TARGET PROMPT|TEMPLATE ARGUMENT [TEXT] [NAME=TEXT…]",
		Short: "request completions for an argument",
		Long: `Request completions from the server for an argument of a prompt or a variable of a URI template.

  parley mcp complete :3000/mcp plan-evening city be
  parley mcp complete :3000/mcp plan-evening restaurant "" city=Oslo
  parley mcp complete :3000/mcp 'weather://sun/{city}' city to`,
	}, -1, completeArgument)
	v.uris = true
	cmd.ValidArgsFunction = a.completeMCP(v, nil, false)
	return cmd
}

func completeArgument(ctx context.Context, v *mcpCommand, words []string) error {
	if len(words) < 2 {
		return usagef("missing ARGUMENT. Usage: parley mcp complete %s PROMPT ARGUMENT [TEXT]", v.target)
	}
	p := &mcp.CompleteParams{Ref: referenceTo(words[0]), Argument: mcp.CompleteArgument{Name: words[1]}}
	if len(words) > 2 {
		p.Argument.Value = words[2]
	}
	if len(words) > 3 {
		others, err := v.app.textArguments(words[3:])
		if err != nil {
			return err
		}
		p.Context = &mcp.CompleteContext{Arguments: others}
	}
	result, err := v.client.Complete(ctx, p)
	if err != nil {
		return fmt.Errorf("%s: %w", words[0], err)
	}
	if v.output.format == formText || v.output.format == "raw" {
		for _, value := range result.Values {
			if err := v.printLines(value); err != nil {
				return err
			}
		}
		if result.HasMore {
			v.screen.line("more values exist")
		}
		return nil
	}
	if v.output.format == "json" {
		return v.printJSON(ctx, result)
	}
	return v.printJSON(ctx, result.Values)
}

// referenceTo returns a reference to a prompt, or to a template if word looks like a URI.
func referenceTo(word string) mcp.Reference {
	if strings.Contains(word, ":") || strings.Contains(word, "{") {
		return mcp.Reference{Type: mcp.RefResource, URI: word}
	}
	return mcp.Reference{Type: mcp.RefPrompt, Name: word}
}

// errEnough ends listening after the requested number of changes.
var errEnough = errors.New("received enough changes")

// fileURI converts a path to a file: URI.
func fileURI(path string) string {
	path = strings.ReplaceAll(path, `\`, "/")
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/…
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}
