package junit_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/internal/x/junit"
)

func Example() {
	r := &junit.Report{Name: "mine", Suites: []junit.Suite{{Name: "first", Cases: []junit.Case{
		{Name: "adds", Class: "mine.first", Time: 12 * time.Millisecond},
		{Name: "subtracts", Class: "mine.first", Failure: &junit.Message{Message: "18 is not 19", Type: "equals"}},
	}}}}
	if err := junit.Write(os.Stdout, r); err != nil {
		panic(err)
	}
	// Output:
	// <?xml version="1.0" encoding="UTF-8"?>
	// <testsuites name="mine" tests="2" failures="1" skipped="0" errors="0" time="0.012">
	//   <testsuite name="first" tests="2" failures="1" skipped="0" errors="0" time="0.012">
	//     <testcase name="adds" classname="mine.first" time="0.012"></testcase>
	//     <testcase name="subtracts" classname="mine.first">
	//       <failure message="18 is not 19" type="equals"></failure>
	//     </testcase>
	//   </testsuite>
	// </testsuites>
}

// TestAnyTextIsXML checks that texts of peers do not make the file unreadable.
func TestAnyTextIsXML(t *testing.T) {
	hard := "]]> </failure> <x a=\"b\"> & \x00 \x1b[31m \x85 \ufffe \xff\xfe é \u202e\u200b\U000e0041\ufeff \r\n\t"
	r := &junit.Report{Name: hard, Suites: []junit.Suite{{Name: hard, Cases: []junit.Case{{
		Name: hard, Class: hard, Output: hard, Failure: &junit.Message{Message: hard, Type: hard, Text: hard}, Error: &junit.Message{Text: hard}, Skipped: &junit.Message{Message: hard},
	}}}}}
	var out bytes.Buffer
	if err := junit.Write(&out, r); err != nil {
		t.Fatal(err)
	}
	const cleaned = "]]> </failure> <x a=\"b\"> & \ufffd \ufffd[31m \ufffd \ufffd \ufffd\ufffd é " + `\u202e\u200b\u{e0041}\ufeff` + " \ufffd\n\t"
	d, elements := xml.NewDecoder(&out), 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, out.String())
		}
		switch token := token.(type) {
		case xml.StartElement:
			elements++
			for _, a := range token.Attr {
				if (a.Name.Local == "name" || a.Name.Local == "classname" || a.Name.Local == "type") && a.Value != cleaned {
					t.Errorf("%s of %s is %q, want %q", a.Name.Local, token.Name.Local, a.Value, cleaned)
				}
			}
		case xml.CharData:
			if text := string(token); strings.TrimSpace(text) != "" && text != cleaned {
				t.Errorf("a text is %q, want %q", text, cleaned)
			}
		}
	}
	if elements != 7 {
		t.Errorf("%d elements, want 7", elements)
	}
}

// TestCounts checks the counts of a report with every outcome, and of one without cases.
func TestCounts(t *testing.T) {
	r := &junit.Report{Name: "all", Suites: []junit.Suite{{Name: "none"}, {Name: "some", Cases: []junit.Case{
		{Name: "a", Time: time.Second, Failure: &junit.Message{Message: "f"}}, {Name: "b", Error: &junit.Message{Text: "e"}},
		{Name: "c", Skipped: &junit.Message{}, Output: "log"}, {Name: "d", Time: 500 * time.Millisecond},
	}}}}
	var out strings.Builder
	if err := junit.Write(&out, r); err != nil {
		t.Fatal(err)
	}
	const want = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="all" tests="4" failures="1" skipped="1" errors="1" time="1.500">
  <testsuite name="none" tests="0" failures="0" skipped="0" errors="0"></testsuite>
  <testsuite name="some" tests="4" failures="1" skipped="1" errors="1" time="1.500">
    <testcase name="a" classname="" time="1.000">
      <failure message="f"></failure>
    </testcase>
    <testcase name="b" classname="">
      <error message="">e</error>
    </testcase>
    <testcase name="c" classname="">
      <skipped message=""></skipped>
      <system-out>log</system-out>
    </testcase>
    <testcase name="d" classname="" time="0.500"></testcase>
  </testsuite>
</testsuites>
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
