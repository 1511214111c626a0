// Command journeys counts the files, packages and functions that one message passes, and how often
// JSON is parsed and encoded on the way. Run it with
//
//	go run -cover -covermode=atomic -coverpkg=github.com/da1ed7bb/parley/... ./journeys
//
// in the folder bench. Each journey runs once before it is counted, so that connections are open
// and types are known. The clients are raw bytes of this program, and are not counted.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/coverage"
	"slices"
	"strconv"
	"strings"
	"time"
)

const module = "github.com/da1ed7bb/parley/"

// limit is how long one journey may take.
const limit = 30 * time.Second

// A journey sends one message, and receives everything that it causes.
type journey struct {
	name string
	// start returns the function that makes the journey once, and the one that ends its server.
	start func(ctx context.Context) (once func() error, end func(), err error)
}

var journeys = []journey{
	{"POST, typed handler, back", overHTTP},
	{"MCP tools/call that asks the user, lines", mcpLines},
	{"MCP tools/call over HTTP, 2026-07-28", mcpHTTP},
	{"A2A message/stream, 5 events", a2aStream},
	{"one HTTP call, seen on the page of a tap", tapPage},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "journeys:", err)
		os.Exit(1)
	}
}

func run() error {
	fmt.Println("| journey | files | packages | functions | parses | encodings |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, j := range journeys {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		err := count(ctx, j)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", j.name, err)
		}
	}
	return nil
}

// count makes a journey twice and prints what the second one passed.
func count(ctx context.Context, j journey) error {
	once, end, err := j.start(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := once(); err != nil {
		return err
	}
	time.Sleep(300 * time.Millisecond) // what follows the first journey has ended
	if err := coverage.ClearCounters(); err != nil {
		return fmt.Errorf("%w; build with -cover -covermode=atomic", err)
	}
	if err := once(); err != nil {
		return err
	}
	time.Sleep(300 * time.Millisecond) // likewise
	dir, err := os.MkdirTemp("", "journeys")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(coverage.WriteMetaDir(dir), coverage.WriteCountersDir(dir)); err != nil {
		return err
	}
	profile := filepath.Join(dir, "profile")
	if out, err := exec.CommandContext(ctx, "go", "tool", "covdata", "textfmt", "-i", dir, "-o", profile).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return err
	}
	c := counted{files: map[string]bool{}, packages: map[string]bool{}, passed: map[string][][2]int{}}
	for line := range strings.Lines(string(text)) {
		c.block(strings.TrimSpace(line))
	}
	functions, parses, encodings, err := c.functions()
	if err != nil {
		return err
	}
	fmt.Printf("| %s | %d | %d | %d | %d | %d |\n", j.name, len(c.files), len(c.packages), functions, parses, encodings)
	if os.Getenv("JOURNEYS_LIST") != "" {
		slices.Sort(c.names)
		fmt.Println(strings.Join(c.names, "\n"))
	}
	return nil
}

// counted is what one journey passed.
type counted struct {
	files, packages map[string]bool
	passed          map[string][][2]int // file: line and count of each block
	names           []string            // of the functions
}

// block reads a line of a profile, such as "FILE:12.3,14.5 2 1".
func (c *counted) block(line string) {
	name, rest, ok := strings.Cut(line, ":")
	fields := strings.Fields(rest)
	if !ok || len(fields) != 3 || !strings.HasPrefix(name, module) || strings.Contains(name, "/bench/") {
		return
	}
	n, _ := strconv.Atoi(fields[2]) // a profile has digits here
	if n == 0 {
		return
	}
	begin, _, _ := strings.Cut(fields[0], ".")
	at, _ := strconv.Atoi(begin) // likewise
	name = strings.TrimPrefix(name, module)
	c.files[name], c.packages[path.Dir(name)] = true, true
	c.passed[name] = append(c.passed[name], [2]int{at, n})
}
