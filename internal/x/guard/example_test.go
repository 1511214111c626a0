package guard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/da1ed7bb/parley/internal/x/guard"
)

// A page of another site has detected our port and points its own name to it (DNS rebinding).
func Example() {
	door, err := guard.New(&guard.Options{Port: 3000, Tokens: []guard.Digest{guard.DigestOf("a token of the operator's")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := door.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "welcome") }))

	for _, host := range []string{"rebound.example:3000", "localhost:3000"} {
		r := httptest.NewRequest("POST", "/rpc", nil)
		r.Host = host
		r.Header.Set("Authorization", "Bearer a token of the operator's")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Print(w.Code, " ", w.Body)
	}
	// Output:
	// 403 this Host is not allowed
	// 200 welcome
}
