package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

const junitSuite = `
calls:
  - {name: passes, method: subtract, params: [42, 23], asserts: [$.result equals 19]}
  - {name: "fails ]]> <x> & \u001b[31m", method: echo, params: ["]]> </failure> \u0001"], asserts: [$.result missing]}
  - {name: cannot be reached, target: "tcp://127.0.0.1:1", method: x}
  - {name: is skipped, method: x, skip: "<later>"}
`

// TestJUnit checks that the JUnit XML of parley test and parley check is valid by a schema of the
// format, and that junitparser reads the outcomes.
func TestJUnit(t *testing.T) {
	t.Parallel()
	program, target, dir := harness.Parley(t), harness.Demo(t, "http://127.0.0.1:0")[0], t.TempDir()
	suite, tested, checked := filepath.Join(dir, "suite.yaml"), filepath.Join(dir, "test.xml"), filepath.Join(dir, "check.xml")
	if err := os.WriteFile(suite, []byte("target: "+target+junitSuite), 0o600); err != nil {
		t.Fatal(err)
	}
	// Calls that fail are a part of the suite, so its exit code is 1.
	if out, err := exec.CommandContext(t.Context(), program, "test", suite, "--junit", tested).CombinedOutput(); err == nil || !strings.Contains(string(out), "1 passed, 1 failed, 1 error, 1 skipped") {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), program, "check", target, "--only", "batch,id,fail", "--junit", checked).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lint, err := exec.LookPath("xmllint")
	if err != nil {
		t.Fatalf("xmllint is missing (%v); run: make setup", err)
	}
	if out, err := exec.CommandContext(t.Context(), lint, "--noout", "--schema", "testdata/junit.xsd", tested, checked).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	argv := harness.Python(t, "junit_reader.py", tested, checked)
	out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := "4 1 1 1\nsuite | passes | \nsuite | fails ]]> <x> & \ufffd[31m | Failure\nsuite | cannot be reached | Error\nsuite | is skipped | Skipped\n"
	rest, ok := strings.CutPrefix(string(out), want)
	if !ok || strings.Count(rest, "\nbatch | ") < 30 {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}
