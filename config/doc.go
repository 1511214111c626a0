// Package config reads the files that say which servers there are: parley.yaml, and what MCP clients and editors have.
//
// The shape is found out from the file: servers below "servers", "mcpServers", "context_servers", "mcp", "mcp_servers" or "agent_servers",
// or the addresses of a server.json of the MCP registry; in YAML, in TOML, or in JSON with comments and trailing commas. Unknown members of other programs' files are theirs and are ignored; in
// parley.yaml they are mistakes. What is wrong is a [Problem] with line and column, and the other entries can be used nevertheless.
//
// Values of command, args, env, cwd, url and headers may name variables: ${VAR}, ${VAR:-default}, ${env:VAR}, ${input:id} and
// ${workspaceFolder}; opencode's {env:VAR}, too, in its own table. What ${input:some-id} asks for is taken from PARLEY_INPUT_SOME_ID. $VAR is text. One that is not set and has no default makes its entry unusable and is named: silence here
// is what people complain of most.
//
// Nothing is ever written, and no program is started.
package config
