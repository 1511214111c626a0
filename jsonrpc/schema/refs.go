package schema

import (
	"bytes"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Referenced returns those of the named schemas to which text refers, directly or through others.
// A reference is prefix and the name. It may also return others, if their names start with the same
// letters.
func Referenced(text jsonrpc.Raw, prefix string, named map[string]jsonrpc.Raw) map[string]jsonrpc.Raw {
	found := map[string]jsonrpc.Raw{}
	for queue := []jsonrpc.Raw{text}; len(queue) > 0; queue = queue[1:] {
		if !bytes.Contains(queue[0], []byte(prefix)) {
			continue
		}
		for name, s := range named {
			if _, known := found[name]; !known && bytes.Contains(queue[0], []byte(prefix+escape(name))) {
				found[name] = s
				queue = append(queue, s)
			}
		}
	}
	return found
}
