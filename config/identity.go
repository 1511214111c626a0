package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/expr"
	"github.com/da1ed7bb/parley/internal/x/private"
)

const (
	maxTokens  = 10_000
	maxIssuers = 16
	maxGroups  = 100
)

// identity reads how callers prove who they are.
func (f *field) identity(g *Gateway) {
	r, at, before := f.r, f.member("identity"), f.r.found
	if r.hasIdentity = at != nil; !r.hasIdentity {
		return
	}
	if at.members("tokens", "oauth") {
		id := &Identity{}
		if t := at.member("tokens"); t != nil {
			id.Tokens = t.tokens(g)
		}
		if o := at.member("oauth"); o.members("issuers", "audience", "scopes", "groups") {
			id.OAuth = o.oauth()
		}
		if at.member("tokens") == nil && at.member("oauth") == nil {
			at.fail("has neither tokens nor oauth")
		}
		g.Identity = id
	}
	r.brokenIdentity = r.found > before
}

// oauth reads the authorization servers.
func (f *field) oauth() *OAuthIdentity {
	o := &OAuthIdentity{Audience: f.need("audience", false), Scopes: f.scopes()}
	if f.member("issuers") == nil {
		f.fail("has no issuers")
	}
	for i, at := range f.member("issuers").oneOrMore() {
		var issuer string
		if i == maxIssuers {
			at.fail("is one issuer too many: at most %d are allowed", maxIssuers)
			break
		}
		at.webAddress(&issuer)
		if slices.Contains(o.Issuers, issuer) && issuer != "" {
			at.fail("is in the list twice")
			continue
		}
		o.Issuers = append(o.Issuers, issuer)
	}
	if at := f.member("audience"); at != nil && o.Audience != "" {
		if u, err := url.Parse(o.Audience); err == nil && u.Fragment != "" {
			at.fail("must not have a fragment")
		}
	}
	for _, at := range f.member("groups").oneOrMore() {
		if text := at.expression(expr.ClaimNames); text != "" {
			o.Groups = append(o.Groups, text)
		}
	}
	return o
}

// tokens reads a file of tokens. Its problems have the name of that file.
func (f *field) tokens(g *Gateway) (list []Token) {
	var name string
	if f.file(&name); name == "" {
		return nil
	}
	g.Files = append(g.Files, name)
	text, err := f.r.options.readFile(name)
	if err != nil {
		f.fail("cannot be read: %v", reasonOf(err))
		return nil
	}
	if len(text) > maxFile {
		f.fail("has more than 1 MiB")
		return nil
	}
	own := &reader{file: &File{Name: name}, options: f.r.options, dir: f.r.dir}
	root, problems := languageOf(name, text).parse(text)
	own.file.Problems, own.found = problems, len(problems)
	if root != nil {
		list = (&field{own, &own.scratch, root, ""}).tokenList()
	}
	for _, p := range own.file.Problems {
		p.File = f.shownFile(name)
		f.r.record(p)
	}
	return list
}

// shownFile returns the name of a file that a member names, as people find it: relative to the
// working directory if the name of the configuration is.
func (f *field) shownFile(name string) string {
	if filepath.IsAbs(f.n.text) || filepath.IsAbs(f.r.file.Name) || strings.Contains(f.n.text, "${") {
		return name
	}
	return filepath.Join(filepath.Dir(f.r.file.Name), f.n.text)
}

var (
	tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$`)
	digest    = regexp.MustCompile(`^[0-9A-Fa-f]{64}$`)
)

// tokenList reads the content of a file of tokens.
func (f *field) tokenList() (list []Token) {
	if f.n.kind == isNull || f.n.kind == isList && len(f.n.items) == 0 {
		f.r.problem(0, 0, "", "lists no tokens")
		return nil
	}
	if f.n.kind != isList {
		f.fail("is %s, but must be a list of tokens: - {name: ci, sha256: …, groups: [robots]}", kindNames[f.n.kind])
		return nil
	}
	names, digests := make(map[string]int), make(map[[32]byte]int)
	for i, item := range f.n.items {
		at := &field{f.r, f.e, item, fmt.Sprintf("[%d]", i)}
		if i == maxTokens {
			at.fail("is one token too many: at most %d are allowed", maxTokens)
			break
		}
		if !at.members("name", "sha256", "groups") {
			continue
		}
		t := Token{Name: at.need("name", false)}
		if n := at.member("name"); n != nil && t.Name != "" {
			if !tokenName.MatchString(t.Name) {
				n.fail("%s is not a name for a token: use 1 to 64 letters, digits, ., _, @, + and -", n.shown())
			} else if line := names[t.Name]; line != 0 {
				n.fail("%s is also the name of the token on line %d", n.shown(), line)
			} else {
				names[t.Name] = n.n.line
			}
		}
		at.digest(&t, digests)
		for _, name := range at.member("groups").elements() {
			if len(t.Groups) == maxGroups {
				name.fail("is one group too many: at most %d are allowed", maxGroups)
				break
			}
			if text, ok := name.word(false); ok {
				t.Groups = append(t.Groups, text)
			}
		}
		list = append(list, t)
	}
	return list
}

// digest reads the digest of a token. Its problems do not show it, because it may be the token.
func (f *field) digest(t *Token, seen map[[32]byte]int) {
	at := f.member("sha256")
	if at == nil {
		f.fail("has no sha256: the digest of the token, as printf %%s TOKEN | sha256sum prints it")
		return
	}
	text := at.n.text
	if at.n.kind != isText && at.n.kind != isNumber || !digest.MatchString(text) {
		at.fail("is not a digest: use the 64 hexadecimal digits that printf %%s TOKEN | sha256sum prints, in quotes if all are digits")
		return
	}
	_, _ = hex.Decode(t.SHA256[:], []byte(text)) // digest has checked the text
	switch line := seen[t.SHA256]; {
	case t.SHA256 == sha256.Sum256(nil):
		at.fail("is the digest of an empty token")
	case line != 0:
		at.fail("is also the digest of the token on line %d", line)
	default:
		seen[t.SHA256] = at.n.line
	}
}

// callers checks that the gateway has tokens of callers for the servers that need them.
func (r *reader) callers(g *Gateway) {
	if r.brokenIdentity {
		return
	}
	for i := range r.file.Entries {
		e := &r.file.Entries[i]
		s, ok := r.sources[cmp.Or(e.Renamed, e.Name)]
		if !ok {
			continue
		}
		f := &field{r, e, s.f.n, s.f.path}
		if at := f.member("exchange"); at != nil && (g.Identity == nil || g.Identity.OAuth == nil) {
			at.fail("needs gateway.identity.oauth: it exchanges the access token of the caller")
		}
		if at := f.member("forwardToken"); at != nil && e.Upstream.ForwardToken {
			if g.Identity == nil {
				at.fail("needs gateway.identity: without it callers send no token")
			} else {
				r.file.Warnings = append(r.file.Warnings, Problem{Line: at.n.line, Column: at.n.column, Path: at.path,
					Text: "the server gets the callers' own tokens and can use them at this gateway; prefer exchange"})
			}
		}
	}
}

// reasonOf returns why a file cannot be read, without its name.
func reasonOf(err error) error {
	if refused, ok := errors.AsType[*private.RefusedError](err); ok {
		return refused
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}
