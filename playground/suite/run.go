package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/internal/x/secret"
	"github.com/da1ed7bb/parley/internal/x/similar"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground/internal/schemaview"
)

// defaultTimeout is how long a call waits for its response if neither the file nor the options set
// a time.
const defaultTimeout = time.Minute

// Options configure a run. The zero value runs all calls without an environment.
type Options struct {
	Environment string // the environment of the suite
	// Variables replace all others. A text for a variable whose value in the file is a number, a
	// list or the like is read as JSON, if it is JSON.
	Variables Values
	Only      []string      // runs only calls whose names contain one of these texts, or match one with *
	Target    string        // replaces all targets
	Timeout   time.Duration // of each call, before that of the file; 0 for that of the file
	Bail      bool          // skips the calls after one that did not pass

	// Lookup returns an environment variable. If nil, os.LookupEnv is used.
	Lookup func(name string) (string, bool)
}

// A Run is a suite that is ready to run: its environment is chosen and its variables have values.
type Run struct {
	suite  *Suite
	o      Options
	calls  []prepared
	hidden *secret.Set
	shared Values // of the suite and its environment
	env    []string

	progress func(done, total int, name string)
	done     func(r *CallReport)
}

// A prepared call has a target. Its variables are filled in when it runs.
type prepared struct {
	*Call
	target string
}

// Prepare chooses an environment and the calls, and checks that every variable will have a value.
// Environment variables, as ${NAME} in the values of variables, targets and headers, are expanded
// as in configuration files (see [config.Expand]). Nothing is sent. The error is an [*Error], or
// several that are joined.
func (s *Suite) Prepare(o *Options) (*Run, error) {
	r := &Run{suite: s, hidden: secret.New(nil)}
	if o != nil {
		r.o = *o
	}
	environment, err := s.environment(r.o.Environment)
	if err != nil {
		return nil, err
	}
	var errs []error
	expand := func(values Values) Values {
		out := make(Values)
		for name, v := range values {
			expanded, err := r.expand(v)
			if err != nil {
				errs = append(errs, &Error{File: s.File, Text: fmt.Sprintf("variable %s: %v", name, err)})
			}
			out[name] = expanded
		}
		r.hide(out)
		return out
	}
	r.shared = expand(merge(s.Variables, environment))
	r.hide(r.o.Variables)
	for _, pair := range s.Env {
		name, _, found := strings.Cut(pair, "=")
		if !found || name == "" {
			errs = append(errs, &Error{File: s.File, Text: fmt.Sprintf("env: %q is not NAME=VALUE", harmless.Shorten(pair, 60))})
		}
		v, err := r.expand(TextValue(pair))
		if err != nil {
			errs = append(errs, &Error{File: s.File, Text: fmt.Sprintf("env: %s: %v", name, err)})
		}
		if secret.Name(name) {
			r.hidden.Add(strings.TrimPrefix(v.Text, name+"="))
		}
		r.env = append(r.env, v.Text)
	}
	captured := make(map[string]bool)
	for i := range s.Calls {
		c := s.Calls[i] // a copy
		if !r.selected(c.Name) {
			continue
		}
		c.Variables = expand(c.Variables)
		c.Headers = append(slices.Clone(s.Headers), c.Headers...)
		for j, h := range c.Headers {
			if h.Value != nil {
				v, err := r.expand(TextValue(*h.Value))
				if err != nil {
					errs = append(errs, &Error{File: s.File, Line: c.Line, Column: 1, Text: fmt.Sprintf("call %q: header %s: %v", c.Name, h.Name, err)})
				}
				c.Headers[j].Value = &v.Text
			}
		}
		c.Answers = mergeAnswers(s.Answers, c.Answers)
		p := prepared{Call: &c}
		values := merge(r.shared, c.Variables, r.o.Variables)
		if p.target, err = r.target(&c, values); err != nil {
			errs = append(errs, err)
		}
		if c.Skip == "" {
			for _, name := range used(append(c.texts(), p.target)...) {
				if _, known := values[name]; !known && !captured[name] {
					errs = append(errs, s.missing(&c, name, append(slices.Collect(maps.Keys(values)), slices.Collect(maps.Keys(captured))...)))
				}
			}
			for _, capture := range c.Capture {
				captured[capture.Name] = true
			}
		}
		r.calls = append(r.calls, p)
	}
	if len(r.calls) == 0 && errs == nil {
		names := make([]string, 0, len(s.Calls))
		for _, c := range s.Calls {
			names = append(names, c.Name)
		}
		errs = append(errs, &Error{File: s.File, Text: fmt.Sprintf("no call matches %s; the calls are %s", harmless.Shorten(strings.Join(r.o.Only, ", "), 100), harmless.Shorten(strings.Join(names, ", "), 300))})
	}
	if errs != nil {
		return nil, errors.Join(errs[:min(len(errs), maxFaults)]...)
	}
	return r, nil
}

// environment returns the variables of an environment.
func (s *Suite) environment(name string) (Values, error) {
	if name == "" {
		return nil, nil
	}
	values, ok := s.Environments[name]
	if ok {
		return values, nil
	}
	known := slices.Sorted(maps.Keys(s.Environments))
	text := fmt.Sprintf("there is no environment %q", harmless.Shorten(name, 60))
	switch near := similar.Names(name, known); {
	case len(known) == 0:
		text += ": the file has no environments"
	case len(near) > 0:
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	default:
		text += "; the file has " + harmless.Shorten(strings.Join(known, ", "), 300)
	}
	return nil, &Error{File: s.File, Text: text}
}

// missing returns the error for a variable without a value.
func (s *Suite) missing(c *Call, name string, known []string) error {
	text := fmt.Sprintf("call %q: the variable %s has no value", c.Name, name)
	i := slices.IndexFunc(s.Calls, func(other Call) bool {
		return slices.ContainsFunc(other.Capture, func(x Capture) bool { return x.Name == name })
	})
	near := similar.Names(name, known)
	switch {
	case i >= 0:
		text += fmt.Sprintf(": it is captured by the call %q, which does not run before it", s.Calls[i].Name)
	case len(near) > 0:
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	default:
		text += ": add it to variables or to the environment, or use --var " + name + "=VALUE"
	}
	return &Error{File: s.File, Line: c.Line, Column: 1, Text: text}
}

// expand replaces the environment variables of a value.
func (r *Run) expand(v Value) (Value, error) {
	if len(v.JSON) == 0 || v.JSON[0] != '"' || !strings.Contains(v.Text, "${") {
		return v, nil
	}
	text, secrets, err := config.Expand(v.Text, &config.ExpandOptions{Lookup: r.o.Lookup, Dir: filepath.Dir(r.suite.File)})
	if err != nil {
		return v, err
	}
	r.hidden.Add(secrets...)
	return TextValue(text), nil
}

// hide hides the values of variables that are secrets: by their names, or as the file lists them.
func (r *Run) hide(values Values) {
	for name, v := range values {
		if secret.Name(name) || slices.Contains(r.suite.Secrets, name) {
			r.hidden.Add(v.Text)
		}
	}
}

// Progress sets the function that is called before each call, with the number of those that are
// done, and after the last one.
func (r *Run) Progress(f func(done, total int, name string)) { r.progress = f }

// Done sets the function that is called after each call.
func (r *Run) Done(f func(r *CallReport)) { r.done = f }

// Hide removes more values from reports.
func (r *Run) Hide(values ...string) { r.hidden.Add(values...) }

// Secrets returns the values that reports do not contain.
func (r *Run) Secrets() []string { return r.hidden.Values() }

// Uses reports whether a call of the suite, also one that is not selected, uses a variable, or the
// file gives it a value.
func (s *Suite) Uses(name string) bool {
	groups := append(slices.Collect(maps.Values(s.Environments)), s.Variables)
	for i := range s.Calls {
		groups = append(groups, s.Calls[i].Variables)
		if slices.Contains(used(append(s.Calls[i].texts(), s.Target)...), name) {
			return true
		}
	}
	for _, h := range s.Headers {
		if h.Value != nil && slices.Contains(used(*h.Value), name) {
			return true
		}
	}
	return slices.ContainsFunc(groups, func(v Values) bool { _, ok := v[name]; return ok })
}

// VariableNames returns the names of the variables that the calls use, each once.
func (s *Suite) VariableNames() (names []string) {
	for i := range s.Calls {
		for _, name := range used(append(s.Calls[i].texts(), s.Target)...) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// selected reports whether Options.Only selects a call.
func (r *Run) selected(name string) bool {
	return len(r.o.Only) == 0 || slices.ContainsFunc(r.o.Only, func(pattern string) bool {
		if strings.ContainsRune(pattern, '*') {
			// A slash in a name is no separator.
			ok, err := path.Match(strings.ReplaceAll(strings.ToLower(pattern), "/", "\x00"), strings.ReplaceAll(strings.ToLower(name), "/", "\x00"))
			return ok && err == nil
		}
		return strings.Contains(strings.ToLower(name), strings.ToLower(pattern))
	})
}

// target returns the target of a call.
func (r *Run) target(c *Call, values Values) (string, error) {
	text := cmp.Or(r.o.Target, c.Target, r.suite.Target)
	switch {
	case text == "" && len(r.suite.Command) > 0:
		return r.suite.CommandTarget(), nil
	case text == "":
		return "", &Error{File: r.suite.File, Line: c.Line, Column: 1, Text: fmt.Sprintf("call %q has no target: add target to the file, or use --target", c.Name)}
	}
	if r.o.Target != "" {
		return text, nil
	}
	v, err := r.expand(TextValue(fillText(text, values)))
	if err != nil {
		return "", &Error{File: r.suite.File, Line: c.Line, Column: 1, Text: fmt.Sprintf("call %q: target: %v", c.Name, err)}
	}
	return v.Text, nil
}

// CommandTarget is the name of the target that is the suite's own command.
func (s *Suite) CommandTarget() string { return "-- " + strings.Join(s.Command, " ") }

// Env returns the environment variables of the suite's command, expanded.
func (r *Run) Env() []string { return r.env }

// Targets returns the targets of the calls, each once.
func (r *Run) Targets() (list []string) {
	for _, c := range r.calls {
		if c.Skip == "" && !slices.Contains(list, c.target) {
			list = append(list, c.target)
		}
	}
	return list
}

func mergeAnswers(a, b Answers) Answers {
	all := maps.Clone(a)
	if all == nil {
		all = make(Answers)
	}
	maps.Copy(all, b)
	return all
}

// Run runs the calls, one after the other. It ends early if ctx ends: the calls that are left are
// skipped.
func (r *Run) Run(ctx context.Context, sender Sender) *Report {
	report := &Report{File: r.suite.File, Name: r.suite.Name, Environment: r.o.Environment, Calls: []CallReport{}}
	began := time.Now()
	captured := make(Values)
	closed := make(map[string]string) // targets that could not be opened, and why
	stop := ""
	for i, c := range r.calls {
		if r.progress != nil {
			r.progress(i, len(r.calls), c.Name)
		}
		out := CallReport{Name: c.Name, Target: r.hidden.Address(c.target), Line: c.Line, Asserts: []AssertReport{}}
		why := cmp.Or(stop, c.Skip)
		if text, ok := closed[c.target]; ok && why == "" {
			why = "the target cannot be used: " + text
		}
		if ctx.Err() != nil {
			why = "the run was cancelled"
		}
		if why != "" {
			out.Outcome, out.Why = Skipped, why
		} else {
			fault := r.call(ctx, sender, c, captured, &out)
			if fault != nil && fault.Closed {
				closed[c.target] = r.hidden.Address(fault.Text)
			}
			if r.o.Bail && (out.Outcome == Failed || out.Outcome == Faulty) {
				stop = fmt.Sprintf("the call %q did not pass (--bail)", c.Name)
			}
		}
		report.add(out)
		if r.done != nil {
			r.done(&out)
		}
	}
	if r.progress != nil {
		r.progress(len(r.calls), len(r.calls), "")
	}
	report.Seconds = float64(time.Since(began).Milliseconds()) / 1000
	return report
}

// typed returns the variables of Options, with the types that the file gives them.
func (r *Run) typed(known Values) Values {
	out := make(Values)
	for name, v := range r.o.Variables {
		if old, ok := known[name]; ok && len(old.JSON) > 0 && old.JSON[0] != '"' && len(v.JSON) > 0 && v.JSON[0] == '"' {
			if raw, err := jsonrpc.ParseRaw([]byte(v.Text)); err == nil {
				v = ValueOf(raw)
			}
		}
		out[name] = v
	}
	return out
}

// call runs one call and fills in its report.
func (r *Run) call(ctx context.Context, sender Sender, c prepared, captured Values, out *CallReport) *SendError {
	known := merge(r.shared, captured, c.Variables)
	values := merge(known, r.typed(known))
	out.Outcome = Passed
	for _, name := range used(c.texts()...) {
		if _, ok := values[name]; !ok {
			out.Outcome, out.Why = Skipped, "the variable "+name+" was not captured"
			return nil
		}
	}
	request, asserts, err := c.fill(values, c.target)
	if err != nil {
		out.Outcome, out.Why = Faulty, r.hidden.Address(err.Error())
		return nil
	}
	for name, list := range request.Header {
		if secret.Header(name) {
			r.hidden.Add(list...)
		}
	}
	limit := cmp.Or(r.o.Timeout, c.Timeout, r.suite.Timeout, defaultTimeout)
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	reply, err := sender.Send(within, request)
	if reply == nil {
		reply = &Reply{Sent: request.Text}
	}
	out.Milliseconds = float64(reply.Time.Microseconds()) / 1000
	defer func() { r.show(reply, out) }()
	if err != nil {
		fault, ok := errors.AsType[*SendError](err)
		switch {
		case ctx.Err() != nil:
			fault = &SendError{Kind: Interrupted, Text: "cancelled"}
		case !ok && within.Err() != nil, ok && fault.Kind == TimedOut:
			closed := ok && fault.Closed
			fault = &SendError{Kind: TimedOut, Text: fmt.Sprintf("no response within %s (timeout)", limit), Closed: closed}
		case !ok:
			fault = &SendError{Kind: Unreachable, Text: err.Error()}
		}
		if len(reply.Unanswered) > 0 {
			fault.Text += fmt.Sprintf("; the server called %s, for which the file has no answers", strings.Join(reply.Unanswered, ", "))
		}
		out.Outcome, out.Kind, out.Why = Faulty, fault.Kind, r.hidden.Address(fault.Text)
		return fault
	}
	r.judge(ctx, asserts, reply, out)
	r.store(ctx, c.Capture, reply, captured, out)
	return nil
}

// fill fills the variables into a call.
func (c *Call) fill(values Values, target string) (*Request, []Assert, error) {
	request := &Request{Target: target, Method: fillText(c.Method, values), Params: fillJSON(c.Params, values), Notify: c.Notify, Answers: make(Answers)}
	if c.Method == "" {
		request.Text = []byte(fillText(c.Text, values))
	}
	headers := slices.Clone(c.Headers)
	for i, h := range headers {
		if h.Value != nil {
			text := fillText(*h.Value, values)
			headers[i].Value = &text
		}
	}
	var err error
	if request.Header, err = HeaderOf(headers); err != nil {
		return nil, nil, err
	}
	for method, result := range c.Answers {
		request.Answers[method] = fillJSON(result, values)
	}
	asserts := slices.Clone(c.Asserts)
	for i := range asserts {
		asserts[i].Path = fillText(asserts[i].Path, values)
		asserts[i].Value = fillJSON(asserts[i].Value, values)
	}
	return request, asserts, nil
}

// Request returns the message of a call and its assertions with variables filled in. Variables
// without a value are left as they are. The error is a [*HeaderError].
func (c *Call) Request(values Values) (*Request, []Assert, error) {
	return c.fill(values, fillText(c.Target, values))
}

// Message returns the text of a call, made of its method and params if it has no text.
func (c *Call) Message() string {
	if c.Text != "" || c.Method == "" {
		return c.Text
	}
	dst := []byte(`{"jsonrpc":"2.0",`)
	if !c.Notify {
		dst = append(dst, `"id":1,`...)
	}
	dst = jsonrpc.AppendString(append(dst, `"method":`...), c.Method)
	if c.Params != nil {
		dst = append(append(dst, `,"params":`...), c.Params...)
	}
	return string(append(dst, '}'))
}

// judge checks the assertions. If none is about the response, an error response fails the call.
func (r *Run) judge(ctx context.Context, asserts []Assert, reply *Reply, out *CallReport) {
	about := false
	results, ok := HoldAll(ctx, asserts, reply)
	for i, one := range results {
		a := asserts[i]
		p, err := readPath(a.Path)
		private := false
		if err == nil {
			about = about || p.ofResponse()
			private = secret.Name(p.name())
		}
		shown := AssertReport{Path: r.hidden.Address(a.Path), OK: one.OK, Expected: a.Is}
		switch {
		case len(a.Value) == 0:
		case private:
			shown.Expected += " " + secret.Hidden
		default:
			shown.Expected += " " + string(r.hidden.JSON(a.Value))
		}
		switch {
		case one.Why != "":
			shown.Received = r.hidden.Address(one.Why)
		case one.Got == nil:
			shown.Received = "nothing"
		case a.Is == "count" && size(one.Got) >= 0:
			shown.Received = strconv.Itoa(size(one.Got))
		case private:
			shown.Received = secret.Hidden
		default:
			shown.Received = harmless.Shorten(string(r.hidden.JSON(one.Got)), maxShown)
		}
		out.Asserts = append(out.Asserts, shown)
	}
	if !ok {
		out.Outcome = Failed
		return
	}
	if !about {
		if why := failure(jsonrpc.Raw(reply.Response)); why != "" {
			out.Outcome, out.Why = Failed, r.hidden.Address(why)
			if isUnauthorized(reply.Response) {
				out.Outcome, out.Kind = Faulty, Unauthorized
			}
		}
	}
}

// isUnauthorized reports whether a response is the error for missing credentials.
func isUnauthorized(response jsonrpc.Raw) bool {
	code := schemaview.LastMember(schemaview.LastMember(response, "error"), "code")
	return string(code) == strconv.FormatInt(jsonrpc.CodeUnauthorized, 10)
}

// failure returns why a response is no success, or "".
func failure(response jsonrpc.Raw) string {
	if len(response) > 0 && response[0] == '[' {
		for one := range response.Elements() {
			if why := failure(one); why != "" {
				return why
			}
		}
		return ""
	}
	if fault := schemaview.LastMember(response, "error"); fault != nil && string(fault) != "null" {
		return fmt.Sprintf("the response is the error %s: %s", schemaview.LastMember(fault, "code"), harmless.Shorten(ValueOf(schemaview.LastMember(fault, "message")).Text, 300))
	}
	result := schemaview.LastMember(response, "result")
	if string(schemaview.LastMember(result, "isError")) == "true" {
		text := ""
		for block := range schemaview.LastMember(result, "content").Elements() {
			text = cmp.Or(text, ValueOf(schemaview.LastMember(block, "text")).Text)
		}
		return strings.TrimSuffix("the tool failed: "+harmless.Shorten(text, 300), ": ")
	}
	return ""
}

// store captures values of the reply.
func (r *Run) store(ctx context.Context, list []Capture, reply *Reply, captured Values, out *CallReport) {
	for _, c := range list {
		p, err := readPath(c.Path)
		var value jsonrpc.Raw
		if err == nil {
			value, err = p.find(ctx, reply)
		}
		if err == nil && value == nil {
			err = fmt.Errorf("there is no value at %s", c.Path)
		}
		if err != nil {
			delete(captured, c.Name)
			if out.Outcome == Passed {
				out.Outcome, out.Why = Failed, r.hidden.Address(fmt.Sprintf("%s was not captured: %v", c.Name, err))
			}
			continue
		}
		v := ValueOf(value.Clone())
		captured[c.Name] = v
		if secret.Name(c.Name) || secret.Name(p.name()) || slices.Contains(r.suite.Secrets, c.Name) {
			r.hidden.Add(v.Text)
		}
	}
}

// repeat returns the command that runs one call of the suite.
func (r *Run) repeat(name string) string {
	line := "parley test " + shellWord(r.suite.File) + " --only " + shellWord(name)
	if r.o.Environment != "" {
		line += " --env " + shellWord(r.o.Environment)
	}
	if command, ok := strings.CutPrefix(r.o.Target, "-- "); ok {
		return line + " -- " + command
	} else if r.o.Target != "" {
		line += " --target " + shellWord(r.o.Target)
	}
	return line
}

// shellWord quotes a word for a POSIX shell, if necessary.
func shellWord(word string) string {
	if word != "" && strings.IndexFunc(word, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./:=@,", c))
	}) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// maxShown limits a value in a report, in bytes.
const maxShown = 4 << 10

// show adds the messages to the report of a call, without secrets.
func (r *Run) show(reply *Reply, out *CallReport) {
	out.Sent = harmless.Shorten(string(r.hidden.JSON(reply.Sent)), maxShown)
	out.Received = harmless.Shorten(string(r.hidden.JSON(reply.Response)), maxShown)
	out.Repeat = harmless.Shorten(r.hidden.Address(cmp.Or(reply.Command, r.repeat(out.Name))), 4*maxShown)
	out.Notifications = len(reply.Notifications)
}
