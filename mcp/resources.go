package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Variables are what the variables of a URI template stand for in one URI.
type Variables map[string]string

// A ResourceFunc reads a resource: r.Name is its URI, r.Variables are those of the template that names it. [NoResource] says
// that there is none; a *jsonrpc.Error goes out as it is, any other error stays here.
type ResourceFunc func(ctx context.Context, r *Request) (*ReadResourceResult, error)

// CompleteFunc proposes values for one argument: value is what was typed so far, and others holds the arguments that are filled in.
type CompleteFunc func(ctx context.Context, r *Request, value string, others map[string]string) (*Completion, error)

type resource struct {
	Resource
	read ResourceFunc
}

type template struct {
	ResourceTemplate
	read     ResourceFunc
	pattern  *uriPattern
	complete map[string]CompleteFunc
}

// NoResource is the error for a URI that names nothing.
func NoResource() error { return errNoResource }

var errNoResource = errors.New("mcp: no such resource")

// TextResource makes the result for a resource that is text. The URI is the one that was asked for.
func TextResource(r *Request, mimeType, text string) *ReadResourceResult {
	return &ReadResourceResult{Contents: []ResourceContents{{URI: r.Name, MIMEType: mimeType, Text: text}}}
}

// BlobResource makes the result for a resource that is bytes.
func BlobResource(r *Request, mimeType string, data []byte) *ReadResourceResult {
	return &ReadResourceResult{Contents: []ResourceContents{{URI: r.Name, MIMEType: mimeType, Blob: append([]byte{}, data...)}}}
}

// AddResource offers a resource. It replaces one with the same URI. It returns an error when the URI is none.
func (s *Server) AddResource(r Resource, f ResourceFunc) error {
	if u, err := url.Parse(r.URI); err != nil || u.Scheme == "" {
		return fmt.Errorf("mcp: resource %q: want an absolute URI", r.URI)
	}
	if f == nil || r.Name == "" {
		return fmt.Errorf("mcp: resource %q needs a name and a function", r.URI)
	}
	if _, err := encode(r); err != nil {
		return fmt.Errorf("mcp: resource %q: %w", r.URI, err)
	}
	s.resources.put(r.URI, &resource{r, f}, func(v Version) jsonrpc.Raw {
		c := r
		c.Title, c.Icons = forOlder(v, c.Title, c.Icons)
		return mustEncode(c)
	})
	s.tell(note{method: NotifyResourcesChanged})
	return nil
}

// forOlder leaves out what a revision does not have.
func forOlder(v Version, title string, icons []Icon) (string, []Icon) {
	if !v.HasStructuredContent() {
		title = ""
	}
	if v < V20251125 {
		icons = nil
	}
	return title, icons
}

// RemoveResources takes resources away, by URI.
func (s *Server) RemoveResources(uris ...string) {
	if s.resources.remove(uris...) {
		s.tell(note{method: NotifyResourcesChanged})
	}
}

// AddTemplate offers the resources that a URI template names (RFC 6570), with completions for its variables if there are any. It returns an error when
// the template is none.
func (s *Server) AddTemplate(t ResourceTemplate, f ResourceFunc, complete map[string]CompleteFunc) error {
	pattern, err := parseTemplate(t.URITemplate)
	if err != nil {
		return fmt.Errorf("mcp: template %q: %w", t.URITemplate, err)
	}
	if !strings.Contains(t.URITemplate, ":") {
		return fmt.Errorf("mcp: template %q: want absolute URIs", t.URITemplate)
	}
	if f == nil || t.Name == "" {
		return fmt.Errorf("mcp: template %q needs a name and a function", t.URITemplate)
	}
	if _, err := encode(t); err != nil {
		return fmt.Errorf("mcp: template %q: %w", t.URITemplate, err)
	}
	s.templates.put(t.URITemplate, &template{t, f, pattern, complete}, func(v Version) jsonrpc.Raw {
		c := t
		c.Title, c.Icons = forOlder(v, c.Title, c.Icons)
		return mustEncode(c)
	})
	s.tell(note{method: NotifyResourcesChanged})
	return nil
}

// RemoveTemplates takes templates away.
func (s *Server) RemoveTemplates(templates ...string) {
	if s.templates.remove(templates...) {
		s.tell(note{method: NotifyResourcesChanged})
	}
}

func (s *Server) offersResources() bool {
	return s.opts.Resources || s.resources.len() > 0 || s.templates.len() > 0
}

func (s *Server) listResources(ctx context.Context, r *Request) (any, error) {
	if !s.offersResources() {
		return nil, jsonrpc.ErrMethodNotFound
	}
	return asBody(listPage("resources", r.p.cursor, s.opts.PageSize, r.version, s.visible(ctx, r), &s.resources))
}

func (s *Server) listTemplates(ctx context.Context, r *Request) (any, error) {
	if !s.offersResources() {
		return nil, jsonrpc.ErrMethodNotFound
	}
	return asBody(listPage("resourceTemplates", r.p.cursor, s.opts.PageSize, r.version, s.visible(ctx, r), &s.templates))
}

// asBody keeps a nil page from becoming a body.
func asBody(p *page, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return p, nil
}

// findResource finds who reads a URI: the resource of that name, else the first template that fits.
func (s *Server) findResource(ctx context.Context, r *Request, uri string) (ResourceFunc, Variables) {
	sees := func(name string) bool { return s.opts.Visible == nil || s.opts.Visible(ctx, r, name) }
	if one, ok := s.resources.get(uri); ok {
		if !sees(uri) {
			return nil, nil
		}
		return one.read, nil
	}
	if len(uri) > maxURI {
		return nil, nil
	}
	for _, e := range s.templates.list() {
		if vars := e.value.pattern.match(uri); vars != nil && sees(e.name) {
			return e.value.read, vars
		}
	}
	return nil, nil
}

// maxURI bounds what is held against templates, in bytes.
const maxURI = 8192

func (s *Server) hasResource(ctx context.Context, r *Request, uri string) bool {
	f, _ := s.findResource(ctx, r, uri)
	return f != nil
}

// noResource is the answer for a URI that names nothing.
func (s *Server) noResource(v Version, uri string) error {
	return (&jsonrpc.Error{Code: v.notFound(), Message: "Resource not found"}).WithData(ResourceErrorData{uri})
}

// readResource answers resources/read.
func (s *Server) readResource(ctx context.Context, r *Request) (any, *Caching, error) {
	uri, ok := textOf(r.p.uri)
	if !ok || uri == "" {
		return nil, nil, invalidParams("uri is a string")
	}
	if !s.offersResources() {
		return nil, nil, jsonrpc.ErrMethodNotFound
	}
	read, vars := s.findResource(ctx, r, uri)
	if read == nil {
		return nil, nil, s.noResource(r.version, uri)
	}
	r.Name, r.Variables = uri, vars
	result, err := read(ctx, r)
	if err != nil {
		if errors.Is(err, errNoResource) {
			return nil, nil, s.noResource(r.version, uri)
		}
		return nil, nil, s.legacyNeed(r, err)
	}
	if result == nil || len(result.Contents) == 0 {
		return nil, nil, s.noResource(r.version, uri)
	}
	body := *result
	cache := body.Caching
	body.Caching = Caching{}
	if cache.CacheScope != CachePublic {
		cache.CacheScope = CachePrivate // what a resource holds may depend on who asks
	}
	if r.memory != nil {
		cache = Caching{CacheScope: CachePrivate} // an answer to questions is nobody else's
	}
	return &body, &cache, nil
}

// legacyNeed says in words what a legacy client cannot be asked.
func (s *Server) legacyNeed(r *Request, err error) error {
	if need, ok := errors.AsType[*CapabilityError](err); ok && !r.version.Modern() {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: need.Error()}
	}
	return err
}
