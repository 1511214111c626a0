package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/orchestrator"
)

const treePlan = `
name: everything
team: {ann: {target: "http://127.0.0.1:1", protocol: acp}, calc: {target: "http://127.0.0.1:1", protocol: jsonrpc}}
steps:
  - id: both
    join: quorum 1
    parallel:
      - {id: ann, agent: ann, prompt: x}
      - {id: sum, call: calc/add, args: [1, 2]}
  - id: you
    ask: Well?
  - id: each
    map: "{{ json('[1,2]') }}"
    do:
      - {id: first, call: calc/add, args: [1, 2]}
      - {id: second, call: calc/add, args: [1, 2]}
`

// treeOf returns a tree of treePlan that draws into memory.
func treeOf(t *testing.T) (*tree, *bytes.Buffer) {
	t.Helper()
	plan, err := orchestrator.ParsePlan("plan.yaml", []byte(treePlan))
	if err != nil {
		t.Fatal(err)
	}
	out := new(bytes.Buffer)
	return newTree(out, plan), out
}

func begins(path, kind, member string) orchestrator.Event {
	return orchestrator.Event{Kind: orchestrator.EventStarted, Path: path, Step: kind, Member: member, Try: 1}
}

func ends(path, kind string, state orchestrator.State, ms int64, text string) orchestrator.Event {
	r := &orchestrator.Report{Path: path, Kind: kind, State: state, Ms: ms}
	if state == orchestrator.OK {
		r.Output = []agent.Part{agent.Text(text)}
	} else {
		r.Error = &orchestrator.StepError{Kind: text, Text: "because"}
	}
	return orchestrator.Event{Kind: orchestrator.EventEnded, Path: path, Report: r}
}

// TestTree checks how a run is drawn: steps as they appear, running steps with their times,
// questions and results.
func TestTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree, _ := treeOf(t)
		tree.start()
		defer tree.stop()
		look := func(when, want string) {
			t.Helper()
			if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), tree.whole()); diff != "" {
				t.Errorf("%s:\n%s", when, diff)
			}
		}
		look("before it begins", `
everything  0ms
├─ ○ both parallel quorum 1
│  ├─ ○ ann
│  └─ ○ sum add              calc
├─ ○ you ask
└─ ○ each map
`)
		tree.take(begins("both", "parallel", ""))
		tree.take(begins("both/ann", "agent", "ann"))
		tree.take(begins("both/sum", "call", "calc"))
		tree.take(orchestrator.Event{Kind: orchestrator.EventProgress, Path: "both/ann", Progress: &agent.Progress{Done: 2, Total: 9, Message: "thinking"}})
		time.Sleep(3*treeEvery - time.Millisecond)
		tree.mu.Lock()
		tree.tick = 0
		tree.mu.Unlock()
		look("while two run", `
everything  359ms
├─ ⠋ both parallel quorum 1         359ms
│  ├─ ⠋ ann                         359ms  2/9  thinking
│  └─ ⠋ sum add              calc   359ms
├─ ○ you ask
└─ ○ each map
`)
		tree.take(ends("both/sum", "call", orchestrator.OK, 70, "3\nand more"))
		tree.take(ends("both/ann", "agent", orchestrator.Cancelled, 80, orchestrator.KindCancelled))
		tree.take(ends("both", "parallel", orchestrator.OK, 90, "3"))
		tree.take(begins("you", "ask", ""))
		tree.take(orchestrator.Event{Kind: orchestrator.EventQuestion, Path: "you", Question: &agent.Question{Text: "Well?"}})
		look("while it asks", `
everything  359ms
├─ ✓ both parallel quorum 1          90ms
│  ├─ ⊘ ann                          80ms  because
│  └─ ✓ sum add              calc    70ms  3
├─ ? you ask                          0ms  Well?
└─ ○ each map
`)
		tree.take(ends("you", "ask", orchestrator.OK, 1_500, "yes"))
		tree.take(begins("each", "map", ""))
		tree.take(ends("each/2/first", "call", orchestrator.OK, 61_000, "8"))
		tree.take(ends("each/2/second", "call", orchestrator.Failed, 3, orchestrator.KindAnswer))
		tree.take(ends("each/1/first", "call", orchestrator.TimedOut, 3, orchestrator.KindTimeout))
		tree.take(ends("each", "map", orchestrator.Failed, 7_200_000, orchestrator.KindJoin))
		tree.end(&orchestrator.Report{Kind: "plan", State: orchestrator.Failed, Ms: 7_262_000})
		look("at the end", `
✗ everything  2h01m
├─ ✓ both parallel quorum 1          90ms
│  ├─ ⊘ ann                          80ms  because
│  └─ ✓ sum add              calc    70ms  3
├─ ✓ you ask                         1.5s  yes
└─ ✗ each map                       2h00m  join: because
   ├─ ⧖ 1/first                       3ms  because
   └─ ✗ 2
      ├─ ✓ first                     1:01  8
      └─ ✗ second                     3ms  answer: because
`)
	})
}

// TestTreeFits checks that for any terminal size no row is too wide, that the rows fit, and that
// running steps are among them.
func TestTreeFits(t *testing.T) {
	tree, _ := treeOf(t)
	for i := range 200 {
		for _, id := range []string{"first", "second"} {
			path := fmt.Sprintf("each/%d/%s", i+1, id)
			tree.take(begins(path, "call", "calculator-with-a-very-long-name"))
			if i != 150 {
				tree.take(ends(path, "call", orchestrator.OK, 1, strings.Repeat("言葉 ", 60)))
			}
		}
	}
	for width := 20; width < 200; width += 45 {
		for height := 4; height < 60; height += 17 {
			tree.width, tree.height = width, height
			rows := tree.fitting()
			if len(rows) > height-1 {
				t.Fatalf("%d rows for %d", len(rows), height)
			}
			runs := false
			for _, row := range rows {
				if columns(row) > width && width > 40 {
					t.Errorf("a row of %d columns for %d: %q", columns(row), width, row)
				}
				runs = runs || strings.Contains(row, "⠋")
			}
			if !runs {
				t.Errorf("%d x %d: what runs is not shown:\n%s", width, height, strings.Join(rows, "\n"))
			}
		}
	}
}

// TestTreeIsHarmless checks that texts of agents cannot control the terminal.
func TestTreeIsHarmless(t *testing.T) {
	tree, out := treeOf(t)
	evil := "\x1b[2J\x9b31m\u202egone\x07"
	tree.take(begins("both/"+evil, "agent", evil))
	tree.take(orchestrator.Event{Kind: orchestrator.EventOutput, Path: "both/ann", Parts: []agent.Part{agent.Text(evil)}})
	tree.take(orchestrator.Event{Kind: orchestrator.EventProgress, Path: "both/sum", Progress: &agent.Progress{Message: evil}})
	tree.take(orchestrator.Event{Kind: orchestrator.EventQuestion, Path: "you", Question: &agent.Question{Text: evil}})
	tree.take(orchestrator.Event{Kind: orchestrator.EventRetry, Path: "each", Error: &orchestrator.StepError{Kind: "agent", Text: evil}})
	tree.draw()
	for _, own := range []string{"\x1b[?7l", "\x1b[?7h", "\x1b[K", "\x1b[J"} {
		rest := bytes.ReplaceAll(out.Bytes(), []byte(own), nil)
		out.Reset()
		out.Write(rest)
	}
	if strings.ContainsAny(out.String(), "\x1b\x07\u009b\u202e") {
		t.Errorf("it draws %q", out)
	}
}

// TestTreeGivesWay checks that lines are written above the tree, and that the tree is hidden while
// the user types.
func TestTreeGivesWay(t *testing.T) {
	tree, out := treeOf(t)
	tree.draw()
	rows := tree.drawn
	out.Reset()
	tree.line("somebody is away")
	if want := fmt.Sprintf("\x1b[%dA\r\x1b[Jsomebody is away\n\x1b[?7l", rows); !strings.HasPrefix(out.String(), want) {
		t.Errorf("a line is written as %q, want %q first", out, want)
	}
	out.Reset()
	resume := tree.pause()
	tree.draw()
	tree.line("a line")
	if want := fmt.Sprintf("\x1b[%dA\r\x1b[J", rows) + "a line\n"; out.String() != want {
		t.Errorf("while it is paused it writes %q, want %q", out, want)
	}
	out.Reset()
	resume()
	if !strings.HasPrefix(out.String(), "\x1b[?7leverything") {
		t.Errorf("then it writes %q", out)
	}
}

// TestTreeOfReport checks that the tree of a stored run shows its report.
func TestTreeOfReport(t *testing.T) {
	tree := &tree{width: 60, height: 9, name: "kept"}
	tree.fill(&orchestrator.Report{Kind: "plan", State: orchestrator.Interrupted, Steps: []*orchestrator.Report{
		{Path: "a", Kind: "agent", Member: "ann", State: orchestrator.OK, Ms: 5, Output: []agent.Part{{MediaType: "image/png"}}},
		{Path: "b", Kind: "loop", State: orchestrator.Interrupted, Steps: []*orchestrator.Report{
			{Path: "b/1/x", Kind: "call", State: orchestrator.OK, Output: []agent.Part{agent.Value([]int{1})}},
			{Path: "b/2/x", Kind: "call", State: orchestrator.Interrupted},
		}},
	}})
	want := `! kept  0ms
├─ ✓ a       ann     5ms  [image/png]
└─ ! b loop          0ms
   ├─ ✓ 1/x          0ms  [1]
   └─ ! 2/x          0ms
`
	if diff := cmp.Diff(want, tree.whole()); diff != "" {
		t.Error(diff)
	}
}

// TestAnswers checks which --answer matches a question.
func TestAnswers(t *testing.T) {
	options := []agent.Option{{ID: "a1", Name: "Yes", Kind: agent.AllowOnce}, {ID: "r1", Name: "No", Kind: agent.RejectOnce}}
	form := `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","default":7}},"required":["name"]}`
	for _, c := range []struct {
		given []string
		q     orchestrator.Question
		want  string
	}{
		{[]string{"you=well"}, orchestrator.Question{Path: "you"}, "well"},
		{[]string{"a/you=well", "you=ill"}, orchestrator.Question{Path: "a/you"}, "well"},
		{[]string{"ann=hers", "you=well"}, orchestrator.Question{Path: "a/you", Member: "ann"}, "well"},
		{[]string{"ann=a=b"}, orchestrator.Question{Path: "a/you", Member: "ann"}, "a=b"},
		{[]string{"bob=x"}, orchestrator.Question{Path: "a/you", Member: "ann"}, "none"},
		{[]string{"you=yes"}, orchestrator.Question{Path: "you", Question: agent.Question{Options: options}}, "Yes"},
		{[]string{"you=2"}, orchestrator.Question{Path: "you", Question: agent.Question{Options: options}}, "No"},
		{[]string{"you=3"}, orchestrator.Question{Path: "you", Question: agent.Question{Options: options}}, "error"},
		{[]string{"name=Ada"}, orchestrator.Question{Path: "you", Question: agent.Question{Form: []byte(form)}}, `{"name":"Ada","age":7}`},
		{[]string{"name=Ada", "age:=9"}, orchestrator.Question{Path: "you", Question: agent.Question{Form: []byte(form)}}, `{"name":"Ada","age":9}`},
		{[]string{"age=9"}, orchestrator.Question{Path: "you", Question: agent.Question{Form: []byte(form)}}, "none"},
		{[]string{"age=old", "name=Ada"}, orchestrator.Question{Path: "you", Question: agent.Question{Form: []byte(form)}}, "error"},
		{[]string{`you:={"name":"Eve"}`}, orchestrator.Question{Path: "you", Question: agent.Question{Form: []byte(form)}}, `{"name":"Eve"}`},
	} {
		given, err := parseGiven(c.given)
		if err != nil {
			t.Fatal(err)
		}
		r := &planRun{given: given}
		a, ok, err := r.blindly(&c.q, fieldsOf(c.q.Form))
		got := "none"
		switch {
		case err != nil:
			got = "error"
		case ok:
			got = saidOf(&c.q, a)
		}
		if got != c.want {
			t.Errorf("%q to %+v: %s (%v), want %s", c.given, c.q, got, err, c.want)
		}
	}
}

// TestDialogueOfRun checks that the dialogue repeats after invalid input; Ctrl-D declines.
func TestDialogueOfRun(t *testing.T) {
	q := &orchestrator.Question{Path: "a/you", Member: "ann", Question: agent.Question{
		Text: "Two lines,\nthe second.", Options: []agent.Option{{ID: "x", Name: "first"}, {ID: "y", Name: "second"}},
	}}
	for typed, want := range map[string]string{"third\n2\n": "second", "FIRST\n": "first", "third\n": "declined"} {
		var stderr bytes.Buffer
		r := &planRun{app: &app{stdin: strings.NewReader(typed), stderr: &stderr}}
		a, err := r.dialogue(t.Context(), asker(q), q, nil)
		got := "declined"
		if err == nil && !a.Declined {
			got = saidOf(q, a)
		}
		if err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", typed, got, err, want)
		}
		if head := "\na/you: ann asks:\n│ Two lines,\n│ the second.\n    1  first\n    2  second\n> "; !strings.HasPrefix(stderr.String(), head) {
			t.Errorf("it asks\n%s\nwant\n%s", &stderr, head)
		}
	}
	if _, err := (&planRun{app: &app{stderr: new(bytes.Buffer)}}).silence(errInterrupted); !errors.Is(err, errInterrupted) {
		t.Errorf("interrupted: %v", err)
	}
}
