package schema

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/internal/x/harmless"
)

// Bounds of one validation. The budget is about one second of one core.
const (
	// Keywords applied to a value; long strings and comparisons of whole values count more.
	maxSteps      = 10_000_000
	maxExplain    = 4_000_000 // the same, for computing the reasons why a value is invalid
	maxFrames     = 10_000    // nested schemas
	bytesPerStep  = 64
	stepsPerCheck = 1 << 12 // steps between two checks of the context
)

// ErrTooCostly reports that a validation was stopped at its maximum number of steps, because value
// and schema together would take too long.
var ErrTooCostly = errors.New("validation would take too long")

var errTooDeep = errors.New("value and schema are too deep")

// Validate validates a JSON text. It returns nil if the value is valid, an [*InvalidError] if it is
// invalid, [ErrTooCostly] if the result cannot be computed within the bounds of this package, and
// the cause of ctx if ctx ends first.
func (s *Schema) Validate(ctx context.Context, text []byte) error {
	if s.root.always {
		return nil
	}
	value, err := decode(text)
	if err != nil {
		return err
	}
	m := &meter{ctx: ctx, left: maxSteps, untilCheck: stepsPerCheck}
	v := validator{schema: s, meter: m}
	fits := v.apply(value, s.root, v.newSeen())
	if m.err != nil {
		return m.err
	}
	if fits {
		return nil
	}
	// Messages are built in a second pass, so that a valid value does not pay for them.
	m.left = maxExplain
	v = validator{schema: s, meter: m, found: &[]Problem{}}
	v.apply(value, s.root, v.newSeen())
	if context.Cause(ctx) != nil {
		return context.Cause(ctx)
	}
	if len(*v.found) == 0 { // the second pass ran out of steps
		return &InvalidError{[]Problem{{Reason: "does not match the schema"}}}
	}
	return &InvalidError{*v.found}
}

// A meter counts steps.
type meter struct {
	ctx        context.Context
	left       int
	untilCheck int
	err        error
}

// charge takes steps from the budget.
func (m *meter) charge(steps int) {
	m.left -= steps
	if m.left < 0 && m.err == nil {
		m.err = ErrTooCostly
	}
	if m.untilCheck -= steps; m.untilCheck < 0 {
		m.untilCheck = stepsPerCheck
		if m.ctx != nil && m.ctx.Err() != nil && m.err == nil {
			m.err = context.Cause(m.ctx)
		}
	}
}

// spent reports whether validation must stop.
func (m *meter) spent() bool { return m.err != nil }

type validator struct {
	schema *Schema
	*meter
	found  *[]Problem // receives problems; if nil, the first one ends the validation of its value
	path   []string   // path to the value, only while problems are collected
	scope  []*node    // entered schemas
	frames int
}

// seen records which parts of one value were evaluated, for the keywords unevaluatedItems and
// unevaluatedProperties.
type seen struct {
	all   bool // all items or properties
	until int  // items before this index
	items map[int]bool
	names map[string]bool
}

func (v *validator) newSeen() *seen {
	if !v.schema.tracked {
		return nil
	}
	v.charge(4)
	return &seen{}
}

func (v *validator) merge(into, from *seen) {
	if into == nil || from == nil {
		return
	}
	v.charge(2 * (len(from.items) + len(from.names)))
	into.all = into.all || from.all
	into.until = max(into.until, from.until)
	for i := range from.items {
		into.item(i)
	}
	for name := range from.names {
		into.name(name)
	}
}

func (s *seen) item(i int) {
	if s != nil {
		if s.items == nil {
			s.items = map[int]bool{}
		}
		s.items[i] = true
	}
}

func (s *seen) name(name string) {
	if s != nil {
		if s.names == nil {
			s.names = map[string]bool{}
		}
		s.names[name] = true
	}
}

func (s *seen) everything() {
	if s != nil {
		s.all = true
	}
}

// below applies n to a part of the value.
func (v *validator) below(part string, value any, n *node) bool {
	if v.found == nil {
		return v.apply(value, n, v.newSeen())
	}
	v.path = append(v.path, part)
	defer func() { v.path = v.path[:len(v.path)-1] }()
	return v.apply(value, n, v.newSeen())
}

func (v *validator) item(i int, value any, n *node) bool {
	if v.found == nil {
		return v.apply(value, n, v.newSeen())
	}
	return v.below(strconv.Itoa(i), value, n)
}

// full reports whether a failed keyword ends the validation of the value.
func (v *validator) full() bool {
	return v.found == nil || len(*v.found) >= maxProblems || v.spent()
}

// try applies n to the value and returns the problems instead of reporting them.
func (v *validator) try(value any, n *node, s *seen) (bool, []Problem) {
	outer := v.found
	if outer == nil {
		return v.apply(value, n, s), nil
	}
	var own []Problem
	v.found = &own
	fits := v.apply(value, n, s)
	v.found = outer
	return fits, own
}

// test applies n to the value without collecting problems.
func (v *validator) test(value any, n *node, s *seen) bool {
	outer := v.found
	v.found = nil
	fits := v.apply(value, n, s)
	v.found = outer
	return fits
}

// apply reports whether a value satisfies n. It adds what n evaluates to s.
func (v *validator) apply(value any, n *node, s *seen) bool {
	v.charge(1)
	switch {
	case v.spent():
		return false
	case n.always:
		return true
	case n.never:
		return v.fail("", "is not allowed")
	}
	if v.frames++; v.frames > maxFrames {
		v.meter.err = errTooDeep
		return false
	}
	v.scope = append(v.scope, n)
	fits := v.keywords(value, n, s)
	v.scope = v.scope[:len(v.scope)-1]
	v.frames--
	return fits && !v.spent()
}

func (v *validator) keywords(value any, n *node, s *seen) bool {
	fits := true
	check := func(ok bool) (goOn bool) {
		fits = fits && ok
		return ok || !v.full()
	}
	kind := kindOf(value)
	if n.types != 0 {
		v.charge(1)
		if n.types&kind == 0 { // other problems would follow from this one
			return v.wrongType(value, n.types, n.typeNames)
		}
	}
	if n.enum != nil && !check(v.choices(value, n)) {
		return false
	}
	switch value := value.(type) {
	case number:
		if !check(v.number(value, n)) {
			return false
		}
	case string:
		if !check(v.text(value, n)) {
			return false
		}
	}
	if !v.logic(value, n, s, check) {
		return false
	}
	switch value := value.(type) {
	case []any:
		if !v.array(value, n, s, check) {
			return false
		}
	case map[string]any:
		if !v.object(value, n, s, check) {
			return false
		}
	}
	return fits
}

func (v *validator) choices(value any, n *node) bool {
	v.charge(1 + len(n.enum)/bytesPerStep)
	key := string(appendKey(nil, value, v.meter))
	for _, c := range n.enum {
		if c.key == key {
			return true
		}
	}
	return v.problem(func(p *Problem) {
		w := wanted{left: 1}
		w.add(n, 0)
		p.Keyword, p.Got, p.Want = "enum", got(value), w.words
		switch {
		case len(n.enum) == 0:
			p.Reason = "is not allowed"
			return
		case len(n.enum) == 1:
			p.Reason = "must be " + n.enum[0].text + ", not " + mention(value)
			return
		}
		var list []string
		for _, c := range n.enum[:min(len(n.enum), 20)] {
			list = append(list, c.text)
		}
		if len(n.enum) > len(list) {
			list = append(list, fmt.Sprintf("%d others", len(n.enum)-len(list)))
		}
		p.Reason = "must be " + orList(list) + ", not " + mention(value)
	})
}

func (v *validator) number(value number, n *node) bool {
	fits := true
	wrong := func(is bool, keyword, format string, bound *number) {
		v.charge(1)
		if is {
			fits = v.problem(func(p *Problem) {
				p.Keyword, p.Got, p.Want = keyword, value.String(), []string{bound.String()}
				p.Reason = fmt.Sprintf(format+", not %s", *bound, value)
			})
		}
	}
	if n.minimum != nil {
		wrong(value.compare(*n.minimum) < 0, "minimum", "must be at least %s", n.minimum)
	}
	if n.maximum != nil {
		wrong(value.compare(*n.maximum) > 0, "maximum", "must be at most %s", n.maximum)
	}
	if n.exclusiveMinimum != nil {
		wrong(value.compare(*n.exclusiveMinimum) <= 0, "exclusiveMinimum", "must be more than %s", n.exclusiveMinimum)
	}
	if n.exclusiveMaximum != nil {
		wrong(value.compare(*n.exclusiveMaximum) >= 0, "exclusiveMaximum", "must be less than %s", n.exclusiveMaximum)
	}
	if n.multipleOf != nil {
		wrong(!value.isMultipleOf(*n.multipleOf), "multipleOf", "must be a multiple of %s", n.multipleOf)
	}
	return fits
}

func (v *validator) text(value string, n *node) bool {
	fits := true
	if n.minLength != nil || n.maxLength != nil {
		v.charge(1 + len(value)/bytesPerStep)
		length := utf8.RuneCountInString(value)
		if n.minLength != nil && length < *n.minLength {
			fits = v.length("minLength", "must have at least %d characters, not %d", *n.minLength, length)
		}
		if n.maxLength != nil && length > *n.maxLength {
			fits = v.length("maxLength", "must have at most %d characters, not %d", *n.maxLength, length)
		}
	}
	if n.pattern != nil && !v.matches(n.pattern.MatchString, n.patternCost, value) && !v.spent() {
		fits = v.fail("pattern", "must match the pattern %s", harmless.Shorten(n.patternText, 80))
	}
	return fits
}

func (v *validator) length(keyword, format string, bound, length int) bool {
	return v.problem(func(p *Problem) {
		p.Keyword, p.Got, p.Want = keyword, strconv.Itoa(length), []string{strconv.Itoa(bound)}
		p.Reason = fmt.Sprintf(format, bound, length)
	})
}

// matches runs a regular expression. Its time is at most proportional to its size times the length
// of the text (package regexp).
func (v *validator) matches(match func(string) bool, size int, text string) bool {
	v.charge(4 + size*(len(text)+1)/16)
	return !v.spent() && match(text)
}

// logic applies the schemas for the same value.
func (v *validator) logic(value any, n *node, s *seen, check func(bool) bool) bool {
	apply := func(sub *node) bool {
		own := v.newSeen()
		ok := v.apply(value, sub, own)
		if ok {
			v.merge(s, own)
		}
		return ok
	}
	if n.ref != nil && !check(apply(n.ref)) {
		return false
	}
	if n.dynamicRef != nil && !check(apply(v.dynamic(n))) {
		return false
	}
	for _, sub := range n.allOf {
		if !check(apply(sub)) {
			return false
		}
	}
	if n.anyOf != nil && !check(v.some(value, n.anyOf, s)) {
		return false
	}
	if n.oneOf != nil && !check(v.exactlyOne(value, n.oneOf, s)) {
		return false
	}
	if n.not != nil && v.test(value, n.not, v.newSeen()) && !v.spent() && !check(v.fail("not", "matches a schema that is not allowed")) {
		return false
	}
	if n.when != nil {
		own := v.newSeen()
		branch := n.other
		if v.test(value, n.when, own) {
			v.merge(s, own)
			branch = n.then
		}
		if branch != nil && !check(apply(branch)) {
			return false
		}
	}
	return !v.spent()
}

// dynamic resolves $dynamicRef to the outermost schema with that dynamic anchor (2020-12, section
// 8.2.3.2).
func (v *validator) dynamic(n *node) *node {
	if n.dynamicName == "" {
		return n.dynamicRef
	}
	v.charge(len(v.scope))
	for _, outer := range v.scope {
		if a, ok := outer.home.anchors[n.dynamicName]; ok && a.dynamic {
			if found := v.schema.nodes[a.at]; found != nil {
				return found
			}
		}
	}
	return n.dynamicRef
}

// some applies anyOf.
func (v *validator) some(value any, list []*node, s *seen) bool {
	fits := false
	var tried []branch
	for _, sub := range list {
		own := v.newSeen()
		ok, problems := v.try(value, sub, own)
		if ok {
			v.merge(s, own)
			fits = true
			if s == nil {
				return true
			}
			continue
		}
		if v.spent() {
			return false
		}
		tried = append(tried, branch{sub, problems})
	}
	return fits || v.explain("anyOf", value, tried)
}

// exactlyOne applies oneOf.
func (v *validator) exactlyOne(value any, list []*node, s *seen) bool {
	count := 0
	var tried []branch
	for _, sub := range list {
		own := v.newSeen()
		ok, problems := v.try(value, sub, own)
		if ok {
			v.merge(s, own)
			if count++; count > 1 {
				return v.fail("oneOf", "matches more than one of the %d alternatives", len(list))
			}
			continue
		}
		if v.spent() {
			return false
		}
		tried = append(tried, branch{sub, problems})
	}
	return count == 1 || v.explain("oneOf", value, tried)
}

func (v *validator) array(value []any, n *node, s *seen, check func(bool) bool) bool {
	for i, sub := range n.prefixItems {
		if i >= len(value) {
			break
		}
		if !check(v.item(i, value[i], sub)) {
			return false
		}
	}
	if s != nil {
		s.until = max(s.until, min(len(n.prefixItems), len(value)))
	}
	if n.items != nil {
		for i := len(n.prefixItems); i < len(value); i++ {
			if !check(v.item(i, value[i], n.items)) {
				return false
			}
		}
		s.everything()
	}
	if n.contains != nil && !check(v.contains(value, n, s)) {
		return false
	}
	if n.minItems != nil && len(value) < *n.minItems && !check(v.fail("minItems", "must have at least %d items, not %d", *n.minItems, len(value))) {
		return false
	}
	if n.maxItems != nil && len(value) > *n.maxItems && !check(v.fail("maxItems", "must have at most %d items, not %d", *n.maxItems, len(value))) {
		return false
	}
	if n.uniqueItems && len(value) > 1 && !check(v.unique(value)) {
		return false
	}
	if n.unevaluatedItems != nil && !s.all {
		for i := s.until; i < len(value); i++ {
			if !s.items[i] && !check(v.item(i, value[i], n.unevaluatedItems)) {
				return false
			}
		}
		s.everything()
	}
	return !v.spent()
}

func (v *validator) contains(value []any, n *node, s *seen) bool {
	least := 1
	if n.minContains != nil {
		least = *n.minContains
	}
	count := 0
	for i, one := range value {
		if v.test(one, n.contains, v.newSeen()) {
			count++
			s.item(i)
		}
		if v.spent() {
			return false
		}
	}
	if count < least {
		return v.fail("contains", "must have at least %d items that match contains, not %d", least, count)
	}
	if n.maxContains != nil && count > *n.maxContains {
		return v.fail("contains", "must have at most %d items that match contains, not %d", *n.maxContains, count)
	}
	return true
}

func (v *validator) unique(value []any) bool {
	at := make(map[[sha256.Size]byte]int, len(value))
	var key []byte
	for i, one := range value {
		v.charge(8)
		key = appendKey(key[:0], one, v.meter)
		if v.spent() {
			return false
		}
		sum := sha256.Sum256(key)
		if first, twice := at[sum]; twice {
			return v.fail("uniqueItems", "must not have duplicate items: items %d and %d are equal", first, i)
		}
		at[sum] = i
	}
	return true
}

func (v *validator) object(value map[string]any, n *node, s *seen, check func(bool) bool) bool {
	v.charge(len(n.required))
	for _, name := range n.required {
		if _, ok := value[name]; !ok && !check(v.missing(name)) {
			return false
		}
	}
	v.charge(len(n.names))
	for _, name := range n.names {
		one, ok := value[name]
		if !ok {
			continue
		}
		s.name(name)
		if !check(v.below(name, one, n.properties[name])) {
			return false
		}
	}
	if (n.patterns != nil || n.additional != nil || n.propertyNames != nil) && !v.members(value, n, s, check) {
		return false
	}
	if n.minProperties != nil && len(value) < *n.minProperties && !check(v.fail("minProperties", "must have at least %d members, not %d", *n.minProperties, len(value))) {
		return false
	}
	if n.maxProperties != nil && len(value) > *n.maxProperties && !check(v.fail("maxProperties", "must have at most %d members, not %d", *n.maxProperties, len(value))) {
		return false
	}
	for _, d := range n.dependentRequired {
		v.charge(1 + len(d.also))
		if _, ok := value[d.name]; !ok {
			continue
		}
		for _, name := range d.also {
			if _, ok := value[name]; !ok && !check(v.missing(name)) {
				return false
			}
		}
	}
	for _, d := range n.dependentSchemas {
		if _, ok := value[d.name]; !ok {
			continue
		}
		own := v.newSeen()
		ok := v.apply(value, d.node, own)
		if ok {
			v.merge(s, own)
		}
		if !check(ok) {
			return false
		}
	}
	if n.unevaluatedProperties != nil && !s.all {
		for name, one := range v.each(value) {
			if !s.names[name] && !check(v.unknown(name, one, n.unevaluatedProperties)) {
				return false
			}
		}
		s.everything()
	}
	return !v.spent()
}

// members applies the keywords about the names of members.
func (v *validator) members(value map[string]any, n *node, s *seen, check func(bool) bool) bool {
	for name, one := range v.each(value) {
		v.charge(1)
		_, known := n.properties[name]
		for i := range n.patterns {
			p := &n.patterns[i]
			if v.matches(p.re.MatchString, p.cost, name) {
				known = true
				s.name(name)
				if !check(v.below(name, one, p.node)) {
					return false
				}
			}
		}
		if n.additional != nil && !known && !check(v.unknown(name, one, n.additional)) {
			return false
		}
		if n.propertyNames != nil && !check(v.below(name, name, n.propertyNames)) {
			return false
		}
		if v.spent() {
			return false
		}
	}
	if n.additional != nil {
		s.everything()
	}
	return true
}

// unknown applies the schema for members that no other keyword covers.
func (v *validator) unknown(name string, one any, n *node) bool {
	if !n.never {
		return v.below(name, one, n)
	}
	if v.found != nil {
		v.path = append(v.path, name)
		v.fail("additionalProperties", "unknown member")
		v.path = v.path[:len(v.path)-1]
	}
	return false
}

func (v *validator) missing(name string) bool {
	if v.found != nil {
		v.path = append(v.path, name)
		v.fail("required", "is required")
		v.path = v.path[:len(v.path)-1]
	}
	return false
}

// each yields the members of an object, in the order of their names while problems are collected.
func (v *validator) each(value map[string]any) func(func(string, any) bool) {
	return func(yield func(string, any) bool) {
		if v.found == nil {
			for name, one := range value {
				if !yield(name, one) {
					return
				}
			}
			return
		}
		for _, name := range sortedKeys(value) {
			if !yield(name, value[name]) {
				return
			}
		}
	}
}
