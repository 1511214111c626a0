package main

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// What the server asks the user: on a terminal one field after the other, elsewhere by --answer, or it is declined. Nothing waits for
// a person who is not there.

// interactive reports whether somebody can be asked.
func (v *mcpVerb) interactive() bool {
	return isTerminal(v.app.stdin) && isTerminal(v.app.stderr)
}

// errNoMore ends a dialogue: the input is over, or the call is.
type errNoMore struct{}

func (errNoMore) Error() string { return "there is nobody to ask" }

// typed reads one line of the terminal. It gives up when ctx ends; the goroutine that reads ends with the process.
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

// elicit answers elicitation/create.
func (v *mcpVerb) elicit(ctx context.Context, e *mcp.Elicitation) (*mcp.ElicitResult, error) {
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
	v.tell("", v.serverName()+" asks: "+e.Message)
	if len(fields) > 0 {
		fmt.Fprintln(v.app.stderr, "Enter takes what is in brackets, Ctrl-D declines.")
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

// maxQuestion bounds what is shown of a question, in bytes.
const maxQuestion = 4_000

// tell writes text to stderr in lines that fit, and nothing in it that could steer a terminal.
func (v *mcpVerb) tell(indent, text string) {
	b := &listing{width: min(textWidth, widthOf(v.app.stderr)-1)}
	for line := range strings.Lines(cut(text, maxQuestion)) {
		b.wrap(indent, line)
	}
	fmt.Fprint(v.app.stderr, b.String())
}

func (v *mcpVerb) serverName() string {
	if v.client == nil {
		return "the server"
	}
	info := v.client.ServerInfo()
	return visible(orElse(info.Title, orElse(info.Name, "the server")), 60)
}

// answerBlindly takes what --answer says, and declines when something is missing.
func (v *mcpVerb) answerBlindly(e *mcp.Elicitation, fields []field, given map[string]answer) (*mcp.ElicitResult, error) {
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

// An answer is what --answer says about a field.
type answer struct {
	text   string
	isJSON bool
}

func parseAnswers(words []string) (map[string]answer, error) {
	given := make(map[string]answer)
	for _, word := range words {
		parts := named.FindStringSubmatch(word)
		if parts == nil {
			return nil, usagef("--answer is FIELD=VALUE, not %q", cut(word, 60))
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
		return nil, fmt.Errorf("%q is no JSON: %w", cut(a.text, 60), err)
	}
	return value, nil
}

// fill asks for one field after the other.
func (v *mcpVerb) fill(ctx context.Context, fields []field, given map[string]answer) (jsonrpc.Raw, error) {
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

func (v *mcpVerb) fillOne(ctx context.Context, f *field, given map[string]answer) (jsonrpc.Raw, error) {
	if said, ok := given[f.name]; ok {
		return said.value(f)
	}
	standard := memberOf(f.schema, "default")
	prompt := visible(orElse(f.text("title"), f.name), 80)
	if about := f.text("description"); about != "" {
		prompt += ", " + visible(about, 200)
	}
	if !f.required && standard == nil {
		prompt += " (may stay empty)"
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

// confirm asks once more before anything is sent.
func (v *mcpVerb) confirm(ctx context.Context) error {
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

// visit asks whether the user wants to go to a URL, which is shown whole and opened by nobody but the user.
func (v *mcpVerb) visit(ctx context.Context, e *mcp.Elicitation) (*mcp.ElicitResult, error) {
	v.screen.line(v.serverName() + " asks you to visit a page: " + visible(e.Message, 400))
	v.screen.line("  " + visible(e.URL, 4000))
	if v.decline || !v.interactive() {
		v.screen.line("  (declined: nobody is here to go there)")
		return &mcp.ElicitResult{Action: mcp.ActionDecline}, nil
	}
	defer v.screen.ask()()
	fmt.Fprint(v.app.stderr, "  Will you? Open it in a browser first. [y/N] ")
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

// errRejected is the answer to a question for the model that nobody wants to answer (MCP 2025-11-25, Sampling).
var errRejected = &jsonrpc.Error{Code: mcp.CodeRejected, Message: "User rejected sampling request"}

// model answers sampling/createMessage: the user is the model.
func (v *mcpVerb) model(ctx context.Context, q *mcp.SamplingRequest) (*mcp.SamplingResult, error) {
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
		fmt.Fprintf(v.app.stderr, "\n%s asks your model:\n", v.serverName())
		if q.SystemPrompt != "" {
			v.tell("  ", "(system) "+q.SystemPrompt)
		}
		for _, m := range q.Messages {
			for _, block := range m.Content {
				v.tell("  ", "("+string(m.Role)+") "+orElse(block.Text, "["+block.Kind+"]"))
			}
		}
		fmt.Fprint(v.app.stderr, "Answer as the model; an empty line declines.\n> ")
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
		return object // a name that came as JSON is UTF-8
	}
	return append(append(append(object, key...), ':'), value...)
}

// A choice is one value that a field may have.
type choice struct {
	value jsonrpc.Raw
	title string
}

// text is the choice for people.
func (c *choice) text() string {
	return orElse(c.title, orElse(textOf(c.value), string(c.value)))
}

// choicesOf finds the choices of a field in all the ways that the revisions have for them.
func choicesOf(schema jsonrpc.Raw) []choice {
	if items := memberOf(schema, "items"); items != nil {
		schema = items
	}
	var list []choice
	for _, member := range []string{"oneOf", "anyOf"} {
		if titled := memberOf(schema, member); kind(titled) == '[' {
			for one := range elements(titled) {
				if value := memberOf(one, "const"); value != nil {
					list = append(list, choice{value, textOf(memberOf(one, "title"))})
				}
			}
		}
	}
	var titles []string
	if names := memberOf(schema, "enumNames"); names != nil {
		_ = names.Decode(&titles) // or there are none
	}
	if values := memberOf(schema, "enum"); kind(values) == '[' {
		i := 0
		for value := range elements(values) {
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

// shown is a value of the field for people.
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

// bounds tells what a field takes.
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
		parts = append(parts, "several with a comma between")
	}
	if format := f.text("format"); format != "" {
		parts = append(parts, visible(format, 40))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// read makes a value of what somebody typed.
func (f *field) read(text string) (jsonrpc.Raw, error) {
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
		return nil, fmt.Errorf("yes or no, please")
	case "integer", "number":
		return f.readNumber(strings.TrimSpace(text))
	}
	n := int64(utf8.RuneCountInString(text))
	if least := f.number("minLength"); least != nil && n < least.Num().Int64() {
		return nil, fmt.Errorf("at least %s letters, please", least.RatString())
	}
	if most := f.number("maxLength"); most != nil && n > most.Num().Int64() {
		return nil, fmt.Errorf("at most %s letters, please", most.RatString())
	}
	return quote(text)
}

func (f *field) readNumber(text string) (jsonrpc.Raw, error) {
	value, err := jsonrpc.ParseRaw([]byte(text))
	if err != nil || len(value) > 40 || kind(value) != '-' && (kind(value) < '0' || kind(value) > '9') {
		return nil, fmt.Errorf("%q is no number", cut(text, 40))
	}
	n, ok := new(big.Rat).SetString(string(value))
	switch least, most := f.number("minimum"), f.number("maximum"); {
	case !ok:
		return nil, fmt.Errorf("%q is no number", cut(text, 40))
	case f.text("type") == "integer" && !n.IsInt():
		return nil, fmt.Errorf("a whole number, please")
	case least != nil && n.Cmp(least) < 0:
		return nil, fmt.Errorf("at least %s, please", least.RatString())
	case most != nil && n.Cmp(most) > 0:
		return nil, fmt.Errorf("at most %s, please", most.RatString())
	}
	return value, nil
}

// number is a member that is a number; nil for all others, and for one so long that it would cost.
func (f *field) number(member string) *big.Rat {
	value := memberOf(f.schema, member)
	if value == nil || len(value) > 20 || strings.ContainsAny(string(value), "eE\"") {
		return nil
	}
	n, ok := new(big.Rat).SetString(string(value))
	if !ok {
		return nil
	}
	return n
}

// readChoice takes the value, the title or the number of a choice.
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
	return nil, fmt.Errorf("one of the %d choices, please", len(choices))
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
