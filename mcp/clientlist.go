package mcp

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// ListTools returns one page of tools. Over HTTP, those whose x-mcp-header is wrong are left out.
func (c *Client) ListTools(ctx context.Context, p *ListParams) (*ListToolsResult, error) {
	list, err := list[ListToolsResult](ctx, c, MethodToolsList, p)
	if err != nil {
		return nil, err
	}
	if c.opts.CheckResults {
		c.learnOutputs(list.Tools)
	}
	if !c.opts.OverHTTP {
		return list, nil
	}
	good := list.Tools[:0]
	c.mu.Lock()
	for _, t := range list.Tools {
		headers, err := HeaderParams(t.InputSchema)
		if err != nil {
			c.report("tool", fmt.Errorf("mcp: tool %s is left out: %w", t.Name, err))
			continue
		}
		c.headers[t.Name] = headers
		good = append(good, t)
	}
	c.mu.Unlock()
	list.Tools = good
	return list, nil
}

// learnOutputs keeps the output schemas of tools. One that is not understood validates nothing: a server may use what this side does not know.
func (c *Client) learnOutputs(tools []Tool) {
	for _, t := range tools {
		var out *schema
		if t.OutputSchema != nil {
			var err error
			if out, err = compileSchema(t.OutputSchema); err != nil {
				c.report("tool", fmt.Errorf("mcp: output schema of %s: %w", t.Name, err))
				out = nil
			}
		}
		c.mu.Lock()
		c.outputs[t.Name] = out
		c.mu.Unlock()
	}
}

// ErrResultSchema says that a structured result is not what the tool's output schema promises.
var ErrResultSchema = errors.New("mcp: the result does not fit the tool's output schema")

// checkResult holds a result against the schema of its tool.
func (c *Client) checkResult(name string, r *ToolResult) error {
	if !c.opts.CheckResults || r.IsError {
		return nil
	}
	c.mu.Lock()
	out := c.outputs[name]
	c.mu.Unlock()
	if out == nil {
		return nil
	}
	if r.Structured == nil {
		return fmt.Errorf("%w: there is no structured result", ErrResultSchema)
	}
	if err := out.validate(r.Structured); err != nil {
		return fmt.Errorf("%w: %w", ErrResultSchema, err)
	}
	return nil
}

// ListResources returns one page of resources.
func (c *Client) ListResources(ctx context.Context, p *ListParams) (*ListResourcesResult, error) {
	return list[ListResourcesResult](ctx, c, MethodResourcesList, p)
}

// ListResourceTemplates returns one page of templates.
func (c *Client) ListResourceTemplates(ctx context.Context, p *ListParams) (*ListResourceTemplatesResult, error) {
	return list[ListResourceTemplatesResult](ctx, c, MethodResourceTemplatesList, p)
}

// ListPrompts returns one page of prompts.
func (c *Client) ListPrompts(ctx context.Context, p *ListParams) (*ListPromptsResult, error) {
	return list[ListPromptsResult](ctx, c, MethodPromptsList, p)
}

// Tools yields all tools, page by page. After an error it yields no more.
func (c *Client) Tools(ctx context.Context) iter.Seq2[Tool, error] {
	return pages(ctx, c.ListTools, func(l *ListToolsResult) ([]Tool, *string) { return l.Tools, l.NextCursor })
}

// Resources yields all resources, as Tools does.
func (c *Client) Resources(ctx context.Context) iter.Seq2[Resource, error] {
	return pages(ctx, c.ListResources, func(l *ListResourcesResult) ([]Resource, *string) { return l.Resources, l.NextCursor })
}

// ResourceTemplates yields all templates, as Tools does.
func (c *Client) ResourceTemplates(ctx context.Context) iter.Seq2[ResourceTemplate, error] {
	return pages(ctx, c.ListResourceTemplates, func(l *ListResourceTemplatesResult) ([]ResourceTemplate, *string) {
		return l.ResourceTemplates, l.NextCursor
	})
}

// Prompts yields all prompts, as Tools does.
func (c *Client) Prompts(ctx context.Context) iter.Seq2[Prompt, error] {
	return pages(ctx, c.ListPrompts, func(l *ListPromptsResult) ([]Prompt, *string) { return l.Prompts, l.NextCursor })
}

// maxPages bounds what a server may make a client fetch for one list.
const maxPages = 1000

var errPages = errors.New("mcp: the server's list does not end")

func pages[L, T any](ctx context.Context, get func(context.Context, *ListParams) (*L, error), read func(*L) ([]T, *string)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		p := &ListParams{}
		for range maxPages {
			l, err := get(ctx, p)
			if err != nil {
				yield(*new(T), err)
				return
			}
			items, next := read(l)
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == nil {
				return
			}
			if p.Cursor != nil && *p.Cursor == *next {
				break
			}
			p = &ListParams{Cursor: next}
		}
		yield(*new(T), errPages)
	}
}

func list[L any](ctx context.Context, c *Client, method string, p *ListParams) (*L, error) {
	key := ""
	var params jsonrpc.Raw
	if p != nil && p.Cursor != nil {
		key = "c" + *p.Cursor
		params = append(appendString([]byte(`{"cursor":`), *p.Cursor), '}')
	}
	if raw := c.cache.get(method, key); raw != nil {
		return decodeResult[L](raw)
	}
	mark := c.cache.mark()
	var raw jsonrpc.Raw
	if err := c.do(ctx, method, params, &raw, nil); err != nil {
		return nil, err
	}
	if c.Version().Modern() {
		if kind := resultType(raw); kind != ResultComplete {
			return nil, fmt.Errorf("%w %.40q", ErrUnknownResult, kind)
		}
		c.cache.put(method, key, raw, mark)
	}
	return decodeResult[L](raw)
}

// refreshTools learns anew which headers the tools want.
func (c *Client) refreshTools(ctx context.Context) error {
	c.cache.drop(MethodToolsList)
	for _, err := range c.Tools(ctx) {
		if err != nil {
			return err
		}
	}
	return nil
}

// Headers returns the headers that a request over HTTP needs, beside those of HTTP itself. body are the params that [Link.Do] got.
func (c *Client) Headers(method string, body jsonrpc.Raw) []HeaderField {
	var p params
	p.read(body)
	if name, ok := textOf(p.version); ok {
		var headers []HeaderParam
		if tool, ok := textOf(p.name); ok && method == MethodToolsCall {
			c.mu.Lock()
			headers = c.headers[tool]
			c.mu.Unlock()
		}
		return standardHeaders(ParseVersion(name), method, body, headers)
	}
	if v := c.Version(); v.HasVersionHeader() && method != MethodInitialize {
		return []HeaderField{{HeaderProtocolVersion, v.String()}}
	}
	return nil
}

// A resultCache keeps results for as long as their server allows (MCP 2026-07-28, Caching). It belongs to one client, which has one
// authorization, so that public and private are the same here.
type resultCache struct {
	mu      sync.Mutex // guards what follows
	entries map[string]cachedResult
	changes uint64 // how often something was dropped
}

type cachedResult struct {
	raw   jsonrpc.Raw
	until time.Time
}

// What the cache may hold.
const (
	maxCached      = 1000
	maxCachedBytes = 1 << 20 // of one result
)

func cacheKey(method, key string) string { return method + "\n" + key }

func (k *resultCache) get(method, key string) jsonrpc.Raw {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, ok := k.entries[cacheKey(method, key)]
	if !ok {
		return nil
	}
	if time.Now().After(e.until) {
		delete(k.entries, cacheKey(method, key))
		return nil
	}
	return e.raw
}

// mark is taken before a request: what changes meanwhile makes its result too old to keep.
func (k *resultCache) mark() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changes
}

func (k *resultCache) put(method, key string, raw jsonrpc.Raw, mark uint64) {
	var c Caching
	if raw.Decode(&c) != nil || c.TTLMs <= 0 || len(raw) > maxCachedBytes {
		return
	}
	ttl := min(time.Duration(min(c.TTLMs, int64(time.Hour*24/time.Millisecond)))*time.Millisecond, 24*time.Hour)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.changes != mark {
		return
	}
	if k.entries == nil || len(k.entries) >= maxCached {
		k.entries = map[string]cachedResult{}
	}
	k.entries[cacheKey(method, key)] = cachedResult{raw, time.Now().Add(ttl)}
}

// drop forgets the results of a method.
func (k *resultCache) drop(method string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes++
	for key := range k.entries {
		if strings.HasPrefix(key, method+"\n") {
			delete(k.entries, key)
		}
	}
}

// dropOne forgets one result.
func (k *resultCache) dropOne(method, key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes++
	delete(k.entries, cacheKey(method, key))
}
