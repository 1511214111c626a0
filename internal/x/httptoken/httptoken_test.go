package httptoken_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/internal/x/httptoken"
)

func Example() {
	fmt.Println(httptoken.Valid("Mcp-Session-Id"), httptoken.Valid("Mcp Session"))
	// Output: true false
}

// TestValid compares every byte with the delimiters of RFC 9110: a token has all visible ASCII
// characters except these.
func TestValid(t *testing.T) {
	for i := range 256 {
		c := byte(i)
		want := c > ' ' && c < 0x7f && strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) < 0
		if httptoken.Char(c) != want {
			t.Errorf("Char(%#x) is %v", c, !want)
		}
		for _, text := range []string{string([]byte{c}), string([]byte{'a', c}), string([]byte{c, 'a'})} {
			if httptoken.Valid(text) != want || httptoken.Valid([]byte(text)) != want {
				t.Errorf("Valid(%q) is %v", text, !want)
			}
		}
	}
	if httptoken.Valid("") || httptoken.Valid([]byte(nil)) {
		t.Error("an empty text is no token")
	}
}
