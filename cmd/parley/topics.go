package main

import (
	"io"

	"github.com/spf13/cobra"
)

// topics are the texts of parley help TOPIC.
var topics = map[string]string{
	"targets": `A target is the address of a server. The same spelling works in every command.

  http://h:p/path  https://…   JSON-RPC by POST; for parley mcp, Streamable HTTP, or else HTTP+SSE
  localhost:3000/rpc           the same as http://localhost:3000/rpc; any host and port
  :3000/rpc                    the same as http://127.0.0.1:3000/rpc
  sse+http://h:p/path          MCP over HTTP+SSE (2024-11-05)
  ws://h:p/path    wss://…     WebSocket, one message per text frame
  tcp://h:p        tls://h:p   one message per line
  unix:/path                   the same, on a Unix socket
  stdio:                       parley's own stdin and stdout, to listen on
  -- CMD ARG…                  a child process, at the end of the line; TARGET is left out
  @name                        a server of a configuration file

Options of an address: ?framing=header for Content-Length headers (language servers) on tcp, tls and
unix, and ?jsonrpc=1.0. A child process has the flags --framing and --jsonrpc.

A name is looked up in the file of -c FILE, then in parley.yaml in the working directory, then in
your own ~/.config/parley/parley.yaml, then in the files of installed clients. A program of a file
in the working directory that -c does not name is shown, and asked for once.
`,
	"filters": `--jq FILTER applies a jq filter to each result. The program jq is not needed.

  parley call :3000/rpc rpc.discover --jq '.methods[].name'
  parley mcp tools :3000/mcp --jq 'map(select(.annotations.readOnlyHint))'

-o raw prints a string without quotes, -o ndjson the elements of a list, one per line, and -o yaml
YAML, for people and configuration files.

--filter TERMS of tap and replay selects messages. All terms must match; - in front excludes.

  method:tools/*        the method, with * for any text
  kind:notification     request, response or notification
  status:error          how the call ended
  duration:>500ms       how long the call took
  id:7                  the ID

  parley replay session.jsonl --filter 'method:tools/* -kind:notification duration:>500ms'
`,
	"exit-codes": `Scripts can rely on these codes.

  0    success
  1    the server sent an error response, a run failed, or a replayed response differs
  2    the command line or a file is wrong; nothing was sent
  3    credentials are missing, wrong or insufficient
  4    unreachable, not found, wrong scheme, timeout, or address in use
  5    an MCP tool or an agent failed
  6    the server violates its protocol
  130  cancelled with Ctrl-C

Errors are one line on stderr. With -o json or -o ndjson the line is a JSON object:

  {"error":{"code":-32601,"message":"Method not found"},"exit":1,"text":"nope: Method not found (-32601)"}

"code" and "data" exist only for an error response. "text" is the line that is printed otherwise.
`,
	"environment": `Environment variables that parley reads:

  XDG_STATE_HOME    folder of runs, sessions, approvals, tokens, passed lessons and the history of
                    repl, in parley/ (~/.local/state)
  XDG_CONFIG_HOME   folder of your own parley/parley.yaml (~/.config)
  XDG_RUNTIME_DIR   folder of the list of running children
  NO_COLOR          if not empty, no colour is used
  TERM              if dumb, no colour is used
  CI, SSH_CONNECTION, SSH_TTY, DISPLAY, WAYLAND_DISPLAY
                    decide whether parley up opens a browser
  HTTP_PROXY, HTTPS_PROXY, NO_PROXY
                    the proxy for HTTP
  PARLEY_INPUT_…    values of the inputs of VS Code's files

Configuration files can use any variable, as ${NAME}. Tokens are best given with --token-file.
`,
}

const agentHelp = `parley for language models: how to call JSON-RPC, MCP, A2A and ACP servers from a shell.

Results go to stdout, everything else to stderr. Nothing waits longer than --timeout (60s). Always
add -o json: results are JSON, and an error is one JSON line on stderr with "error", "exit", "text".
Exit codes: 0 ok, 1 error response, 2 wrong command line, 3 authentication, 4 unreachable or not
found, 5 tool or agent failed, 6 protocol violation.

Targets: http://h:p/path, localhost:3000/rpc, :3000/rpc, ws://…, tcp://h:p, unix:/path, @name of a
configuration file, or a program after -- at the end of the line.

Find out what a server offers:
  parley call :3000/rpc rpc.discover --jq '.methods[].name'
  parley mcp tools :3000/mcp -o json
  parley a2a card :3000
  parley acp agents :3000/acp

Call it:
  parley call :3000/rpc subtract 42 23                  positional: JSON, or else a string
  parley call :3000/rpc subtract minuend:=42 subtrahend:=23
                                                        name=text, name:=json, name=@file
  parley call :3000/rpc subtract -d '[42,23]'           params as one JSON text
  parley mcp call :3000/mcp book-table restaurant="Zur Linde" guests:=4 --answer time=20:15
  parley acp run :3000/acp words "one word after the other"
  parley call subtract 42 23 -- parley demo --stdio     a program on its stdin and stdout

Run calls of a file and check the responses (docs/guides/test.md):
  parley test suite.yaml -o json                        exit code 1 if an assertion fails

Questions of a server are declined without a terminal: use --answer, or --yes and --no.
Params are read from stdin if none are given and stdin is a pipe; --ignore-stdin prevents it.
-v prints each message on stderr. --token-file FILE sends a bearer token. -k trusts any certificate.
More: parley help targets, parley help filters, parley help exit-codes, parley COMMAND --help.
`

func (a *app) agentHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "agent-help",
		Short: "one page about parley, for language models",
		Long: `Print one page about parley, for language models that call servers from a shell.

  parley agent-help
  parley agent-help > parley.txt
  parley help targets                    more about one subject`,
		Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(a.stdout, a.folded(agentHelp))
			return err
		},
	}
}

// printTopic prints the text of a help topic. It reports whether there is one.
func (a *app) printTopic(words []string) (found bool, err error) {
	if len(words) != 1 || topics[words[0]] == "" {
		return false, nil
	}
	_, err = io.WriteString(a.stdout, a.folded(topics[words[0]]))
	return true, err
}
