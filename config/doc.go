// Package config reads files that list servers: parley.yaml, and the configuration files of MCP
// clients and editors.
//
// The package detects the format of a file: servers in the member "servers", "mcpServers",
// "context_servers", "mcp", "mcp_servers" or "agent_servers", or the addresses of a server.json of
// the MCP registry; in YAML, in TOML, or in JSON with comments and trailing commas. Unknown members
// are ignored in files of other programs and are errors in parley.yaml. Each error is a [Problem]
// with line and column, and the other entries remain usable.
//
// Values of command, args, env, cwd, url and headers may contain variables: ${VAR},
// ${VAR:-default}, ${env:VAR}, ${input:id} and ${workspaceFolder}; in its own table also opencode's
// {env:VAR}. The value of ${input:some-id} is taken from PARLEY_INPUT_SOME_ID. $VAR is plain text.
// If a variable is not set and has no default, its entry is unusable and the problem names the
// variable, because users report silent failures most often.
//
// [Wrap] and [Unwrap] edit the text of a file: they put a program such as "parley tap --" in front
// of the commands, and change nothing else. The package writes no files and starts no programs.
package config
