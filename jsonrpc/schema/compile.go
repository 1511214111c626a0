package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a schema. Compile returns an error for a larger one.
const (
	maxBytes   = 256 << 10
	maxDepth   = 64      // nesting of the schema's JSON text
	maxParts   = 5000    // values in the schema's JSON text
	maxPlace   = 2 << 10 // bytes of the location of a value in the schema, which is stored for each
	maxApplied = 5000    // schemas that apply to the same value
	maxPattern = 5000    // instructions of one regular expression, about 200 KB
	maxRegexps = 20_000  // instructions of all regular expressions of a schema
)

// ErrTooLarge reports a schema that exceeds the bounds of this package.
var ErrTooLarge = errors.New("schema is too large or too deep")

// A Schema is compiled and immutable. It is safe for concurrent use.
type Schema struct {
	root    *node
	nodes   map[string]*node // by location
	tracked bool             // unevaluatedItems or unevaluatedProperties occurs
}

// IsObject reports whether "object" is the only type that the schema allows.
func (s *Schema) IsObject() bool { return s.root.types == typeObject }

// At returns the schema at a JSON pointer, such as "/$defs/Tool", for the validation of a part of a
// value. It reports false if no keyword of s has a schema there.
func (s *Schema) At(pointer string) (*Schema, bool) {
	n, ok := s.nodes["#"+pointer]
	if !ok {
		return nil, false
	}
	return &Schema{root: n, nodes: s.nodes, tracked: s.tracked}, true
}

// A node is one schema: the root or a subschema.
type node struct {
	always, never bool // the schemas true and false

	types     kinds    // 0 means any
	typeNames []string // of types, in the order of the schema
	enum      []choice
	ref       *node

	dynamicRef *node // the target of $dynamicRef without a dynamic scope
	// The anchor to search for in the dynamic scope; empty if $dynamicRef acts as $ref.
	dynamicName string

	minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf *number
	minLength, maxLength                                             *int
	pattern                                                          *regexp.Regexp
	patternCost                                                      int
	patternText                                                      string

	prefixItems              []*node
	items                    *node // of the items after prefixItems
	contains                 *node
	minContains, maxContains *int
	minItems, maxItems       *int
	uniqueItems              bool
	unevaluatedItems         *node

	properties                   map[string]*node
	names                        []string // of properties, sorted
	patterns                     []patternNode
	additional                   *node
	propertyNames                *node
	required                     []string
	minProperties, maxProperties *int
	dependentRequired            []dependency
	dependentSchemas             []dependency
	unevaluatedProperties        *node

	allOf, anyOf, oneOf    []*node
	not, when, then, other *node

	home *resource

	// Number of schemas that apply to the same value, including this one; 0 until computed.
	cost  int
	entry bool
}

type patternNode struct {
	text string
	re   *regexp.Regexp
	cost int
	node *node
}

type dependency struct {
	name string
	also []string
	node *node
}

// A choice is one value of enum or const.
type choice struct {
	key  string // see appendKey
	text string // for messages
}

// A resource is a schema with its own identity: the root, or one with "$id". Pointers and anchors
// are relative to it.
type resource struct {
	tree    any
	at      string
	anchors map[string]anchor
}

type anchor struct {
	tree    any
	at      string
	dynamic bool
}

type compiler struct {
	draft7 bool
	nodes  map[string]*node     // by location
	homes  map[string]*resource // by the location of the schema with "$id"
	schema *Schema

	regexps int // instructions so far
}

// dialects maps the supported dialects to whether they are draft-07.
var dialects = map[string]bool{
	"https://json-schema.org/draft/2020-12/schema": false, "https://json-schema.org/draft/2020-12/schema#": false,
	"http://json-schema.org/draft-07/schema#": true, "http://json-schema.org/draft-07/schema": true,
	"https://json-schema.org/draft-07/schema#": true, "https://json-schema.org/draft-07/schema": true,
}

// Compile parses and compiles a schema. Its references may only point into the schema itself.
func Compile(text []byte) (*Schema, error) {
	if len(text) > maxBytes {
		return nil, fmt.Errorf("schema of %d bytes, over %d", len(text), maxBytes)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	if err := checkSize(tree); err != nil {
		return nil, err
	}
	c := &compiler{nodes: map[string]*node{}, homes: map[string]*resource{}, schema: &Schema{}}
	switch root := tree.(type) {
	case bool:
	case map[string]any:
		if dialect, ok := root["$schema"]; ok {
			name, _ := dialect.(string)
			if c.draft7, ok = dialects[name]; !ok {
				return nil, fmt.Errorf("unsupported dialect %.100q", name)
			}
		}
	default:
		return nil, errors.New("a schema must be an object or a boolean")
	}
	home := c.newHome(tree, "#")
	root, err := c.node(tree, "#", home)
	if err != nil {
		return nil, err
	}
	if err := c.dynamicAnchors(); err != nil {
		return nil, err
	}
	for _, n := range c.nodes {
		if err := n.weigh(); err != nil {
			return nil, err
		}
	}
	c.schema.root, c.schema.nodes = root, c.nodes
	return c.schema, nil
}

func checkSize(tree any) error {
	parts := 0
	var size func(tree any, depth, place int) error
	size = func(tree any, depth, place int) error {
		if parts++; parts > maxParts || depth > maxDepth || place > maxPlace {
			return ErrTooLarge
		}
		switch tree := tree.(type) {
		case map[string]any:
			for name, inner := range tree {
				if err := size(inner, depth+1, place+1+len(escape(name))); err != nil {
					return err
				}
			}
		case []any:
			for i, inner := range tree {
				if err := size(inner, depth+1, place+1+len(strconv.Itoa(i))); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return size(tree, 0, 0)
}

// newHome collects the anchors of a resource.
func (c *compiler) newHome(tree any, at string) *resource {
	home := &resource{tree: tree, at: at, anchors: map[string]anchor{}}
	c.homes[at] = home
	c.collect(home, tree, at, true)
	return home
}

// dynamicAnchors compiles the possible targets of a $dynamicRef.
func (c *compiler) dynamicAnchors() error {
	for done := map[string]bool{}; len(done) < len(c.homes); {
		for at, home := range maps.Clone(c.homes) {
			done[at] = true
			for _, a := range home.anchors {
				if !a.dynamic {
					continue
				}
				if _, err := c.node(a.tree, a.at, home); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (c *compiler) collect(home *resource, tree any, at string, top bool) {
	switch tree := tree.(type) {
	case map[string]any:
		id, hasID := tree["$id"].(string)
		if hasID && !strings.HasPrefix(id, "#") && !top {
			return // a separate resource, which node handles
		}
		if c.draft7 && strings.HasPrefix(id, "#") {
			home.anchors[id[1:]] = anchor{tree: tree, at: at}
		}
		if name, ok := tree["$anchor"].(string); ok {
			home.anchors[name] = anchor{tree: tree, at: at}
		}
		if name, ok := tree["$dynamicAnchor"].(string); ok {
			home.anchors[name] = anchor{tree: tree, at: at, dynamic: true}
		}
		for key, inner := range tree {
			if key == "enum" || key == "const" || key == "default" || key == "examples" {
				continue // data
			}
			c.collect(home, inner, at+"/"+escape(key), false)
		}
	case []any:
		for i, inner := range tree {
			c.collect(home, inner, at+"/"+strconv.Itoa(i), false)
		}
	}
}

// node compiles the schema at a location. A schema that refers to itself is found in the table.
func (c *compiler) node(tree any, at string, home *resource) (*node, error) {
	if made := c.nodes[at]; made != nil {
		return made, nil
	}
	n := &node{home: home}
	c.nodes[at] = n
	switch tree := tree.(type) {
	case bool:
		n.always, n.never = tree, !tree
		return n, nil
	case map[string]any:
		if id, ok := tree["$id"].(string); ok && at != home.at && !strings.HasPrefix(id, "#") {
			n.home = c.newHome(tree, at)
		}
		r := reader{c: c, n: n, tree: tree, at: at}
		r.read()
		if r.err != nil {
			return nil, r.err
		}
		return n, nil
	}
	return nil, fmt.Errorf("%s is not a schema", at)
}

// A reader reads the keywords of one schema. It retains the first error.
type reader struct {
	c    *compiler
	n    *node
	tree map[string]any
	at   string
	err  error
}

func (r *reader) fail(key, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s/%s must be %s", r.at, key, want)
	}
}

func (r *reader) read() {
	n := r.n
	if ref, ok := r.tree["$ref"]; ok {
		if n.ref, _ = r.reference("$ref", ref); r.c.draft7 {
			return // keywords beside it do not apply (draft-07, section 8.3)
		}
	}
	if ref, ok := r.tree["$dynamicRef"]; ok && !r.c.draft7 {
		var dynamic bool
		if n.dynamicRef, dynamic = r.reference("$dynamicRef", ref); dynamic {
			n.dynamicName = strings.TrimPrefix(ref.(string), "#")
		}
	}
	r.rest()
	n.always = r.err == nil && n.empty()
}

func (n *node) empty() bool {
	return n.types == 0 && n.enum == nil && n.ref == nil && n.dynamicRef == nil && n.minimum == nil && n.maximum == nil && n.exclusiveMinimum == nil &&
		n.exclusiveMaximum == nil && n.multipleOf == nil && n.minLength == nil && n.maxLength == nil && n.pattern == nil && n.prefixItems == nil &&
		n.items == nil && n.contains == nil && n.minItems == nil && n.maxItems == nil && !n.uniqueItems && n.unevaluatedItems == nil &&
		n.properties == nil && n.patterns == nil && n.additional == nil && n.propertyNames == nil && n.required == nil && n.minProperties == nil &&
		n.maxProperties == nil && n.dependentRequired == nil && n.dependentSchemas == nil && n.unevaluatedProperties == nil && n.allOf == nil &&
		n.anyOf == nil && n.oneOf == nil && n.not == nil && n.when == nil
}

func (r *reader) rest() {
	n := r.n
	r.types()
	if list, ok := r.tree["enum"]; ok {
		values, ok := list.([]any)
		if !ok {
			r.fail("enum", "an array")
		}
		n.enum = []choice{}
		for _, v := range values {
			n.enum = append(n.enum, choiceOf(v))
		}
	}
	if v, ok := r.tree["const"]; ok {
		one := choiceOf(v)
		if n.enum == nil || slices.ContainsFunc(n.enum, func(c choice) bool { return c.key == one.key }) {
			n.enum = []choice{one}
		} else {
			n.enum = []choice{} // no value satisfies both
		}
	}
	n.minimum, n.maximum = r.number("minimum"), r.number("maximum")
	n.exclusiveMinimum, n.exclusiveMaximum = r.number("exclusiveMinimum"), r.number("exclusiveMaximum")
	if n.multipleOf = r.number("multipleOf"); n.multipleOf != nil && n.multipleOf.compare(number{isInt: true}) <= 0 {
		r.fail("multipleOf", "a number over 0")
	}
	n.minLength, n.maxLength = r.count("minLength"), r.count("maxLength")
	if text, ok := r.text("pattern"); ok {
		n.patternText = text
		n.pattern, n.patternCost = r.pattern("pattern", text)
	}

	if list, ok := r.tree["prefixItems"]; ok && !r.c.draft7 {
		n.prefixItems = r.list("prefixItems", list)
	}
	if list, ok := r.tree["items"].([]any); ok { // before 2020-12
		n.prefixItems = r.list("items", list)
		n.items = r.one("additionalItems")
	} else {
		n.items = r.one("items")
	}
	if n.contains = r.one("contains"); n.contains != nil && !r.c.draft7 {
		n.minContains, n.maxContains = r.count("minContains"), r.count("maxContains")
	}
	n.minItems, n.maxItems = r.count("minItems"), r.count("maxItems")
	n.uniqueItems, _ = r.tree["uniqueItems"].(bool)

	n.properties = r.named("properties")
	for name := range n.properties {
		n.names = append(n.names, name)
	}
	slices.Sort(n.names)
	for text, inner := range r.named("patternProperties") {
		re, cost := r.pattern("patternProperties", text)
		n.patterns = append(n.patterns, patternNode{text, re, cost, inner})
	}
	slices.SortFunc(n.patterns, func(a, b patternNode) int { return strings.Compare(a.text, b.text) })
	n.additional, n.propertyNames = r.one("additionalProperties"), r.one("propertyNames")
	n.required = r.texts("required", r.tree["required"])
	n.minProperties, n.maxProperties = r.count("minProperties"), r.count("maxProperties")
	r.dependencies()

	n.allOf, n.anyOf, n.oneOf = r.some("allOf"), r.some("anyOf"), r.some("oneOf")
	n.not, n.when, n.then, n.other = r.one("not"), r.one("if"), r.one("then"), r.one("else")
	if !r.c.draft7 {
		n.unevaluatedItems, n.unevaluatedProperties = r.one("unevaluatedItems"), r.one("unevaluatedProperties")
		if n.unevaluatedItems != nil || n.unevaluatedProperties != nil {
			r.c.schema.tracked = true
		}
	}
	r.named("$defs")
	r.named("definitions")
}

func (r *reader) types() {
	value, ok := r.tree["type"]
	if !ok {
		return
	}
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	for _, one := range list {
		name, _ := one.(string)
		kind, ok := kindNames[name]
		if !ok {
			r.fail("type", fmt.Sprintf("the name of a type, not %.40q", fmt.Sprint(one)))
			return
		}
		r.n.types |= kind
		r.n.typeNames = append(r.n.typeNames, name)
	}
	if len(list) == 0 {
		r.fail("type", "a list of at least one type")
	}
}

func (r *reader) dependencies() {
	add := func(key, name string, value any) {
		if _, ok := value.([]any); ok && key != "dependentSchemas" {
			r.n.dependentRequired = append(r.n.dependentRequired, dependency{name: name, also: r.texts(key, value)})
			return
		}
		if key == "dependentRequired" {
			r.fail(key, "arrays of strings")
			return
		}
		r.n.dependentSchemas = append(r.n.dependentSchemas, dependency{name: name, node: r.sub(value, key+"/"+escape(name))})
	}
	for _, key := range []string{"dependentRequired", "dependentSchemas", "dependencies"} {
		value, ok := r.tree[key]
		if !ok {
			continue
		}
		all, ok := value.(map[string]any)
		if !ok {
			r.fail(key, "an object")
			return
		}
		for _, name := range sortedKeys(all) {
			add(key, name, all[name])
		}
	}
}

// sub compiles a subschema.
func (r *reader) sub(tree any, below string) *node {
	if r.err != nil {
		return nil
	}
	n, err := r.c.node(tree, r.at+"/"+below, r.n.home)
	if err != nil {
		r.err = err
	}
	return n
}

func (r *reader) one(key string) *node {
	tree, ok := r.tree[key]
	if !ok {
		return nil
	}
	return r.sub(tree, key)
}

func (r *reader) list(key string, list any) []*node {
	all, ok := list.([]any)
	if !ok {
		r.fail(key, "an array of schemas")
	}
	nodes := make([]*node, 0, len(all))
	for i, tree := range all {
		nodes = append(nodes, r.sub(tree, key+"/"+strconv.Itoa(i)))
	}
	return nodes
}

func (r *reader) some(key string) []*node {
	list, ok := r.tree[key]
	if !ok {
		return nil
	}
	nodes := r.list(key, list)
	if len(nodes) == 0 {
		r.fail(key, "a list of at least one schema")
	}
	return nodes
}

func (r *reader) named(key string) map[string]*node {
	value, ok := r.tree[key]
	if !ok {
		return nil
	}
	all, ok := value.(map[string]any)
	if !ok {
		r.fail(key, "an object")
	}
	nodes := make(map[string]*node, len(all))
	for name, tree := range all {
		nodes[name] = r.sub(tree, key+"/"+escape(name))
	}
	return nodes
}

func (r *reader) text(key string) (string, bool) {
	value, ok := r.tree[key]
	if !ok {
		return "", false
	}
	text, ok := value.(string)
	if !ok {
		r.fail(key, "a string")
	}
	return text, ok
}

func (r *reader) texts(key string, value any) []string {
	if value == nil {
		return nil
	}
	list, ok := value.([]any)
	if !ok {
		r.fail(key, "an array of strings")
	}
	out := make([]string, 0, len(list))
	for _, one := range list {
		text, ok := one.(string)
		if !ok {
			r.fail(key, "an array of strings")
		}
		out = append(out, text)
	}
	return out
}

func (r *reader) number(key string) *number {
	value, ok := r.tree[key]
	if !ok {
		return nil
	}
	text, ok := value.(json.Number)
	if !ok {
		r.fail(key, "a number")
		return nil
	}
	n := numberOf(text)
	return &n
}

func (r *reader) count(key string) *int {
	n := r.number(key)
	if n == nil {
		return nil
	}
	if n.compare(number{isInt: true}) < 0 || !n.isWhole() {
		r.fail(key, "a whole number, at least 0")
		return nil
	}
	count := math.MaxInt
	if n.isInt {
		count = int(min(n.i, math.MaxInt))
	} else if n.f < 1<<53 {
		count = int(n.f)
	}
	return &count
}

func (r *reader) pattern(key, text string) (*regexp.Regexp, int) {
	re, cost, err := compilePattern(text)
	if err != nil {
		r.fail(key, err.Error())
		return nil, 0
	}
	if r.c.regexps += cost; r.c.regexps > maxRegexps {
		r.fail(key, fmt.Sprintf("regular expressions of at most %d instructions in all", maxRegexps))
		return nil, 0
	}
	return re, cost
}

// compilePattern compiles a regular expression of a peer, in RE2 syntax. size is its approximate
// number of instructions: matching takes time at most proportional to size and the length of the
// text. The size is computed and bounded before compiling: "(a{1000}){1000}" would take 100 MB.
func compilePattern(text string) (re *regexp.Regexp, size int, err error) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err == nil {
		if size = patternSize(tree); size > maxPattern {
			return nil, size, fmt.Errorf("a regular expression of at most %d instructions, not %.100q", maxPattern, text)
		}
		re, err = regexp.Compile(text)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("a regular expression of RE2, not %.100q", text)
	}
	return re, size, nil
}

// patternSize returns the approximate number of instructions of a regular expression.
func patternSize(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		if size += patternSize(sub); size > maxPattern {
			return size
		}
	}
	if re.Op == syntax.OpRepeat {
		size *= max(1, re.Min, re.Max)
	}
	return min(size, maxPattern+1)
}

// reference compiles the target of a reference. dynamic reports whether it is a dynamic anchor.
func (r *reader) reference(key string, value any) (to *node, dynamic bool) {
	ref, ok := value.(string)
	if !ok {
		r.fail(key, "a string")
		return nil, false
	}
	if !strings.HasPrefix(ref, "#") {
		r.err = fmt.Errorf("%s: reference %.100q leaves the schema", r.at, ref)
		return nil, false
	}
	home := r.n.home
	name := percentDecode(ref[1:])
	if a, ok := home.anchors[name]; ok && name != "" {
		to, r.err = r.c.node(a.tree, a.at, home)
		return to, a.dynamic
	}
	tree, at, home, ok := r.c.pointed(home, name)
	if !ok {
		r.err = fmt.Errorf("%s: reference %.100q does not exist", r.at, ref)
		return nil, false
	}
	to, r.err = r.c.node(tree, at, home)
	return to, false
}

// pointed resolves a JSON pointer from a resource (RFC 6901). After a schema with "$id" it
// continues in that resource.
func (c *compiler) pointed(home *resource, pointer string) (tree any, at string, in *resource, ok bool) {
	tree, at, in = home.tree, home.at, home
	if pointer == "" {
		return tree, at, in, true
	}
	if pointer[0] != '/' {
		return nil, "", nil, false
	}
	for part := range strings.SplitSeq(pointer[1:], "/") {
		if m, isMap := tree.(map[string]any); isMap && at != in.at {
			if id, hasID := m["$id"].(string); hasID && !strings.HasPrefix(id, "#") {
				if in = c.homes[at]; in == nil {
					in = c.newHome(tree, at)
				}
			}
		}
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch t := tree.(type) {
		case map[string]any:
			if tree, ok = t[part]; !ok {
				return nil, "", nil, false
			}
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(t) {
				return nil, "", nil, false
			}
			tree = t[i]
		default:
			return nil, "", nil, false
		}
		at += "/" + escape(part)
	}
	return tree, at, in, true
}

// percentDecode decodes the escapes of a fragment.
func percentDecode(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	var out []byte
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if b, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				out = append(out, byte(b))
				i += 2
				continue
			}
		}
		out = append(out, text[i])
	}
	return string(out)
}

// weigh counts the schemas that apply to the same value as n, and rejects a schema that applies to
// its own value again, because validation with it would never end.
func (n *node) weigh() error {
	if n.cost > 0 {
		return nil
	}
	if n.entry {
		return errors.New("schema has an infinite reference loop")
	}
	n.entry = true
	cost := 1
	for sub := range n.sameValue {
		if err := sub.weigh(); err != nil {
			return err
		}
		if cost += sub.cost; cost > maxApplied {
			return errors.New("schema has too many subschemas for one value")
		}
	}
	n.cost = cost
	return nil
}

// sameValue yields the schemas that n applies to its own value.
func (n *node) sameValue(yield func(*node) bool) {
	for _, one := range []*node{n.ref, n.dynamicRef, n.not, n.when, n.then, n.other} {
		if one != nil && !yield(one) {
			return
		}
	}
	for _, list := range [][]*node{n.allOf, n.anyOf, n.oneOf} {
		for _, one := range list {
			if !yield(one) {
				return
			}
		}
	}
	for _, d := range n.dependentSchemas {
		if !yield(d.node) {
			return
		}
	}
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

// escape escapes a name as a part of a JSON pointer (RFC 6901, section 3).
func escape(name string) string {
	if !strings.ContainsAny(name, "~/") {
		return name
	}
	return escaper.Replace(name)
}
