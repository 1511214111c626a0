package conformance

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// program is what is tested.
func program(t *testing.T) string {
	if path := os.Getenv("PARLEY"); path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), "parley")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/parley")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build parley: %v\n%s", err, out)
	}
	return path
}

// A tally counts what passed, by document and carrier.
type tally struct {
	mu     sync.Mutex
	passed map[string]map[string]int
	all    map[string]map[string]int
	broken map[string]*breach // by the rule's id
}

// A breach is a rule that did not hold.
type breach struct {
	rule Rule
	over map[string][]string // what happened, and the carriers on which it did
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

// workers is how many rules run at once on one carrier.
const workers = 4

// only leaves out the rules whose id does not match. With -short those are left out that wait for the server's long timers.
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
	for _, carrier := range Carriers { // no subtests: those run no more at once than there are processors, and most rules wait
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

// runAll runs the rules of one carrier, a few at a time; those that wait for seconds all at once.
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

// print writes the table: how many rules of each source passed on each carrier.
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
