package schema_test

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"flag"
	"math/big"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/openrpc"
	"github.com/da1ed7bb/parley/mcp"
)

var update = flag.Bool("update", false, "write the golden files")

type (
	celsius float64
	colour  string
	blob    []byte
	pos     struct {
		X int `json:"x"`
		Y int `json:"y,omitzero"`
	}
	node struct {
		Value int     `json:"value"`
		Next  *node   `json:"next,omitempty" jsonschema:"the next one, if 1 < n & n > 0"`
		Kids  []*node `json:"kids,omitzero"`
	}
	tree struct {
		Left  *tree           `json:"left,omitzero"`
		Leaf  leaf            `json:"leaf"`
		Other map[string]twig `json:"other,omitzero"`
	}
	leaf struct {
		Twig *twig `json:"twig,omitzero"`
	}
	twig struct {
		Leaf  *leaf  `json:"leaf,omitzero"`
		Twigs []twig `json:"twigs,omitzero"`
	}
	base struct {
		ID   string `json:"id"`
		Note string `json:"note,omitzero"`
	}
	Embedding struct {
		base
		Name string `json:"name" jsonschema:"shown \"as is\""`
	}
	page[T any] struct {
		Items []T    `json:"items"`
		Next  string `json:"next,omitempty"`
	}
	scalars struct {
		A bool           `json:"a"`
		B int8           `json:"b"`
		C int16          `json:"c"`
		D int32          `json:"d"`
		E int64          `json:"e"`
		F int            `json:"f"`
		G uint8          `json:"g"`
		H uint16         `json:"h"`
		I uint32         `json:"i"`
		J uint64         `json:"j"`
		K uint           `json:"k"`
		L float32        `json:"l"`
		M float64        `json:"m"`
		N string         `json:"n"`
		O celsius        `json:"o"`
		P colour         `json:"p"`
		Q any            `json:"q"`
		R jsonrpc.Raw    `json:"r"`
		S time.Time      `json:"s"`
		T big.Int        `json:"t"`
		U netip.Addr     `json:"u"`
		V stdjson.Number `json:"v"`
	}
	pointers struct {
		A *bool       `json:"a"`
		B *int32      `json:"b,omitzero"`
		C *string     `json:"c,omitempty" jsonschema:"a name"`
		D *time.Time  `json:"d"`
		E *big.Int    `json:"e"`
		F *pos        `json:"f"`
		G *[]string   `json:"g"`
		H *any        `json:"h"`
		I *netip.Addr `json:"i"`
		J *blob       `json:"j"`
	}
	lists struct {
		A []string           `json:"a"`
		B [2]int             `json:"b"`
		C []byte             `json:"c"`
		D blob               `json:"d,omitzero"`
		F []pos              `json:"f"`
		G [][]float64        `json:"g,omitempty"`
		H map[string]int     `json:"h"`
		I map[string][]pos   `json:"i"`
		J map[string]any     `json:"j"`
		K []any              `json:"k"`
		L []*pos             `json:"l"`
		M map[netip.Addr]int `json:"m"`
	}
	tagged struct {
		Title string   `json:"title" jsonschema:"what it is called" mcp:"title=Title,default=none"`
		Kind  string   `json:"kind" mcp:"enum=a|b|c"`
		Count int      `json:"count,omitzero" mcp:"min=1,max=10,default=5"`
		Tags  []string `json:"tags,omitzero" jsonschema:"the tags" mcp:"enum=x|y"`
		When  string   `json:"when,omitzero" mcp:"format=date"`
		Level int      `json:"level" mcp:"enum=1|2|3"`
		Ratio *float64 `json:"ratio" mcp:"min=0,max=1"`
		Where string   `json:"where" mcp:"header=Where"`
	}
	untagged struct {
		Minuend    int
		URLPath    string
		unexported int //nolint:unused // fields like it are not in a schema
		Skipped    int `json:"-"`
		Inner      struct{ DeepName string }
	}
	empty struct{}
)

// corpusServer describes a function for each type of the corpus, as params and as a result.
type corpusServer struct {
	mux *jsonrpc.Mux
	mcp *mcp.Server
}

func put[T any](s *corpusServer, name string) {
	s.mux.Add(name, jsonrpc.Func(func(context.Context, T) (T, error) { panic("not called") }))
	if t := reflect.TypeFor[T](); t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]() {
		mcp.AddTool(s.mcp, mcp.Tool{Name: name}, func(context.Context, *mcp.Request, T) (T, error) { panic("not called") })
		return
	}
	mcp.AddTool(s.mcp, mcp.Tool{Name: name}, func(context.Context, *mcp.Request, empty) (T, error) { panic("not called") })
}

func corpus() *corpusServer {
	s := &corpusServer{mux: new(jsonrpc.Mux), mcp: mcp.NewServer(mcp.Implementation{Name: "s", Version: "1"}, nil)}
	put[scalars](s, "scalars")
	put[pointers](s, "pointers")
	put[lists](s, "lists")
	put[tagged](s, "tagged")
	put[untagged](s, "untagged")
	put[empty](s, "empty")
	put[node](s, "node")
	put[tree](s, "tree")
	put[Embedding](s, "embedding")
	put[page[node]](s, "page_of_nodes")
	put[page[page[pos]]](s, "page_of_pages")
	put[[]pos](s, "slice")
	put[[3]pos](s, "array")
	put[map[string]pos](s, "map")
	put[map[string]any](s, "map_of_any")
	put[*node](s, "pointer_to_node")
	put[*pos](s, "pointer")
	put[celsius](s, "celsius")
	put[int](s, "int")
	put[*int](s, "pointer_to_int")
	put[any](s, "any")
	put[jsonrpc.Raw](s, "raw")
	put[time.Time](s, "time")
	put[[]byte](s, "bytes")
	return s
}

// TestSchemasOfTheCorpus compares the schemas that openrpc and mcp publish for a corpus of types
// with those that they published when each package made its own.
func TestSchemasOfTheCorpus(t *testing.T) {
	s := corpus()
	d := openrpc.New(s.mux, openrpc.Info{Title: "corpus", Version: "1"})
	d.Types = map[reflect.Type]*jsonschema.Schema{reflect.TypeFor[colour](): {Type: "string", Enum: []any{"red", "green"}, Description: "a <colour>"}}
	document, err := d.JSON()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "openrpc.json", document)

	a := jsonrpc.Answerer{}
	s.mcp.Configure(&a, s.mcp)
	list, _ := a.Answer(t.Context(), nil, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`), &jsonrpc.Exchange{})
	if !bytes.Contains(list, []byte(`"tools":[`)) {
		t.Fatalf("got %s", list)
	}
	golden(t, "mcp.json", list)
}

// golden compares text with a file, in which each named schema is on a line of its own.
func golden(t *testing.T, name string, text []byte) {
	t.Helper()
	split := strings.NewReplacer(`{"name":"`, "\n"+`{"name":"`, `,"inputSchema"`, "\n"+`,"inputSchema"`, `,"outputSchema"`, "\n"+`,"outputSchema"`,
		`"components"`, "\n"+`"components"`, `"additionalProperties":false},`, `"additionalProperties":false},`+"\n")
	got := split.Replace(string(text)) + "\n"
	file := "testdata/golden/" + name
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			t.Errorf("%s, line %d:\n got %s\nwant %s", file, i+1, a, b)
		}
	}
}
