package mcp_test

import (
	"os"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
