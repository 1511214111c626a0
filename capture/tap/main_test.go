package tap_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "be-a-server" {
		os.Exit(beAServer(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}
