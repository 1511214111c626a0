package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/da1ed7bb/parley/config"
)

const gatewayPage = "../../docs/gateway.md"

// blocksOf returns the blocks of one language of docs/gateway.md.
func blocksOf(language string) (blocks []string, err error) {
	text, err := os.ReadFile(gatewayPage)
	if err != nil {
		return nil, err
	}
	for _, part := range strings.Split(string(text), "\n```")[1:] {
		if code, ok := strings.CutPrefix(part, language+"\n"); ok {
			blocks = append(blocks, code+"\n")
		}
	}
	return blocks, nil
}

// TestGatewayPage checks that the configurations of docs/gateway.md have no problems.
func TestGatewayPage(t *testing.T) {
	blocks, err := blocksOf("yaml")
	if err != nil || len(blocks) != 3 {
		t.Fatalf("%d blocks, %v", len(blocks), err)
	}
	o := &config.Options{
		Lookup:  func(string) (string, bool) { return "value", true },
		Gateway: &config.GatewayOptions{},
	}
	for _, block := range blocks {
		if strings.HasPrefix(block, "- name") { // the file of tokens
			tokens := block
			o.ReadFile = func(string) ([]byte, error) { return []byte(tokens), nil }
			block = "servers: {a: {command: x}}\ngateway: {identity: {tokens: tokens.yaml}}\n"
		}
		f := config.Parse("parley.yaml", []byte(block), o)
		for _, p := range f.Problems {
			t.Errorf("%s\n%s", p.In("parley.yaml"), block)
		}
	}
}

// gateStart starts a gateway with the first configuration of docs/gateway.md, which it writes to
// parley.yaml, and sets $GATE to its address: gatestart
func gateStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: gatestart")
	}
	blocks, err := blocksOf("yaml")
	ts.Check(err)
	file := ts.MkAbs("parley.yaml")
	ts.Check(os.WriteFile(file, []byte(blocks[0]), 0o600))
	ctx, cancel := context.WithCancelCause(context.Background())
	out, stderr := io.Pipe()
	done, said := make(chan int, 1), make(chan string, 1)
	go func() {
		a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: stderr, getenv: func(string) string { return "" }}
		done <- a.main(ctx, []string{"gate", "-c", file, "--listen", "http://127.0.0.1:0"})
		_ = stderr.Close()
	}()
	ts.Defer(func() {
		cancel(errInterrupted)
		if code, rest := <-done, <-said; code != 0 {
			ts.Value(failing{}).(func(...any))(fmt.Sprintf("the gateway ends with exit code %d and logs:\n%s", code, rest))
		}
	})
	late := time.AfterFunc(startTime, func() { cancel(errInterrupted) })
	defer late.Stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), " at "); ok {
			ts.Setenv("GATE", strings.TrimSuffix(address, "/rpc"))
			break
		}
	}
	go func() { // ends with the gateway
		rest, _ := io.ReadAll(out)
		said <- string(rest)
	}()
	if ts.Getenv("GATE") == "" {
		ts.Fatalf("the gateway has no address")
	}
}

// TestChangedTokensAreRead checks that a change of the file of tokens is a change of the
// configuration.
func TestChangedTokensAreRead(t *testing.T) {
	tokens := "- {name: ci, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}\n"
	read := func() *config.File {
		return config.Parse("parley.yaml", []byte("servers: {a: {command: x}}\ngateway: {identity: {tokens: tokens.yaml}}\n"), &config.Options{
			Gateway: &config.GatewayOptions{}, ReadFile: func(string) ([]byte, error) { return []byte(tokens), nil },
		})
	}
	before := read()
	if !sameTokens(before, read()) {
		t.Error("equal tokens are a change")
	}
	tokens += "- {name: other, sha256: 0f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}\n"
	if sameTokens(before, read()) {
		t.Error("a new token is no change")
	}
	tokens = "- {name: ci}\n"
	if sameTokens(before, read()) {
		t.Error("a problem is no change")
	}
}
