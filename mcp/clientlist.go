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

// ListTools returns one page of tools. Over HTTP, tools with an invalid x-mcp-header are left out.
func (c *Client) ListTools(ctx context.Context, p *ListParams) (*ListToolsResult, error) {
	list, err := list[ListToolsResult](ctx, c, MethodToolsList, p)
	if err != nil {
		return nil, err
	}
	if c.opts.CheckResults {
		c.learnOutputs(list.Tools)
	}
	if c.Version().HasCoreTasks() {
		c.mu.Lock()
		for _, t := range list.Tools {
			if len(t.Name) > maxSupportName {
				continue
			}
			support := ""
			if t.Execution != nil {
				support = t.Execution.TaskSupport
			}
			if len(c.support) >= maxSupport {
				clear(c.support)
			}
			c.support[t.Name] = support
		}
		c.mu.Unlock()
	}
	if !c.opts.OverHTTP {
		return list, nil
	}
	good := list.Tools[:0]
	c.mu.Lock()
	for _, t := range list.Tools {
		headers, err := HeaderParams(t.InputSchema)
		if err != nil {
			c.report(ReportTool, fmt.Errorf("mcp: tool %s is skipped: %w", t.Name, err))
			continue
		}
		c.learnHeadersLocked(t.Name, headers)
		good = append(good, t)
	}
	c.mu.Unlock()
	list.Tools = good
	return list, nil
}

// maxHeaders is the maximum size of the header parameters that a client stores, in bytes, with the
// tool names. If it is exceeded, all stored ones are dropped.
const maxHeaders = 1 << 20

// learnHeadersLocked stores the header parameters of a tool. Tools without any are not stored.
func (c *Client) learnHeadersLocked(tool string, headers []HeaderParam) {
	c.headerBytes -= sizeOfHeaders(tool, c.headers[tool])
	delete(c.headers, tool)
	if len(headers) == 0 {
		return
	}
	size := sizeOfHeaders(tool, headers)
	if c.headerBytes += size; c.headerBytes > maxHeaders {
		clear(c.headers)
		if c.headerBytes = size; size > maxHeaders {
			c.headerBytes = 0
			return
		}
	}
	c.headers[tool] = headers
}

// sizeOfHeaders returns about how many bytes the header parameters of a tool occupy.
func sizeOfHeaders(tool string, headers []HeaderParam) int {
	if headers == nil {
		return 0
	}
	size := 100 + len(tool)
	for _, p := range headers {
		size += 100 + len(p.Header)
		for _, name := range p.Path {
			size += 20 + len(name)
		}
	}
	return size
}

// LearnTools stores the header parameters of the tools in a result of tools/list, for
// [Client.Headers]: up to 1 MiB of them. It is for programs that pass the messages of another
// client on; [Client.ListTools] does the same if OverHTTP is set. Tools with an invalid
// x-mcp-header get no such headers. A result of another form is ignored.
func (c *Client) LearnTools(result jsonrpc.Raw) {
	for key, tools := range result.Members() {
		if string(key) != "tools" {
			continue
		}
		for tool := range tools.Elements() {
			name, ok := textOf(lastMember(tool, "name"))
			headers, err := HeaderParams(lastMember(tool, "inputSchema"))
			if !ok || err != nil {
				continue
			}
			c.mu.Lock()
			c.learnHeadersLocked(name, headers)
			c.mu.Unlock()
		}
	}
}

// maxSupport is the maximum number of tools whose task support a client stores.
const maxSupport = 10_000

// maxSupportName is the maximum length of a tool's name for which it is stored, in bytes.
const maxSupportName = 1024

// taskTTL returns the time to live for a call of a tool as a task, or 0 for a plain call. It
// depends on the caller's options and on the tool's list entry (MCP 2025-11-25, Tasks, Tool-Level
// Negotiation).
func (c *Client) taskTTL(name string, o *CallOptions) (ttl time.Duration) {
	if !c.Version().HasCoreTasks() {
		return 0
	}
	if o != nil {
		ttl = o.TaskTTL
	}
	c.mu.Lock()
	support, listed := c.support[name]
	c.mu.Unlock()
	switch {
	case !listed:
	case support == taskSupportNames[TaskRequired] && ttl <= 0:
		return defaultTaskTTL
	case support == "" || support == taskSupportNames[TaskForbidden]:
		return 0
	}
	return max(ttl, 0)
}

// defaultTaskTTL is used if a tool must be called as a task and the caller set no TaskTTL.
const defaultTaskTTL = 10 * time.Minute

// maxOutputs is the maximum size of the output schemas that a client stores, in bytes, with the
// tool names. If it is exceeded, all stored schemas are dropped.
const maxOutputs = 16 << 20

// learnOutputs stores the texts of the output schemas of tools. They are compiled when a result
// arrives.
func (c *Client) learnOutputs(tools []Tool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range tools {
		c.outputBytes -= c.outputs[t.Name].size(t.Name)
		delete(c.outputs, t.Name)
		if t.OutputSchema == nil {
			continue
		}
		o := output{text: t.OutputSchema.Clone()}
		if c.outputBytes += o.size(t.Name); c.outputBytes > maxOutputs {
			clear(c.outputs)
			c.outputBytes = o.size(t.Name)
		}
		c.outputs[t.Name] = o
	}
}

// An output is the stored output schema of a tool.
type output struct {
	text     jsonrpc.Raw
	reported bool // that it cannot be used
}

func (o output) size(name string) int {
	if o.text == nil {
		return 0
	}
	return len(name) + len(o.text) + 128
}

// ErrResultSchema reports that a structured result does not fit the tool's output schema.
var ErrResultSchema = errors.New("mcp: the result does not match the tool's output schema")

// checkResult validates a result with the schema of its tool. A schema that does not compile is
// reported once and then ignored: a server may use features that this client does not support.
func (c *Client) checkResult(ctx context.Context, name string, r *ToolResult) error {
	if !c.opts.CheckResults || r.IsError {
		return nil
	}
	c.mu.Lock()
	known, ok := c.outputs[name]
	c.mu.Unlock()
	if !ok {
		return nil
	}
	out, err := c.schemas.compile(known.text)
	if err != nil {
		if !known.reported {
			c.mu.Lock()
			c.outputs[name] = output{known.text, true}
			c.mu.Unlock()
			c.report(ReportTool, fmt.Errorf("mcp: output schema of %s: %w", name, err))
		}
		return nil
	}
	if r.Structured == nil {
		return fmt.Errorf("%w: the structured result is missing", ErrResultSchema)
	}
	if err := out.validate(ctx, r.Structured); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
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

// Tools yields all tools, page by page. It stops after an error.
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

// maxPages is the maximum number of pages that a client fetches for one list.
const maxPages = 1000

// maxListBytes is the maximum number of bytes of all pages of one list, since callers collect them.
const maxListBytes = 64 << 20

var (
	errPages    = errors.New("mcp: the server's list has too many pages")
	errListSize = errors.New("mcp: the server's list is longer than 64 MiB")
)

func pages[L, T any](ctx context.Context, get func(context.Context, *ListParams) (*L, error), read func(*L) ([]T, *string)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		fetched := 0
		p := &ListParams{fetched: &fetched}
		for range maxPages {
			l, err := get(ctx, p)
			if err == nil && fetched > maxListBytes {
				err = errListSize
			}
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
			p = &ListParams{Cursor: next, fetched: &fetched}
		}
		yield(*new(T), errPages)
	}
}

func list[L any](ctx context.Context, c *Client, method string, p *ListParams) (*L, error) {
	key := ""
	var params jsonrpc.Raw
	if p != nil && p.Cursor != nil {
		key = "c" + *p.Cursor
		params = append(jsonrpc.AppendString([]byte(`{"cursor":`), *p.Cursor), '}')
	}
	fetched := func(raw jsonrpc.Raw) {
		if p != nil && p.fetched != nil {
			*p.fetched += len(raw)
		}
	}
	if raw := c.cache.get(method, key); raw != nil {
		fetched(raw)
		return decodeResult[L](raw)
	}
	mark := c.cache.mark()
	var raw jsonrpc.Raw
	if err := c.do(ctx, method, params, &raw, nil); err != nil {
		return nil, err
	}
	fetched(raw)
	if c.Version().Modern() {
		if kind := resultType(raw); kind != ResultComplete {
			return nil, fmt.Errorf("%w %.40q", ErrUnknownResult, kind)
		}
		c.cache.put(method, key, raw, mark)
	}
	return decodeResult[L](raw)
}

// refreshTools fetches the tool list again to learn the required headers.
func (c *Client) refreshTools(ctx context.Context) error {
	c.cache.drop(MethodToolsList)
	for _, err := range c.Tools(ctx) {
		if err != nil {
			return err
		}
	}
	return nil
}

// Headers returns the MCP headers for a request over HTTP. body contains the params passed to
// [Link.Do].
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
		return p.standardHeaders(ParseVersion(name), method, body, headers)
	}
	if v := c.Version(); v.HasVersionHeader() && method != MethodInitialize {
		return []HeaderField{{HeaderProtocolVersion, v.String()}}
	}
	return nil
}

// A resultCache stores results for as long as their server allows (MCP 2026-07-28, Caching). It
// belongs to one client, which has one authorization, so public and private results are treated
// alike.
type resultCache struct {
	mu      sync.Mutex // guards the fields below
	entries map[string]cachedResult
	changes uint64 // how often results were dropped
}

type cachedResult struct {
	raw   jsonrpc.Raw
	until time.Time
}

// Bounds of the cache: the number of results and the bytes of one result.
const (
	maxCached      = 1000
	maxCachedBytes = 1 << 20 // bytes of one result
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

// mark returns a counter, to be read before a request. If it has changed when the result arrives,
// the result is not stored.
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

// drop removes the results of a method.
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

// dropOne removes one result.
func (k *resultCache) dropOne(method, key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes++
	delete(k.entries, cacheKey(method, key))
}
