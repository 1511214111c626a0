package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
)

func (a *app) mcpCall() *cobra.Command {
	var data string
	var asTask bool
	cmd, v := a.mcpVerbCommand(&cobra.Command{
		Use:   "call TARGET TOOL [NAME=VALUE…]",
		Short: "call a tool and print what it answers",
		Long: `Call a tool and print what it answers.

  parley mcp call :3000/mcp calculator/divide a:=1 b:=3
  parley mcp call :3000/mcp book-table restaurant="Zur Linde" guests:=4 --answer name=Ada
  parley mcp call kitchen/cook dish=risotto --trace -- parley demo --mcp --stdio

Arguments have names: k=text is a string, k:=json a value, k=@file and k:=@file are read from a file; one word that is a
JSON object, or -d, is all of them. Without -o, text is printed as text and structure as JSON; -o json is the whole
answer, -o raw the bytes of the content. A tool that failed is exit code 5, and what it says goes to stderr.`,
	}, -1, func(ctx context.Context, v *mcpVerb, words []string) error {
		return callTool(ctx, v, words, data, asTask)
	})
	v.asking(cmd)
	cmd.Flags().StringVarP(&data, "data", "d", "", "arguments as one `JSON` object, @file or - for stdin")
	cmd.Flags().BoolVar(&asTask, "task", false, "ask a server of 2025-11-25 to make the call a task; newer ones decide themselves")
	cmd.ValidArgsFunction = a.completeMCP(v, completeToolCall, false)
	return cmd
}

// taskTime is how long a task that was asked for shall be kept.
const taskTime = time.Hour

func callTool(ctx context.Context, v *mcpVerb, words []string, data string, asTask bool) error {
	if len(words) == 0 {
		return usagef("which tool? It stands behind the address: parley mcp call %s TOOL", v.target)
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
	for _, err := range v.client.Tools(ctx) { // their schemas say which headers a call has and what an answer looks like
		if err != nil {
			break // the call itself will tell
		}
	}
	result, err := v.client.CallTool(ctx, name, arguments, options)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	v.screen.clear()
	if result.IsError {
		return v.toolFailed(ctx, name, arguments, result)
	}
	return v.printResult(ctx, result)
}

// callOptions tell how far a call has come.
func (v *mcpVerb) callOptions() *mcp.CallOptions {
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

// arguments makes the arguments of a tool: of words by name, of one word that is an object, or of -d.
func (a *app) arguments(words []string, data string) (jsonrpc.Raw, error) {
	if data != "" {
		if len(words) > 0 {
			return nil, usagef("-d holds the arguments already; the word %q is one too many", cut(words[0], 60))
		}
		content, err := a.readData(data)
		if err != nil {
			return nil, err
		}
		value, err := jsonrpc.ParseRaw(content)
		if err != nil {
			return nil, usagef("-d: %q is no JSON: %v", cut(strings.TrimSpace(string(content)), 60), err)
		}
		if kind(value) != '{' {
			return nil, usagef("-d: arguments are an object, such as {\"a\":1}")
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
		return nil, usagef("the arguments of a tool have names: write name=%s, or name:=%s for what is JSON", cut(words[0], 40), cut(words[0], 40))
	}
	return params, nil
}

// toolFailed tells what a tool says that failed. The forms for programs get the whole result nevertheless.
func (v *mcpVerb) toolFailed(ctx context.Context, name string, arguments jsonrpc.Raw, result *mcp.ToolResult) error {
	if v.output.format != formText {
		if err := v.printResult(ctx, result); err != nil {
			return err
		}
	}
	text := strings.TrimSpace(result.Text())
	if text == "" {
		text = "the tool failed and does not say why"
	}
	v.screen.line("parley: " + visible(name, 100) + ": " + string(appendHarmless(nil, []byte(strings.ToValidUTF8(text, "\uFFFD")))))
	if hint := v.textForNumbers(ctx, name, arguments); hint != "" {
		v.screen.line("parley: " + hint)
	}
	return &silentError{exitTool}
}

// textForNumbers finds arguments that are text where the tool wants a number, which is easily typed so.
func (v *mcpVerb) textForNumbers(ctx context.Context, name string, arguments jsonrpc.Raw) string {
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
					return fmt.Sprintf("%s=%s is text; %s:=%s is a %s", f.name, cut(given, 40), f.name, cut(given, 40), f.typeName())
				}
			}
		}
	}
	return ""
}

// printResult prints what a tool answered.
func (v *mcpVerb) printResult(ctx context.Context, r *mcp.ToolResult) error {
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

// printText prints a result for people: text as it is, structure as JSON, and of all other things what they are. Structure
// that is also a block of text is printed once.
func (v *mcpVerb) printText(ctx context.Context, r *mcp.ToolResult) error {
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

// sameJSON reports whether a text is the same JSON value, written in whatever way.
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
func (v *mcpVerb) printBlock(c mcp.Content) error {
	text := ""
	switch {
	case c.Kind == mcp.KindText:
		text = c.Text
	case c.Kind == mcp.KindImage, c.Kind == mcp.KindAudio:
		text = fmt.Sprintf("[%s, %s; -o raw gives the bytes]", c.MIMEType, bytesOf(len(c.Data)))
	case c.Kind == mcp.KindResource && c.Resource != nil:
		text = contentsText(c.Resource)
	case c.Kind == mcp.KindLink && c.Link != nil:
		text = strings.TrimRight("→ "+c.Link.URI+"  "+orElse(c.Link.Title, c.Link.Name), " ")
	default:
		text = "[" + c.Kind + "]"
	}
	return v.printLines(text)
}

// printLines prints text with a newline behind it, and nothing in it that could steer a terminal.
func (v *mcpVerb) printLines(text string) error {
	out := []byte(text)
	if v.printer.terminal {
		out = appendHarmless(nil, []byte(strings.ToValidUTF8(text, "\uFFFD")))
	}
	_, err := v.printer.w.Write(append([]byte(strings.TrimRight(string(out), "\n")), '\n'))
	return err
}

func contentsText(r *mcp.ResourceContents) string {
	if r.Blob != nil {
		return fmt.Sprintf("[%s, %s, %s; -o raw gives the bytes]", r.URI, orElse(r.MIMEType, "bytes"), bytesOf(len(r.Blob)))
	}
	return r.Text
}

// printBytes prints the content alone: text with a newline behind it, bytes as they are.
func (v *mcpVerb) printBytes(blocks []mcp.Content) error {
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

// writeBytes writes what is no text, but not onto a terminal.
func (v *mcpVerb) writeBytes(data []byte) error {
	if v.printer.terminal {
		return usagef("%s of bytes would garble the terminal; send them to a file: > FILE", bytesOf(len(data)))
	}
	_, err := v.printer.w.Write(data)
	return err
}

func (a *app) mcpRead() *cobra.Command {
	cmd, v := a.mcpVerbCommand(&cobra.Command{
		Use:   "read TARGET URI",
		Short: "read a resource",
		Long: `Read a resource and print what it holds.

  parley mcp read :3000/mcp weather://sun/Oslo
  parley mcp read :3000/mcp weather://cities --jq '.contents[0].uri'
  parley mcp read clock://now -- parley demo --mcp --stdio

Text is printed as text; -o json is the whole answer, -o raw the bytes.`,
	}, 1, readResource)
	v.asking(cmd)
	v.uris = true
	cmd.ValidArgsFunction = a.completeMCP(v, completeURIs, false)
	return cmd
}

func readResource(ctx context.Context, v *mcpVerb, words []string) error {
	if len(words) == 0 {
		return usagef("which resource? Its URI stands behind the address: parley mcp read %s URI", v.target)
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
	cmd, v := a.mcpVerbCommand(&cobra.Command{
		Use:   "get TARGET PROMPT [NAME=TEXT…]",
		Short: "fill in a prompt",
		Long: `Fill in a prompt and print its messages.

  parley mcp get :3000/mcp plan-evening city=Oslo
  parley mcp get :3000/mcp plan-evening city=Oslo restaurant="Zur Linde" guests=4
  parley mcp get explain-error code=-32602 -- parley demo --mcp --stdio`,
	}, -1, getPrompt)
	v.asking(cmd)
	cmd.ValidArgsFunction = a.completeMCP(v, completePrompt, false)
	return cmd
}

func getPrompt(ctx context.Context, v *mcpVerb, words []string) error {
	if len(words) == 0 {
		return usagef("which prompt? It stands behind the address: parley mcp get %s PROMPT", v.target)
	}
	arguments, err := v.app.textArguments(words[1:])
	if err != nil {
		return err
	}
	result, err := v.client.GetPrompt(ctx, words[0], arguments, v.callOptions())
	if err != nil {
		return fmt.Errorf("%s: %w", words[0], err)
	}
	v.screen.clear()
	switch v.output.format {
	case formText:
		for _, m := range result.Messages {
			v.screen.line(string(m.Role) + ":")
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

// textArguments are arguments that are all strings.
func (a *app) textArguments(words []string) (map[string]string, error) {
	if len(words) == 0 {
		return nil, nil
	}
	raw, err := a.arguments(words, "")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, value := range members(raw) {
		var key string
		if err := name.Decode(&key); err != nil {
			return nil, err
		}
		if kind(value) == '"' {
			out[key] = textOf(value)
		} else { // a prompt's arguments are strings: 4 is "4"
			out[key] = string(appendCompact(nil, value, palette{}))
		}
	}
	return out, nil
}

func (a *app) mcpComplete() *cobra.Command {
	cmd, v := a.mcpVerbCommand(&cobra.Command{
		Use:   "complete TARGET PROMPT|TEMPLATE ARGUMENT [TEXT] [NAME=TEXT…]",
		Short: "ask what an argument could be",
		Long: `Ask the server what an argument of a prompt, or a variable of a URI template, could be.

  parley mcp complete :3000/mcp plan-evening city be
  parley mcp complete :3000/mcp plan-evening restaurant "" city=Oslo
  parley mcp complete :3000/mcp 'weather://sun/{city}' city to`,
	}, -1, completeArgument)
	v.uris = true
	cmd.ValidArgsFunction = a.completeMCP(v, nil, false)
	return cmd
}

func completeArgument(ctx context.Context, v *mcpVerb, words []string) error {
	if len(words) < 2 {
		return usagef("which argument? parley mcp complete %s PROMPT ARGUMENT [TEXT]", v.target)
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
			v.screen.line("there are more")
		}
		return nil
	}
	if v.output.format == "json" {
		return v.printJSON(ctx, result)
	}
	return v.printJSON(ctx, result.Values)
}

// referenceTo is a prompt by name, or a template when it looks like a URI.
func referenceTo(word string) mcp.Reference {
	if strings.Contains(word, ":") || strings.Contains(word, "{") {
		return mcp.Reference{Type: mcp.RefResource, URI: word}
	}
	return mcp.Reference{Type: mcp.RefPrompt, Name: word}
}

// errEnough ends a listening of so many changes.
var errEnough = errors.New("heard enough")

// fileURI is a path as a file: URI.
func fileURI(path string) string {
	path = strings.ReplaceAll(path, `\`, "/")
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/…
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}
