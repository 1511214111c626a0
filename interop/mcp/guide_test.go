package mcp_test

import (
	"bufio"
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

// A guide is one page of docs/guides whose commands are run.
type guide struct {
	page     string
	examples []string          // examples whose code it shows
	programs map[string]string // by their names in the commands
	runs     int               // number of command blocks
}

var guides = []guide{
	{"mcp-server.md", []string{"mcpserver"}, map[string]string{"notes": "./examples/mcpserver"}, 5},
	{"mcp-client.md", []string{"mcpclient"}, map[string]string{"mcpclient": "./examples/mcpclient"}, 6},
}

// TestGuidesRunAsTheyStand runs the commands of the guides, with different ports, and compares
// their output with the guides. The Go code of the guides must be that of the examples.
func TestGuidesRunAsTheyStand(t *testing.T) {
	t.Parallel()
	demo, err := url.Parse(harness.Demo(t, "http://127.0.0.1:0")[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range guides {
		t.Run(g.page, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("../../docs/guides", g.page))
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			link(t, harness.Parley(t), filepath.Join(dir, "parley"))
			for name, pkg := range g.programs {
				link(t, harness.Program(t, pkg), filepath.Join(dir, name))
			}
			ports := strings.NewReplacer(":3000/", ":"+demo.Port()+"/")
			blocks := strings.Split(string(text), "```")
			ran := 0
			for i := 1; i < len(blocks); i += 2 {
				kind, code, _ := strings.Cut(blocks[i], "\n")
				switch kind {
				case "go":
					isInExamples(t, g.examples, code)
				case "sh server": // a program serves it in another terminal
					port := serveNotes(t, filepath.Join(dir, "notes"))
					code = strings.ReplaceAll(code, ":8080/", ":"+port+"/")
					fallthrough
				case "sh":
					_, want, _ := strings.Cut(blocks[i+2], "\n")
					runCommands(t, dir, ports.Replace(code), want)
					ran++
				}
			}
			if ran != g.runs {
				t.Errorf("%d blocks of commands ran, the guide has %d", ran, g.runs)
			}
		})
	}
}

func link(t *testing.T, program, name string) {
	t.Helper()
	if err := os.Symlink(program, name); err != nil {
		t.Fatal(err)
	}
}

func isInExamples(t *testing.T, examples []string, code string) {
	t.Helper()
	for _, name := range examples {
		program, err := os.ReadFile(filepath.Join("../../examples", name, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(program), code) {
			return
		}
	}
	t.Errorf("the guide shows what no example has:\n%s", code)
}

// runCommands runs shell commands and compares their output.
func runCommands(t *testing.T, dir, code, want string) {
	t.Helper()
	cmd := exec.CommandContext(within(t), "bash", "-c", code)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"), "XDG_STATE_HOME="+t.TempDir())
	got, err := cmd.CombinedOutput()
	if err != nil && !strings.Contains(code, "=\" \"") { // the one that must fail
		t.Errorf("%v:\n%s", err, code)
	}
	if strings.TrimSpace(string(got)) != strings.TrimSpace(want) {
		t.Errorf("%s\nprints\n%s\nwant\n%s", code, got, want)
	}
}

// serveNotes runs the example server over HTTP until the test ends, and returns its port.
func serveNotes(t *testing.T, program string) (port string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := harness.Command(ctx, t, []string{program, "127.0.0.1:0"})
	stderr, err := cmd.StderrPipe()
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // ended by the signal
	})
	line, err := bufio.NewReader(stderr).ReadString('\n')
	found := servesAt.FindStringSubmatch(line)
	if err != nil || found == nil {
		t.Fatalf("the server says %q: %v", line, err)
	}
	return found[1]
}

// servesAt matches the URL that the example prints.
var servesAt = regexp.MustCompile(`http://127\.0\.0\.1:(\d+)/mcp`)

// TestReadmeShowsWhatIsPrinted compares the transcript of the README with the output of `parley
// mcp`.
func TestReadmeShowsWhatIsPrinted(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	demo, err := url.Parse(harness.Demo(t, "http://127.0.0.1:0")[0])
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	link(t, harness.Parley(t), filepath.Join(dir, "parley"))
	ran := 0
	for _, block := range strings.Split(string(readme), "```console\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if !strings.HasPrefix(block, "$ parley mcp") {
			continue
		}
		var command, want string
		finish := func() {
			if command != "" {
				runCommands(t, dir, strings.ReplaceAll(command, ":3000/", ":"+demo.Port()+"/"), want)
				ran++
			}
		}
		lines := bufio.NewScanner(strings.NewReader(block))
		for lines.Scan() {
			if next, ok := strings.CutPrefix(lines.Text(), "$ "); ok {
				finish()
				command, want = next, ""
			} else {
				want += lines.Text() + "\n"
			}
		}
		finish()
	}
	if ran < 3 {
		t.Errorf("%d commands ran; the README shows more", ran)
	}
}
