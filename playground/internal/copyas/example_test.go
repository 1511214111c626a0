package copyas_test

import (
	"fmt"

	"github.com/da1ed7bb/parley/playground/internal/copyas"
)

// The copied commands read the value of a secret header from an environment variable.
func Example() {
	to := copyas.Target{Address: "http://127.0.0.1:3000/rpc", Plain: true}
	headers := [][2]string{{"Content-Type", "application/json"}, {"X-Api-Key", "$X_API_KEY"}}
	m := copyas.New(to, []byte(`{"jsonrpc":"2.0","id":1,"method":"greet","params":["it's me"]}`), headers, false)
	fmt.Println(m.Parley())
	fmt.Println(m.Curl())
	// Output:
	// parley call http://127.0.0.1:3000/rpc -H 'X-Api-Key: '"$X_API_KEY" greet '"it'\''s me"'
	// curl -sS -N http://127.0.0.1:3000/rpc \
	//   -H 'Content-Type: application/json' \
	//   -H 'X-Api-Key: '"$X_API_KEY" \
	//   -H 'Accept:' \
	//   --data-binary '{"jsonrpc":"2.0","id":1,"method":"greet","params":["it'\''s me"]}'
}
