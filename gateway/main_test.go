package gateway_test

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"
)

// tests closes the idle connections of the tests' own client before leaks are looked for.
type tests struct{ *testing.M }

func (t tests) Run() int {
	defer http.DefaultClient.CloseIdleConnections()
	return t.M.Run()
}

func TestMain(m *testing.M) {
	serveAsChild()
	// net/http sleeps half a second before it closes a connection whose body it did not read.
	goleak.VerifyTestMain(tests{m}, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}
