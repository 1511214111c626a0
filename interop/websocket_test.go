package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/da1ed7bb/parley/interop/harness"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// exchange sends a text message and returns the next one.
func exchange(t *testing.T, c *websocket.Conn, message string) string {
	t.Helper()
	if err := c.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
		t.Fatalf("write %.100s: %v", message, err)
	}
	kind, answer, err := c.Read(t.Context())
	if err != nil || kind != websocket.MessageText {
		t.Fatalf("the answer to %.100s: %v, %v", message, kind, err)
	}
	return string(answer)
}

func TestCoderWebSocketClient(t *testing.T) {
	t.Parallel()
	at := webSocket(harness.Demo(t, "http://127.0.0.1:0")[0])
	connect := func(t *testing.T, o *websocket.DialOptions) *websocket.Conn {
		c, answer, err := websocket.Dial(t.Context(), at, o) //nolint:bodyclose // the library has closed it
		if err != nil {
			t.Fatalf("dial: %v", err)
		}
		if got := answer.Header.Get("Sec-WebSocket-Extensions"); got != "" {
			t.Errorf("an extension that we do not have was agreed on: %q", got)
		}
		c.SetReadLimit(1 << 24)
		t.Cleanup(func() { _ = c.CloseNow() })
		return c
	}
	t.Run("compression is declined", func(t *testing.T) {
		c := connect(t, &websocket.DialOptions{CompressionMode: websocket.CompressionContextTakeover})
		message := `{"jsonrpc":"2.0","id":1,"method":"echo","params":["` + bigText + `"]}`
		if got, want := exchange(t, c, message), `{"jsonrpc":"2.0","id":1,"result":["`+bigText+`"]}`; !sameJSON(t, []byte(got), []byte(want)) {
			t.Errorf("got %.100s", got)
		}
	})
	t.Run("fragments and pings between them", func(t *testing.T) {
		c := connect(t, nil)
		w, err := c.Writer(t.Context(), websocket.MessageText)
		if err != nil {
			t.Fatal(err)
		}
		pong := make(chan error, 1)
		answers := make(chan string, 1)
		go func() { // a pong is sent only while a goroutine reads
			_, text, err := c.Read(t.Context())
			if err != nil {
				text = []byte(err.Error())
			}
			answers <- string(text)
		}()
		message := `{"jsonrpc":"2.0","id":"🌍","method":"subtract","params":[42,23]}`
		for i, b := range []byte(message) { // the emoji is split too
			if _, err := w.Write([]byte{b}); err != nil {
				t.Fatal(err)
			}
			if i == len(message)/2 {
				go func() { pong <- c.Ping(t.Context()) }()
				if err := await(t.Context(), t, pong, "pong"); err != nil {
					t.Errorf("ping: %v", err)
				}
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got, want := await(t.Context(), t, answers, "answer"), `{"jsonrpc":"2.0","id":"🌍","result":19}`; !sameJSON(t, []byte(got), []byte(want)) {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("how it ends", func(t *testing.T) {
		for _, c := range []struct {
			name string
			send func(ctx context.Context, c *websocket.Conn) error
			want websocket.StatusCode
		}{
			{"binary", func(ctx context.Context, c *websocket.Conn) error {
				return c.Write(ctx, websocket.MessageBinary, []byte(`{"jsonrpc":"2.0","id":1,"method":"get_data"}`))
			}, websocket.StatusUnsupportedData},
			{"bad UTF-8", func(ctx context.Context, c *websocket.Conn) error {
				return c.Write(ctx, websocket.MessageText, []byte("{\"jsonrpc\":\"2.0\",\"id\":\"\xff\"}"))
			}, websocket.StatusInvalidFramePayloadData},
			{"too large", func(ctx context.Context, c *websocket.Conn) error {
				// May be cut off; the reason is read below.
				_ = c.Write(ctx, websocket.MessageText, []byte(`["`+strings.Repeat("x", 5<<20)+`"]`))
				return nil
			}, websocket.StatusMessageTooBig},
		} {
			conn := connect(t, nil)
			if err := c.send(t.Context(), conn); err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			if _, text, err := conn.Read(t.Context()); websocket.CloseStatus(err) != c.want {
				t.Errorf("%s: got %s, %v, want the status %v", c.name, text, err, c.want)
			}
		}
		conn := connect(t, nil)
		if got := exchange(t, conn, `{`); !strings.Contains(got, "-32700") {
			t.Errorf("broken JSON: %s", got)
		}
		if err := conn.Close(websocket.StatusNormalClosure, "done"); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	t.Run("a web page of somebody else", func(t *testing.T) {
		_, answer, err := websocket.Dial(t.Context(), at, &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"https://example.com"}}}) //nolint:bodyclose // the library has closed it
		if err == nil || answer == nil || answer.StatusCode != http.StatusForbidden {
			t.Errorf("dial from another origin: %v, %v", answer, err)
		}
	})
}

// coderServer handles subtract, sends requests to the client, and sends everything in small
// fragments, compressed if the client supports it.
func coderServer(t *testing.T, seen chan<- string) string {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionContextTakeover, CompressionThreshold: 1})
		if err != nil {
			t.Errorf("accept: %v", err)
			return
		}
		defer func() { _ = c.CloseNow() }()
		c.SetReadLimit(1 << 24)
		for {
			_, text, err := c.Read(r.Context())
			if err != nil {
				seen <- fmt.Sprintf("closed with %d", websocket.CloseStatus(err))
				return
			}
			var m struct {
				ID     json.RawMessage
				Method string
				Params json.RawMessage
			}
			if err := json.Unmarshal(text, &m); err != nil {
				t.Errorf("%s: %v", text, err)
				return
			}
			switch m.Method {
			case "echo":
				err = inPieces(r.Context(), c, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, m.Params))
			case "ping":
				go func(id string) { // the loop reads the pong
					if err := c.Ping(r.Context()); err == nil {
						_ = inPieces(r.Context(), c, `{"jsonrpc":"2.0","id":`+id+`,"result":"pong"}`)
					}
				}(string(m.ID))
			case "binary":
				err = c.Write(r.Context(), websocket.MessageBinary, []byte(`{"jsonrpc":"2.0","id":1,"result":1}`))
			}
			if err != nil {
				t.Errorf("answer: %v", err)
				return
			}
		}
	}))
	t.Cleanup(web.Close)
	return "ws" + strings.TrimPrefix(web.URL, "http") + "/"
}

func inPieces(ctx context.Context, c *websocket.Conn, text string) error {
	w, err := c.Writer(ctx, websocket.MessageText)
	if err != nil {
		return err
	}
	size := max(1, len(text)/50)
	for text != "" {
		n := min(size, len(text))
		if _, err := io.WriteString(w, text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return w.Close()
}

func TestCoderWebSocketServer(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 10)
	at := coderServer(t, seen)
	client := dial(t, address(t, at), nil)
	for _, text := range append([]string{bigText}, unicodeTexts...) {
		if back, err := jsonrpc.Call[[]string](t.Context(), client, "echo", []string{text}); err != nil || len(back) != 1 || back[0] != text {
			t.Errorf("echo %.40q = %.40q, %v", text, back, err)
		}
	}
	if said, err := jsonrpc.Call[string](t.Context(), client, "ping", nil); err != nil || said != "pong" {
		t.Errorf("ping = %q, %v", said, err)
	}
	if err := client.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if got := await(t.Context(), t, seen, "close"); got != "closed with 1000" && got != "closed with 1001" {
		t.Errorf("our client %s", got)
	}
	t.Run("binary", func(t *testing.T) {
		client := dial(t, address(t, at), nil)
		defer client.Close()
		if err := client.Call(t.Context(), "binary", nil, nil); err == nil {
			t.Error("a binary frame was taken for an answer")
		}
		if got := await(t.Context(), t, seen, "close"); got != "closed with 1003" {
			t.Errorf("our client %s", got)
		}
	})
}
