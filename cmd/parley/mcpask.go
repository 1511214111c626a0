package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/schema"
	"github.com/da1ed7bb/parley/mcp"
)

// Requests of the server to the user are answered on a terminal one field after another, elsewhere
// by --answer, or they are declined. Nothing waits for a user who is absent.

// interactive reports whether the user can be asked.
func (v *mcpCommand) interactive() bool {
	return isTerminal(v.app.stdin) && isTerminal(v.app.stderr)
}

// errNoMore ends a dialogue because the input or the call has ended.
type errNoMore struct{}

func (errNoMore) Error() string { return "no more input" }

// typed reads one line of the terminal. It returns when ctx ends; the reading goroutine ends with
// the process.
func (a *app) typed(ctx context.Context) (string, error) {
	if a.lines == nil {
		a.lines = make(chan string)
		go func() {
			defer close(a.lines)
			for r := bufio.NewScanner(a.stdin); r.Scan(); {
				a.lines <- r.Text()
			}
		}()
	}
	select {
	case line, ok := <-a.lines:
		if !ok {
			return "", errNoMore{}
		}
		return line, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// elicit handles elicitation/create.
func (v *mcpCommand) elicit(ctx context.Context, e *mcp.Elicitation) (*mcp.ElicitResult, error) {
	v.question.Lock()
	defer v.question.Unlock()
	defer v.patience.pause()()
	v.screen.clear()
	if e.Mode == mcp.ElicitURL {
		return v.visit(ctx, e)
	}
	fields := fieldsOf(e.RequestedSchema)
	if v.decline {
		v.screen.line("the server asks: " + visible(e.Message, 400) + " (declined)")
		return &mcp.ElicitResult{Action: mcp.ActionDecline}, nil
	}
	given, err := parseAnswers(v.answers)
	if err != nil {
		return nil, err
	}
	if !v.interactive() {
		return v.answerBlindly(e, fields, given)
	}
	defer v.screen.ask()()
	fmt.Fprintln(v.app.stderr)
	v.app.question(v.serverName()+" asks:", e.Message)
	if len(fields) > 0 {
		fmt.Fprintln(v.app.stderr, "Press Enter for the default in brackets, Ctrl-D to decline.")
	}
	content, err := v.fill(ctx, fields, given)
	if err == nil {
		err = v.confirm(ctx)
	}
	if is[errNoMore](err) {
		fmt.Fprintln(v.app.stderr, "declined")
		return &mcp.ElicitResult{Action: mcp.ActionDecline}, nil
	}
	if err != nil {
		return nil, err
	}
	return &mcp.ElicitResult{Action: mcp.ActionAccept, Content: content}, nil
}

// maxQuestion is the maximum length of a displayed question, in bytes.
const maxQuestion = 4_000

// question prints a question of a peer on stderr after our own words, in lines that fit.
func (a *app) question(ours, text string) {
	b := &listing{width: min(textWidth, widthOf(a.stderr)-1)}
	b.question(ours, text)
	fmt.Fprint(a.stderr, b.String())
}

func (v *mcpCommand) serverName() string {
	if v.client == nil {
		return "the server"
	}
	info := v.client.ServerInfo()
	return label(orElse(info.Title, orElse(info.Name, "the server")), 60)
}

// answerBlindly answers with the values of --answer, and declines if one is missing.
func (v *mcpCommand) answerBlindly(e *mcp.Elicitation, fields []field, given map[string]answer) (*mcp.ElicitResult, error) {
	content := []byte{'{'}
	var missing []string
	for _, f := range fields {
		said, ok := given[f.name]
		if !ok {
			if f.required && memberOf(f.schema, "default") == nil {
				missing = append(missing, f.name)
			}
			continue
		}
		value, err := said.value(&f)
		if err != nil {
			return nil, usagef("--answer %s: %v", f.name, err)
		}
		content = appendMember(content, f.name, value)
	}
	note := "the server asks: " + visible(e.Message, 400)
	if len(given) == 0 && len(fields) > 0 || len(missing) > 0 {
		for i, name := range missing {
			missing[i] = "--answer " + visible(name, 60) + "=…"
		}
		if missing == nil {
			missing = []string{"--answer FIELD=VALUE"}
		}
		v.screen.line(note + " (declined; " + strings.Join(missing, " ") + " would answer)")
		return &mcp.ElicitResult{Action: mcp.ActionDecline}, nil
	}
	content = append(content, '}')
	v.screen.line(note + " (answered " + visible(string(content), 200) + ")")
	return &mcp.ElicitResult{Action: mcp.ActionAccept, Content: content}, nil
}

// An answer is the value that --answer has for a field.
type answer struct {
	text   string
	isJSON bool
}

func parseAnswers(words []string) (map[string]answer, error) {
	given := make(map[string]answer)
	for _, word := range words {
		parts := named.FindStringSubmatch(word)
		if parts == nil {
			return nil, usagef("--answer must be FIELD=VALUE, not %q", cut(word, 60))
		}
		given[parts[1]] = answer{parts[3] + parts[4], parts[2] == ":="}
	}
	return given, nil
}

func (a answer) value(f *field) (jsonrpc.Raw, error) {
	if !a.isJSON {
		return f.read(a.text)
	}
	value, err := jsonrpc.ParseRaw([]byte(a.text))
	if err != nil {
		return nil, fmt.Errorf("%q is not JSON: %w", cut(a.text, 60), err)
	}
	return value, nil
}

// fill asks for one field after another.
func (v *mcpCommand) fill(ctx context.Context, fields []field, given map[string]answer) (jsonrpc.Raw, error) {
	content := []byte{'{'}
	for _, f := range fields {
		value, err := v.fillOne(ctx, &f, given)
		if err != nil {
			return nil, err
		}
		if value != nil {
			content = appendMember(content, f.name, value)
		}
	}
	return append(content, '}'), nil
}

func (v *mcpCommand) fillOne(ctx context.Context, f *field, given map[string]answer) (jsonrpc.Raw, error) {
	if said, ok := given[f.name]; ok {
		return said.value(f)
	}
	standard := memberOf(f.schema, "default")
	prompt := label(orElse(f.text("title"), f.name), 80)
	if about := f.text("description"); about != "" {
		prompt += ", " + visible(about, 200)
	}
	if !f.required && standard == nil {
		prompt += " (optional)"
	}
	fmt.Fprintf(v.app.stderr, "\n  %s%s\n", prompt, f.bounds())
	choices := choicesOf(f.schema)
	for i, c := range choices {
		fmt.Fprintf(v.app.stderr, "    %d  %s\n", i+1, visible(c.text(), 120))
	}
	for {
		fmt.Fprint(v.app.stderr, "  ")
		if standard != nil {
			fmt.Fprintf(v.app.stderr, "[%s] ", visible(f.shown(standard), 80))
		}
		fmt.Fprint(v.app.stderr, "> ")
		line, err := v.app.typed(ctx)
		if err != nil {
			return nil, err
		}
		switch {
		case line == "" && standard != nil:
			return standard, nil
		case line == "" && !f.required:
			return nil, nil
		}
		value, err := f.read(line)
		if err == nil {
			return value, nil
		}
		fmt.Fprintf(v.app.stderr, "  %s\n", visible(err.Error(), 200))
	}
}

// confirm asks for a confirmation before anything is sent.
func (v *mcpCommand) confirm(ctx context.Context) error {
	for {
		fmt.Fprint(v.app.stderr, "\n  Send this? [Y/n] ")
		line, err := v.app.typed(ctx)
		if err != nil {
			return err
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "", "y", "yes":
			fmt.Fprintln(v.app.stderr)
			return nil
		case "n", "no":
			return errNoMore{}
		}
	}
}

// visit asks whether the user wants to open a URL. The URL is shown in full, and only the user
// opens it.
func (v *mcpCommand) visit(ctx context.Context, e *mcp.Elicitation) (*mcp.ElicitResult, error) {
	v.screen.line(v.serverName() + " asks you to visit a page: " + visible(e.Message, 400))
	v.screen.line("  " + visible(e.URL, 4000))
	if v.decline || !v.interactive() {
		v.screen.line("  (declined: no terminal)")
		return &mcp.ElicitResult{Action: mcp.ActionDecline}, nil
	}
	defer v.screen.ask()()
	fmt.Fprint(v.app.stderr, "  Open the URL in a browser, then confirm. Continue? [y/N] ")
	line, err := v.app.typed(ctx)
	if is[errNoMore](err) {
		return &mcp.ElicitResult{Action: mcp.ActionDecline}, nil
	}
	if err != nil {
		return nil, err
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return &mcp.ElicitResult{Action: mcp.ActionAccept}, nil
	}
	return &mcp.ElicitResult{Action: mcp.ActionDecline}, nil
}

// errRejected is the response to a sampling request that the user declines (MCP 2025-11-25,
// Sampling).
var errRejected = &jsonrpc.Error{Code: mcp.CodeRejected, Message: "User rejected sampling request"}

// model handles sampling/createMessage: the user answers in place of the model.
func (v *mcpCommand) model(ctx context.Context, q *mcp.SamplingRequest) (*mcp.SamplingResult, error) {
	v.question.Lock()
	defer v.question.Unlock()
	defer v.patience.pause()()
	v.screen.clear()
	text := v.sample
	if v.decline {
		return nil, errRejected
	}
	if text == "" {
		defer v.screen.ask()()
		fmt.Fprintf(v.app.stderr, "\n%s requests an LLM completion:\n", v.serverName())
		if q.SystemPrompt != "" {
			v.app.question("  (system)", q.SystemPrompt)
		}
		for _, m := range q.Messages {
			for _, block := range m.Content {
				v.app.question("  ("+shownRole(m.Role)+")", orElse(block.Text, "["+block.Kind+"]"))
			}
		}
		fmt.Fprint(v.app.stderr, "Write the model's answer; an empty line declines.\n> ")
		line, err := v.app.typed(ctx)
		if is[errNoMore](err) || err == nil && strings.TrimSpace(line) == "" {
			fmt.Fprintln(v.app.stderr, "declined")
			return nil, errRejected
		}
		if err != nil {
			return nil, err
		}
		text = line
	}
	return &mcp.SamplingResult{Role: mcp.RoleAssistant, Content: mcp.Blocks{mcp.Text(text)}, Model: "parley-user", StopReason: "endTurn"}, nil
}

func appendMember(object []byte, name string, value jsonrpc.Raw) []byte {
	if len(object) > 1 {
		object = append(object, ',')
	}
	key, err := quote(name)
	if err != nil {
		return object // a name parsed from JSON is valid UTF-8
	}
	return append(append(append(object, key...), ':'), value...)
}

// A choice is one allowed value of a field.
type choice struct {
	value jsonrpc.Raw
	title string
}

// text returns the choice for display.
func (c *choice) text() string {
	return orElse(c.title, orElse(textOf(c.value), string(c.value)))
}

// choicesOf returns the choices of a field in every form that the protocol versions define.
func choicesOf(schema jsonrpc.Raw) []choice {
	if items := memberOf(schema, "items"); items != nil {
		schema = items
	}
	var list []choice
	for _, member := range []string{"oneOf", "anyOf"} {
		if titled := memberOf(schema, member); kind(titled) == '[' {
			for one := range titled.Elements() {
				if value := memberOf(one, "const"); value != nil {
					list = append(list, choice{value, textOf(memberOf(one, "title"))})
				}
			}
		}
	}
	var titles []string
	if names := memberOf(schema, "enumNames"); names != nil {
		_ = names.Decode(&titles) // titles are optional
	}
	if values := memberOf(schema, "enum"); kind(values) == '[' {
		i := 0
		for value := range values.Elements() {
			c := choice{value: value.Clone()}
			if i < len(titles) {
				c.title = titles[i]
			}
			list = append(list, c)
			i++
		}
	}
	return list
}

// shown returns a value of the field for display.
func (f *field) shown(value jsonrpc.Raw) string {
	for _, c := range choicesOf(f.schema) {
		if string(c.value) == string(value) {
			return c.text()
		}
	}
	switch string(value) {
	case "true":
		return "yes"
	case "false":
		return "no"
	}
	return orElse(textOf(value), string(appendCompact(nil, value, palette{})))
}

// bounds describes the values that a field accepts.
func (f *field) bounds() string {
	var parts []string
	for _, b := range []struct{ least, most, what string }{{"minLength", "maxLength", " letters"}, {"minimum", "maximum", ""}, {"minItems", "maxItems", " of them"}} {
		least, most := memberOf(f.schema, b.least), memberOf(f.schema, b.most)
		switch {
		case least != nil && most != nil:
			parts = append(parts, fmt.Sprintf("%s to %s%s", visible(string(least), 20), visible(string(most), 20), b.what))
		case least != nil:
			parts = append(parts, fmt.Sprintf("at least %s%s", visible(string(least), 20), b.what))
		case most != nil:
			parts = append(parts, fmt.Sprintf("at most %s%s", visible(string(most), 20), b.what))
		}
	}
	switch f.text("type") {
	case "boolean":
		parts = append(parts, "yes or no")
	case "integer":
		parts = append(parts, "a whole number")
	case "number":
		parts = append(parts, "a number")
	case "array":
		parts = append(parts, "several, separated by commas")
	}
	if format := f.text("format"); format != "" {
		parts = append(parts, visible(format, 40))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// read converts typed text to a value that the field accepts.
func (f *field) read(text string) (jsonrpc.Raw, error) {
	value, err := f.parse(text)
	if err != nil {
		return nil, err
	}
	return value, f.check(value)
}

// parse converts typed text to a value of the field's type.
func (f *field) parse(text string) (jsonrpc.Raw, error) {
	choices := choicesOf(f.schema)
	if f.text("type") == "array" {
		return readSeveral(choices, text)
	}
	if len(choices) > 0 {
		return readChoice(choices, text)
	}
	switch f.text("type") {
	case "boolean":
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "y", "yes", "true":
			return jsonrpc.Raw("true"), nil
		case "n", "no", "false":
			return jsonrpc.Raw("false"), nil
		}
		return nil, fmt.Errorf("enter yes or no")
	case "integer", "number":
		text = strings.TrimSpace(text)
		value, err := jsonrpc.ParseRaw([]byte(text))
		if err == nil {
			_, err = strconv.ParseFloat(string(value), 64) // also reports a number beyond the range of floats
		}
		if err != nil || len(value) > 40 {
			return nil, fmt.Errorf("%q is not a number", cut(text, 40))
		}
		return value, nil
	}
	return quote(text)
}

// check validates a value against the schema of the field. About a schema that cannot be compiled,
// the server decides.
func (f *field) check(value jsonrpc.Raw) error {
	s, err := schema.Compile(f.schema)
	if err != nil {
		return nil //nolint:nilerr // the server decides
	}
	invalid, ok := errors.AsType[*schema.InvalidError](s.Validate(context.Background(), value))
	if !ok {
		return nil
	}
	switch p := invalid.Problems[0]; p.Keyword {
	case "type":
		if slices.Contains(p.Want, "integer") {
			return errors.New("enter a whole number")
		}
		return errors.New("the value " + visible(p.Reason, 200))
	case "minimum":
		return errors.New("enter at least " + fraction(p.Want[0]))
	case "maximum":
		return errors.New("enter at most " + fraction(p.Want[0]))
	case "minLength":
		return errors.New("enter at least " + p.Want[0] + " characters")
	case "maxLength":
		return errors.New("enter at most " + p.Want[0] + " characters")
	default:
		return errors.New("the value " + visible(p.Reason, 200))
	}
}

// fraction returns a number in the form of a fraction, such as 1/2, if it is short enough for that.
func fraction(number string) string {
	if n, ok := new(big.Rat).SetString(number); ok && !strings.ContainsAny(number, "eE") {
		return n.RatString()
	}
	return number
}

// readChoice parses the value, the title or the number of a choice.
func readChoice(choices []choice, text string) (jsonrpc.Raw, error) {
	text = strings.TrimSpace(text)
	for _, c := range choices {
		if text == textOf(c.value) || text == string(c.value) || text != "" && strings.EqualFold(text, c.title) {
			return c.value, nil
		}
	}
	if i, err := strconv.Atoi(text); err == nil && i >= 1 && i <= len(choices) {
		return choices[i-1].value, nil
	}
	return nil, fmt.Errorf("choose one of the %d options", len(choices))
}

func readSeveral(choices []choice, text string) (jsonrpc.Raw, error) {
	out := []byte{'['}
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		value, err := readChoice(choices, part)
		if len(choices) == 0 {
			value, err = quote(strings.TrimSpace(part))
		}
		if err != nil {
			return nil, err
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, value...)
	}
	return append(out, ']'), nil
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
