// Package tap_test holds parley's tap between programs that nobody here wrote.
package tap_test

import (
	"os"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
