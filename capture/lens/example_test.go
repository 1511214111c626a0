package lens_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/lens"
)

func ExampleJudges() {
	const session = `{"parley":"session","version":1}
{"kind":"message","dir":"out","frame":{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"host","version":"1"}}}}
{"kind":"message","dir":"in","frame":{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"table","version":"1"}}}}
{"kind":"message","dir":"out","frame":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7,"_meta":{"progressToken":"p"}}}}
{"kind":"message","dir":"in","frame":{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1,"total":3}}}`
	l, err := capture.Read(strings.NewReader(session), lens.Judges()...)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range l.Rows(capture.Ref{}, 0) {
		fmt.Println(r.Ref, r.Kind, r.Method, r.Version, r.Parent, r.Findings)
	}
	// Output:
	// 1 request initialize 2025-11-25  []
	// 2 result initialize 2025-11-25 1 []
	// 3 request tools/call 2025-11-25  [{schema params.name is integer, not string false}]
	// 4 notification notifications/progress 2025-11-25 3 []
}
