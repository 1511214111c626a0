// Package editor_test holds parley's editor protocol against the SDKs of others.
package editor_test

import (
	"os"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
