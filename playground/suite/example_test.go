package suite_test

import (
	"context"
	"fmt"

	"github.com/da1ed7bb/parley/playground/suite"
)

// A calculator responds to every request with 19.
type calculator struct{}

func (calculator) Send(_ context.Context, r *suite.Request) (*suite.Reply, error) {
	fmt.Printf("%s %s\n", r.Method, r.Params)
	return &suite.Reply{Response: []byte(`{"jsonrpc":"2.0","id":1,"result":19}`)}, nil
}

func Example() {
	s, err := suite.Parse("demo.yaml", []byte(`
target: http://127.0.0.1:3000/rpc
variables: {much: 23}
calls:
  - name: the difference
    method: subtract
    params: [42, "{{much}}"]
    asserts: [$.result equals 19]
`))
	if err != nil {
		panic(err)
	}
	run, err := s.Prepare(nil)
	if err != nil {
		panic(err)
	}
	for _, c := range run.Run(context.Background(), calculator{}).Calls {
		fmt.Println(c.Name, c.Outcome)
	}
	// Output:
	// subtract [42,23]
	// the difference pass
}
