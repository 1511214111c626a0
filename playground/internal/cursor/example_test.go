package cursor_test

import (
	"fmt"

	"github.com/da1ed7bb/parley/playground/internal/cursor"
)

// The text ends inside the string that is being typed.
func ExampleFind() {
	text := `{"method": "tools/call", "params": {"names": ["a", "bo`
	root, at := cursor.Find([]byte(text), len(text))
	fmt.Println(root.Member("method"))
	fmt.Println(at.Path, at.Typed, text[at.From:at.To])
	// Output:
	// tools/call
	// [params names 1] bo "bo
}
