package conformance

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

// program returns the path of the program under test.
func program(t *testing.T) string {
	if path := os.Getenv("PARLEY"); path != "" {
		return path
	}
	return harness.Parley(t)
}

// A tally counts the rules that passed, by document and transport.
type tally struct {
	mu     sync.Mutex
	passed map[string]map[string]int
	all    map[string]map[string]int
	broken map[string]*breach // by the id of the rule
}

// A breach is a rule that failed.
type breach struct {
	rule Rule
	over map[string][]string // failures, and the transports on which each occurred
}

func (c *tally) count(r Rule, carrier string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range []*map[string]map[string]int{&c.passed, &c.all} {
		if *m == nil {
			*m = make(map[string]map[string]int)
		}
		if (*m)[r.Document()] == nil {
			(*m)[r.Document()] = make(map[string]int)
		}
	}
	c.all[r.Document()][carrier]++
	if err == nil {
		c.passed[r.Document()][carrier]++
		return
	}
	if c.broken == nil {
		c.broken = make(map[string]*breach)
	}
	if c.broken[r.ID] == nil {
		c.broken[r.ID] = &breach{r, make(map[string][]string)}
	}
	b := c.broken[r.ID]
	b.over[err.Error()] = append(b.over[err.Error()], carrier)
}

// workers is the number of rules that run concurrently on one transport.
const workers = 4

// only selects the rules by id. With -short, rules that wait for the server's long timers are
// omitted.
var only = flag.String("rules", "", "a regular expression; run the rules whose id matches")

func TestConformance(t *testing.T) {
	choice, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	var rules []Rule
	for _, r := range Rules() {
		if choice.MatchString(r.ID) && !(r.slow && testing.Short()) {
			rules = append(rules, r)
		}
	}
	d, err := Start(context.WithoutCancel(t.Context()), program(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var counts tally
	var wg sync.WaitGroup
	// No subtests: these are limited to the number of processors, and most rules wait.
	for _, carrier := range Carriers {
		wg.Go(func() { runAll(d, carrier, rules, &counts) })
	}
	wg.Wait()
	for _, b := range sorted(counts.broken) {
		var what strings.Builder
		for err, carriers := range sorted(b.over) {
			slices.Sort(carriers)
			fmt.Fprintf(&what, "\n over  %s: %s", strings.Join(carriers, ", "), err)
		}
		t.Errorf("%s (%s)\n sends %s\n wants %s%s", b.rule.ID, b.rule.Source, printable(b.rule.Sends), printable(b.rule.Wants), what.String())
	}
	if err := d.Stop(); err != nil {
		t.Errorf("parley demo ended with %v", err)
	}
	if t.Failed() {
		t.Logf("the end of its log:\n%s", tail(d.log.String(), 4000))
	}
	counts.print(t)
}

// runAll runs the rules of one transport, a few at a time; those that wait for seconds run all at
// once.
func runAll(d *Demo, carrier string, rules []Rule, counts *tally) {
	queue := make(chan Rule)
	var wg sync.WaitGroup
	run := func(r Rule) {
		counts.count(r, carrier, r.check(d, carrier))
	}
	for range workers {
		wg.Go(func() {
			for r := range queue {
				run(r)
			}
		})
	}
	for _, r := range rules {
		switch {
		case !slices.Contains(r.On, carrier):
		case r.slow:
			wg.Go(func() { run(r) })
		default:
			queue <- r
		}
	}
	close(queue)
	wg.Wait()
}

func printable(text string) string {
	text = fmt.Sprintf("%+q", shorten([]byte(text), 600))
	return strings.ReplaceAll(text[1:len(text)-1], `\"`, `"`)
}

func tail(text string, n int) string {
	return text[max(0, len(text)-n):]
}

// print writes the table: the number of rules of each source that passed on each transport.
func (c *tally) print(t *testing.T) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%-16s", "source")
	for _, carrier := range Carriers {
		fmt.Fprintf(&b, "%14s", carrier)
	}
	b.WriteByte('\n')
	total, good := make(map[string]int), make(map[string]int)
	for document, byCarrier := range sorted(c.all) {
		fmt.Fprintf(&b, "%-16s", document)
		for _, carrier := range Carriers {
			fmt.Fprintf(&b, "%14s", ratio(c.passed[document][carrier], byCarrier[carrier]))
			total[carrier] += byCarrier[carrier]
			good[carrier] += c.passed[document][carrier]
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%-16s", "all")
	for _, carrier := range Carriers {
		fmt.Fprintf(&b, "%14s", ratio(good[carrier], total[carrier]))
	}
	t.Logf("rules that passed, of those that ran:\n%s", b.String())
}

func ratio(good, all int) string {
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", good, all)
}
