package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Variables are the values of the variables of a URI template for one URI.
type Variables map[string]string

// A ResourceFunc reads a resource. r.Name is its URI, and r.Variables are the variables of the
// template that the URI matches. If the resource does not exist, return [NoResource]. A
// *jsonrpc.Error is sent unchanged; any other error is logged and not sent.
type ResourceFunc func(ctx context.Context, r *Request) (*ReadResourceResult, error)

// CompleteFunc proposes values for one argument. value is the text typed so far, and others
// contains the arguments that are already filled in.
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

// NoResource returns the error for a URI without a resource.
func NoResource() error { return errNoResource }

var errNoResource = errors.New("mcp: no such resource")

// TextResource returns the result for a text resource. Its URI is the requested one.
func TextResource(r *Request, mimeType, text string) *ReadResourceResult {
	return &ReadResourceResult{Contents: []ResourceContents{{URI: r.Name, MIMEType: mimeType, Text: text}}}
}

// BlobResource returns the result for a binary resource.
func BlobResource(r *Request, mimeType string, data []byte) *ReadResourceResult {
	return &ReadResourceResult{Contents: []ResourceContents{{URI: r.Name, MIMEType: mimeType, Blob: append([]byte{}, data...)}}}
}

// AddResource adds a resource. It replaces a resource with the same URI. It returns an error if the
// URI is invalid or not absolute, if the name is empty or if f is nil.
func (s *Server) AddResource(r Resource, f ResourceFunc) error {
	if u, err := url.Parse(r.URI); err != nil || u.Scheme == "" {
		return fmt.Errorf("mcp: resource %q needs an absolute URI, such as file:///notes.txt", r.URI)
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
	s.notify(note{method: NotifyResourcesChanged})
	return nil
}

// forOlder removes the members that version v does not have.
func forOlder(v Version, title string, icons []Icon) (string, []Icon) {
	if !v.HasStructuredContent() {
		title = ""
	}
	if v < V20251125 {
		icons = nil
	}
	return title, icons
}

// RemoveResources removes resources by URI.
func (s *Server) RemoveResources(uris ...string) {
	if s.resources.remove(uris...) {
		s.notify(note{method: NotifyResourcesChanged})
	}
}

// AddTemplate adds the resources that match a URI template (RFC 6570), with optional completions
// for its variables. It returns an error if the template is invalid.
func (s *Server) AddTemplate(t ResourceTemplate, f ResourceFunc, complete map[string]CompleteFunc) error {
	pattern, err := parseTemplate(t.URITemplate)
	if err != nil {
		return fmt.Errorf("mcp: template %q: %w", t.URITemplate, err)
	}
	if !strings.Contains(t.URITemplate, ":") {
		return fmt.Errorf("mcp: template %q needs an absolute URI, such as file:///{name}", t.URITemplate)
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
	s.notify(note{method: NotifyResourcesChanged})
	return nil
}

// RemoveTemplates removes templates.
func (s *Server) RemoveTemplates(templates ...string) {
	if s.templates.remove(templates...) {
		s.notify(note{method: NotifyResourcesChanged})
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

// asBody prevents a nil page from becoming a body.
func asBody(p *page, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return p, nil
}

// findResource returns the function that reads a URI: that of the resource with this URI, otherwise
// that of the first template that matches.
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

// maxURI is the maximum length of a URI that is compared with templates, in bytes.
const maxURI = 8192

func (s *Server) hasResource(ctx context.Context, r *Request, uri string) bool {
	f, _ := s.findResource(ctx, r, uri)
	return f != nil
}

// noResource returns the error response for a URI without a resource.
func (s *Server) noResource(v Version, uri string) error {
	return (&jsonrpc.Error{Code: v.notFound(), Message: "Resource not found"}).WithData(ResourceErrorData{uri})
}

// readResource handles resources/read.
func (s *Server) readResource(ctx context.Context, r *Request) (any, *Caching, error) {
	uri, ok := textOf(r.p.uri)
	if !ok || uri == "" {
		return nil, nil, invalidParams("uri must be a string")
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
		cache.CacheScope = CachePrivate // the contents may depend on the caller
	}
	if r.memory != nil {
		// a result that depends on answers is only for this caller
		cache = Caching{CacheScope: CachePrivate}
	}
	return &body, &cache, nil
}

// legacyNeed converts a [CapabilityError] to an error with a text for a legacy client.
func (s *Server) legacyNeed(r *Request, err error) error {
	if need, ok := errors.AsType[*CapabilityError](err); ok && !r.version.Modern() {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: need.Error()}
	}
	return err
}
