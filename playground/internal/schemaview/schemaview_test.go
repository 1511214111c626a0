package schemaview

import (
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

func TestExample(t *testing.T) {
	for _, c := range []struct{ schema, want string }{
		{`{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer","minimum":3},"c":{"type":"string"}},"required":["a","b"]}`, `{"b":"","a":3}`},
		{`{"type":"object","properties":{"time":{"oneOf":[{"const":"20:15"}],"default":"21:00"},"x":{"enum":["u","v"]}},"required":["x"]}`, `{"time":"21:00","x":"u"}`},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"type":"boolean"}}}`, `false`},
		{`{"$ref":"#"}`, `null`},
		{``, `{}`},
	} {
		if got := string(Example(jsonrpc.Raw(c.schema))); got != c.want {
			t.Errorf("Example(%s) = %s, want %s", c.schema, got, c.want)
		}
	}
}
