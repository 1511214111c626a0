package playground

import (
	"context"
	"encoding/base64"
	"slices"
	"unicode/utf8"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// addMethods adds the methods of the endpoint that the page calls. Methods that may wait for a
// person or a server are open: they have no deadline.
func (p *Playground) addMethods() {
	add := func(name string, h jsonrpc.Handler, mode ...jsonrpc.Mode) { p.mux.Add(name, h, mode...) }
	add("hello", jsonrpc.Func(p.hello))
	add("follow", jsonrpc.PeerFunc(p.follow), jsonrpc.Open)

	add("targets/list", jsonrpc.Func(p.listTargets))
	add("targets/open", jsonrpc.Func(p.apiOpen), jsonrpc.Open)
	add("targets/close", jsonrpc.Func(p.apiClose), jsonrpc.Open)
	add("targets/forget", jsonrpc.Func(p.apiForget), jsonrpc.Open)
	add("targets/set", jsonrpc.Func(p.apiSet))
	add("describe", jsonrpc.Func(p.describe), jsonrpc.Open)
	add("lint", jsonrpc.Func(p.apiLint))
	add("complete", jsonrpc.Func(p.apiComplete))

	add("send", jsonrpc.Func(p.apiSend), jsonrpc.Open)
	add("resend", jsonrpc.Func(p.apiResend), jsonrpc.Open)
	add("cancel", jsonrpc.Func(p.apiCancel), jsonrpc.Open)
	add("answer", jsonrpc.Func(p.apiAnswer), jsonrpc.Open)
	add("questions/take", jsonrpc.Func(p.apiTake))
	add("copy", jsonrpc.Func(p.apiCopy))
	add("history/list", jsonrpc.Func(p.apiHistory))

	add("wire/rows", jsonrpc.Func(p.wireRows))
	add("wire/select", jsonrpc.Func(p.wireSelect))
	add("wire/message", jsonrpc.Func(p.wireMessage))
	add("wire/exchange", jsonrpc.Func(p.wireExchange))
	add("wire/words", jsonrpc.Func(p.wireWords))
	add("session/list", jsonrpc.Func(p.sessionList))
	add("session/close", jsonrpc.Func(p.sessionClose))

	add("sessions/list", jsonrpc.Func(p.sessionsList))
	add("sessions/open", jsonrpc.Func(p.sessionsOpen))
	add("sessions/compare", jsonrpc.Func(p.sessionsCompare))

	add("config/list", jsonrpc.Func(p.configList))
	add("config/read", jsonrpc.Func(p.configRead))
	add("config/save", jsonrpc.Func(p.configSave))
	add("saved/list", jsonrpc.Func(p.savedList))
	add("saved/save", jsonrpc.Func(p.savedSave))
	add("saved/delete", jsonrpc.Func(p.savedDelete))
	add("saved/run", jsonrpc.Func(p.savedRun), jsonrpc.Open)
	add("saved/check", jsonrpc.Func(p.savedCheck), jsonrpc.Open)
	add("lessons/list", jsonrpc.Func(p.lessonsList))
	add("lessons/open", jsonrpc.Func(p.lessonsOpen))
	add("lessons/close", jsonrpc.Func(p.lessonsClose))
	add("lessons/check", jsonrpc.Func(p.lessonsCheck))

	add("agents/list", jsonrpc.Func(p.agentsList), jsonrpc.Open)
	add("agents/run", jsonrpc.PeerFunc(p.agentsRun), jsonrpc.Open)
	add("agents/answer", jsonrpc.Func(p.agentsAnswer))
	add("agents/cancel", jsonrpc.Func(p.agentsCancel))
	add("oauth/start", jsonrpc.PeerFunc(p.oauthStart), jsonrpc.Open)
	add("oauth/forget", jsonrpc.Func(p.oauthForget))
}

type none struct{}

type helloResult struct {
	Version   string         `json:"version"`
	Targets   []targetView   `json:"targets"`
	Questions []questionView `json:"questions"`
	Lessons   []lessonHead   `json:"lessons"`
	Saved     []string       `json:"saved"`
	Config    *ConfigView    `json:"config,omitzero"`
	Found     []ConfigView   `json:"found"`
	Logs      []logView      `json:"logs"`
	Limits    helloLimits    `json:"limits"`
	Keys      []string       `json:"keys"`
	Folder    string         `json:"folder"`
	Tap       *Tap           `json:"tap,omitzero"`
	Sessions  storedSessions `json:"sessions"`
}

type helloLimits struct {
	Message int `json:"message"`
}

func (p *Playground) hello(ctx context.Context, _ none) (helloResult, error) {
	configs, _ := p.configList(ctx, none{}) // never fails
	lessons, _ := p.lessonsList(ctx, none{})
	logs, _ := p.sessionList(ctx, none{})
	saved := []string{}
	if list, err := p.savedList(ctx, none{}); err == nil {
		for _, c := range list.Calls {
			saved = append(saved, c.Name)
		}
	}
	h := helloResult{
		Version: p.options.Version, Targets: p.targetViews(), Questions: p.questionViews(), Lessons: lessons.Lessons, Saved: saved,
		Found: configs.Found, Logs: logs.Logs, Limits: helloLimits{maxMessage}, Keys: capture.FilterKeys, Folder: p.options.Folder, Tap: p.options.Tap,
		Sessions: p.storedSessions(),
	}
	if configs.File != "" {
		h.Config = &configs.ConfigView
	}
	return h, nil
}

type targetsResult struct {
	Targets []targetView `json:"targets"`
}

func (p *Playground) listTargets(context.Context, none) (targetsResult, error) {
	return targetsResult{p.targetViews()}, nil
}

type targetName struct {
	Target string `json:"target"`
}

type openParams struct {
	Target    string        `json:"target,omitzero"`
	Protocol  string        `json:"protocol,omitzero"`
	Headers   []headerField `json:"headers,omitzero"`
	Token     string        `json:"token,omitzero"`
	Handshake *bool         `json:"handshake"`
	Version   string        `json:"version,omitzero"`
	// ID of a configuration from config/list or config/read
	Config string `json:"config,omitzero"`
	Name   string `json:"name,omitzero"` // name of an entry in that configuration
	Page   string `json:"page,omitzero"` // the tab that receives the server's questions
}

type targetResult struct {
	Target targetView `json:"target"`
}

func (p *Playground) apiOpen(ctx context.Context, in openParams) (targetResult, error) {
	header, err := headerOf(in.Headers)
	if err != nil {
		return targetResult{}, err
	}
	var t *target
	if in.Config != "" {
		t, err = p.fromConfig(in.Config, in.Name)
	} else {
		t, err = p.find(in.Target, in.Protocol)
	}
	if err != nil {
		return targetResult{}, err
	}
	var out *login
	p.mu.Lock()
	if header != nil {
		t.Header = header
	}
	if in.Token != "" {
		t.Token, out = in.Token, t.signOutLocked()
	}
	if in.Protocol != "" && t.From == FromPage {
		t.Protocol = in.Protocol
	}
	p.mu.Unlock()
	if out != nil {
		out.close()
	}
	o := openOptions{version: in.Version, silent: in.Handshake != nil && !*in.Handshake}
	l, err := p.openTarget(ctx, t, o)
	if err != nil {
		return targetResult{}, err
	}
	l.setPage(in.Page)
	p.changes.signal()
	return p.view(t), nil
}

func (p *Playground) view(t *target) targetResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	return targetResult{t.viewLocked()}
}

func (p *Playground) apiClose(_ context.Context, in targetName) (none, error) {
	p.closeTarget(in.Target)
	return none{}, nil
}

func (p *Playground) apiForget(_ context.Context, in targetName) (none, error) {
	p.mu.Lock()
	t := p.targets[in.Target]
	if t == nil || t.From != FromPage {
		p.mu.Unlock()
		return none{}, badParam("/target", "only targets that were added on the page can be removed")
	}
	p.mu.Unlock()
	p.closeTarget(in.Target)
	p.mu.Lock()
	var out *login
	if p.targets[in.Target] == t {
		out = t.signOutLocked()
		delete(p.targets, in.Target)
		p.order = deleteFunc(p.order, func(name string) bool { return name == in.Target })
	}
	p.changes.signal()
	p.mu.Unlock()
	if out != nil {
		out.close()
	}
	return none{}, nil
}

type setParams struct {
	Target  string         `json:"target"`
	Headers *[]headerField `json:"headers"`
	Token   *string        `json:"token"`
	Auto    *[]string      `json:"auto"`
	Roots   *[]jsonrpc.Raw `json:"roots"`
}

func (p *Playground) apiSet(_ context.Context, in setParams) (targetResult, error) {
	t, err := p.find(in.Target, "")
	if err != nil {
		return targetResult{}, err
	}
	var out *login
	defer func() {
		if out != nil {
			out.close()
		}
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	if in.Headers != nil {
		header, err := headerOf(*in.Headers)
		if err != nil {
			return targetResult{}, err
		}
		for name, values := range header {
			if was := t.Header[name]; len(was) > 0 && slices.Equal(values, []string{masked}) {
				header[name] = was // the page has only seen the masked value
			}
		}
		t.Header = header
	}
	if in.Token != nil {
		t.Token, out = *in.Token, t.signOutLocked() // the typed token replaces a sign-in
	}
	if in.Auto != nil {
		t.auto = *in.Auto
	}
	if in.Roots != nil {
		t.roots = nil
		for _, r := range *in.Roots {
			t.roots = append(t.roots, r.Clone())
		}
	}
	p.hideSecrets(t.Target)
	if l := t.link; l != nil {
		l.mu.Lock()
		l.spec.Header, l.spec.Token = t.Header, t.Token
		l.mu.Unlock()
	}
	p.changes.signal()
	return targetResult{t.viewLocked()}, nil
}

// A bytesParam holds bytes as the page sends them: as text, or in base64 if they are not valid
// UTF-8.
type bytesParam struct {
	Text   string `json:"text,omitzero"`
	Base64 []byte `json:"base64,omitzero"`
}

func (b *bytesParam) bytes() []byte {
	if b.Base64 != nil {
		return b.Base64
	}
	return []byte(b.Text)
}

// textOrBase64 is the inverse of [bytesParam]: it returns payload as text, or in base64.
func textOrBase64(payload []byte) (text, encoded string) {
	if utf8.Valid(payload) {
		return string(payload), ""
	}
	return "", base64.StdEncoding.EncodeToString(payload)
}

// followParams contains the revision that the page has already, and whether it accepts short rows
// (see short.go).
type followParams struct {
	Since int64  `json:"since,omitzero"`
	Log   string `json:"log,omitzero"`
	Short bool   `json:"short,omitzero"`
}

type followResult struct {
	Next int64 `json:"next"`
}

// isExec reports whether opening a target would start a program.
func isExec(t parley.Target) bool {
	return len(t.Argv) > 0 || t.Scheme == "exec" || t.Scheme == "stdio"
}
