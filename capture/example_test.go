package capture_test

import (
	"fmt"
	"log"
	"time"

	"github.com/da1ed7bb/parley/capture"
)

func Example() {
	rec, err := capture.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer rec.Close()
	wire := rec.Wire(capture.WireInfo{Target: "@demo"})
	wire.Payload(capture.Out, []byte(`{"jsonrpc":"2.0","id":7,"method":"subtract","params":[42,23]}`))
	wire.Payload(capture.In, []byte(`{"jsonrpc":"2.0","id":7,"result":19}`))
	wire.Payload(capture.In, []byte(`{"jsonrpc":"2.0","id":7,"result":19}`))
	rec.Flush()

	filter, err := capture.ParseFilter("id:7 -kind:request", time.Now())
	if err != nil {
		log.Fatal(err)
	}
	for row := range rec.Select(filter, capture.Ref{}) {
		fmt.Println(row.Ref, row.Kind, row.Method, "answers", row.Call, row.Findings)
	}
	// Output:
	// 3 result subtract answers 2 []
	// 4 result  answers  [{answered-twice id 7 was already answered by #3 false}]
}
