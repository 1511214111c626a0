// Command mutate changes one line of the code at random and runs the tests, many times: what the
// tests do not notice, they do not hold. Each change is seen by the compiler only, through an
// overlay; no file is touched.
//
//	go run ./mutate -n 100 -seed 7        in the folder tools; make mutate N=100 SEED=7
//
// It prints a line for each change: killed (a test failed, or did not end), survived, or equivalent
// (listed in equivalent.txt with the reason why no test can tell). It fails if fewer than 90 % of
// the others are killed, or more than a tenth are equivalent.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A target is code that is changed, and the packages whose tests must notice, cheapest first.
type target struct {
	pattern string // of files, below the module's root
	tests   []string
}

// targets are in the order of precedence: the first whose pattern matches a file counts.
var targets = []target{
	{"jsonrpc/*.go", []string{"./jsonrpc", "./transport/stream", "./transport/inproc", "./transport/httprpc", "."}},
	{"transport/httprpc/*.go", []string{"./transport/httprpc", "."}},
	{"transport/inproc/*.go", []string{"./transport/inproc", "./jsonrpc"}},
	{"transport/socket/*.go", []string{"./transport/socket", "."}},
	{"internal/eventstream/*.go", []string{"./internal/eventstream", "./transport/httprpc", "./transport/streamable"}},
	{"transport/sse/*.go", []string{"./transport/sse", "./transport/streamable", "./mcp/mcphttp"}},
	{"transport/stdio/*.go", []string{"./transport/stdio", "."}},
	{"transport/stream/*.go", []string{"./transport/stream", "./transport/socket", "."}},
	{"transport/streamable/*.go", []string{"./transport/streamable", "./mcp/mcphttp"}},
	{"transport/websocket/*.go", []string{"./transport/websocket", "."}},
	{"capture/redact.go", []string{"./capture", "./capture/tap"}},
	{"mcp/*.go", []string{"./mcp", "./mcp/mcphttp"}},
	{"store/*.go", []string{"./store", "./store/sqlite"}},
	{"store/sqlite/*.go", []string{"./store/sqlite"}},
}

type settings struct {
	n       int
	seed    uint64
	timeout time.Duration // of the tests of one package; 0 means factor times their time
	factor  float64
	only    string
	narrow  bool // without the tests of the module's root, which take minutes
	verbose bool
}

func main() {
	var s settings
	flag.IntVar(&s.n, "n", 20, "how many changes to try")
	flag.Uint64Var(&s.seed, "seed", 0, "the seed of the choice; 0 takes one from the clock")
	flag.DurationVar(&s.timeout, "timeout", 0, "how long the tests of one package may take; longer is killed. 0 takes it from their time without a change")
	flag.Float64Var(&s.factor, "factor", 4, "without -timeout: how many times as long as without a change the tests may take, at least 90 s")
	flag.StringVar(&s.only, "only", "", "only files whose path contains this")
	flag.BoolVar(&s.narrow, "narrow", false, "without the tests of the module's root, which take minutes")
	flag.BoolVar(&s.verbose, "v", false, "print how the tests noticed")
	flag.Parse()
	if s.seed == 0 {
		s.seed = uint64(time.Now().UnixNano()) //nolint:gosec // any number will do
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has been called
	}
}

func run(ctx context.Context, s settings) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	known, err := readEquivalents(filepath.Join(root, "tools", "mutate", "equivalent.txt"))
	if err != nil {
		return err
	}
	all, err := mutations(root, s.only)
	if err != nil {
		return err
	}
	fmt.Printf("seed %d, %d possible changes\n", s.seed, len(all))
	random := rand.New(rand.NewPCG(s.seed, 0)) //nolint:gosec // which lines are changed is no secret
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })

	work, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }() // it is in the folder of temporary files
	b := bench{root: root, work: work, settings: s, limits: map[string]time.Duration{}}
	var survived []mutation
	killed, equivalent := 0, 0
	for _, m := range all {
		if killed+equivalent+len(survived) == s.n || ctx.Err() != nil {
			break
		}
		if known[m.key()] {
			equivalent++
			fmt.Printf("equivalent  %s\n", m)
			continue
		}
		switch v, how := b.try(ctx, m); v {
		case doesNotCompile: // the compiler holds it: another one
		case isKilled:
			killed++
			fmt.Printf("killed      %s\n", m)
			if s.verbose {
				fmt.Printf("            %s\n", how)
			}
		case isSurvived:
			survived = append(survived, m)
			fmt.Printf("survived    %s\n", m)
		case isInterrupted:
			if ctx.Err() == nil {
				return errors.New(how)
			}
		}
	}
	tried := killed + len(survived)
	fmt.Printf("seed %d: %d changes, %d killed, %d survived, %d equivalent\n", s.seed, tried+equivalent, killed, len(survived), equivalent)
	for _, m := range survived {
		// a line for equivalent.txt, where the reason is missing
		fmt.Printf("%s\t%s\t%s\t\n", m.file, m.before, m.after)
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case killed*10 < tried*9:
		return fmt.Errorf("%d of %d killed: fewer than nine of ten", killed, tried)
	case equivalent*10 > s.n:
		return fmt.Errorf("%d of %d are listed as equivalent: more than a tenth", equivalent, s.n)
	}
	return nil
}

// moduleRoot is the folder of the main module: the one above that of the tools.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	return filepath.Dir(filepath.Dir(strings.TrimSpace(string(out)))), nil
}

// readEquivalents reads the changes that no test can notice: file, line before, line after and the
// reason, with tabs between them. The lines are without the white space around them, and no number
// of a line is in it, so that it stays right when other lines move.
func readEquivalents(path string) (map[string]bool, error) {
	text, err := os.ReadFile(path) //nolint:gosec // a file of this checkout
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) != 4 || fields[3] == "" {
			return nil, fmt.Errorf("%s: %q: want file, before, after and a reason, with tabs between them", path, line)
		}
		known[strings.Join(fields[:3], "\t")] = true
	}
	return known, nil
}

type verdict uint8

const (
	doesNotCompile verdict = iota
	isKilled
	isSurvived
	isInterrupted
)

// readers are tests of the main package that read the source: what an overlay changes, they do not
// see.
const readers = "^(TestImportsPointInward|TestFilesAreMadeInOnePlace|TestNothingOfThisMachineIsInTheFiles|TestEvery.*Dependency.*|TestEveryPackageExplainsItself|" +
	"TestEveryHandlerEndsAfterChunked|TestSoak|TestDoc.*|TestGuide.*|TestReadme.*)$"

// A bench tries changes.
type bench struct {
	root, work string
	settings
	limits map[string]time.Duration // of the tests of packages that pass without a change
}

const (
	leastTime = 90 * time.Second // of the tests of one package, without -timeout
	mostTime  = 20 * time.Minute // the same without a change
)

// test runs the tests of a package, for at most limit. overlay may be "".
func (b *bench) test(ctx context.Context, overlay, pkg string, limit time.Duration) ([]byte, error) {
	args := []string{"test", "-count=1", "-failfast", "-vet=off", "-skip", readers, "-timeout", limit.String()}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	return b.goTool(ctx, limit, append(args, pkg)...)
}

// baseline makes sure that a package's tests pass without a change: otherwise every change would
// look killed. It returns how long they may take with one: some times as long, because the machine
// may be busier then.
func (b *bench) baseline(ctx context.Context, pkg string) (time.Duration, error) {
	if limit := b.limits[pkg]; limit > 0 {
		return limit, nil
	}
	limit := b.timeout
	if limit == 0 {
		limit = mostTime
	}
	start := time.Now()
	if _, err := b.test(ctx, "", pkg, limit); err != nil { // once more: a test that depends on time may fail on a busy machine
		start = time.Now()
		if out, err := b.test(ctx, "", pkg, limit); err != nil {
			return 0, fmt.Errorf("the tests of %s fail without any change: %s", pkg, firstFailure(out))
		}
	}
	if b.timeout == 0 {
		limit = allowed(time.Since(start), b.factor)
	}
	b.limits[pkg] = limit
	if b.verbose {
		fmt.Printf("            the tests of %s may take %v\n", pkg, limit)
	}
	return limit, nil
}

// allowed returns how long tests may take that took the given time without a change.
func allowed(took time.Duration, factor float64) time.Duration {
	return max(leastTime, time.Duration(float64(took)*factor)).Round(time.Second)
}

func (b *bench) try(ctx context.Context, m mutation) (verdict, string) {
	changed := filepath.Join(b.work, "changed.go")
	overlay := filepath.Join(b.work, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(b.root, m.file): changed}})
	if err != nil {
		return isInterrupted, err.Error()
	}
	if err := errors.Join(os.WriteFile(changed, m.text, 0o600), os.WriteFile(overlay, text, 0o600)); err != nil {
		return isInterrupted, err.Error()
	}
	if _, err := b.goTool(ctx, mostTime, "build", "-overlay", overlay, "./"+filepath.ToSlash(filepath.Dir(m.file))); err != nil {
		return doesNotCompile, ""
	}
	for _, pkg := range m.tests {
		if b.narrow && pkg == "." {
			continue
		}
		limit, err := b.baseline(ctx, pkg)
		if err != nil {
			return isInterrupted, err.Error()
		}
		out, err := b.test(ctx, overlay, pkg, limit)
		if ctx.Err() != nil {
			return isInterrupted, ""
		}
		if err != nil {
			return isKilled, pkg + ": " + firstFailure(out)
		}
	}
	return isSurvived, ""
}

// goTool runs go. limit is the time that go test has for its tests.
func (b *bench) goTool(ctx context.Context, limit time.Duration, args ...string) ([]byte, error) {
	// a test may ignore its own timeout, and it has to be built first
	ctx, cancel := context.WithTimeout(ctx, 2*limit+5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.root
	cmd.WaitDelay = 5 * time.Second // children of a test that was killed hold its output
	return cmd.CombinedOutput()
}

// firstFailure is the line that says what failed.
func firstFailure(out []byte) string {
	for line := range bytes.Lines(out) {
		if bytes.Contains(line, []byte("--- FAIL")) || bytes.HasPrefix(line, []byte("panic:")) {
			return string(bytes.TrimSpace(line))
		}
	}
	lines := slices.Collect(bytes.Lines(out))
	if len(lines) == 0 {
		return "no output"
	}
	return string(bytes.TrimSpace(lines[len(lines)-1]))
}
