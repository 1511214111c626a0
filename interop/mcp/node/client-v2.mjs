// @modelcontextprotocol/client 2.x uses our service: node client-v2.mjs auto|legacy|2026-07-28 http URL | sse URL | stdio COMMAND [ARG…]
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { finish } from '../../node/checks.mjs';
import { capabilities, handlers, ourProgram, use } from './use.mjs';

const [era, mode, target, ...args] = process.argv.slice(2);
const transport = {
  http: () => new StreamableHTTPClientTransport(new URL(target)),
  sse: () => new SSEClientTransport(new URL(target)),
  stdio: () => new StdioClientTransport(ourProgram(target, args)),
}[mode]();

let heard = () => {};
const client = new Client({ name: 'sdk-v2', version: '2.0.0' }, {
  capabilities,
  versionNegotiation: { mode: era === 'auto' || era === 'legacy' ? era : { pin: era } },
  listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: () => heard() } },
});
client.setRequestHandler('roots/list', handlers.roots);
client.setRequestHandler('sampling/createMessage', handlers.sample);
client.setRequestHandler('elicitation/create', handlers.elicit);
client.version = () => client.getNegotiatedProtocolVersion();
await client.connect(transport);
const modern = era !== 'legacy';
// The SDK makes the code of the newest revision of the -32002 that older ones have for an unknown resource.
await use(`v2 ${era} ${mode}`, client, { version: modern ? '2026-07-28' : '2025-11-25', modern, losesProgress: true, noResource: -32602, changed: () => new Promise((resolve) => { heard = resolve; }) });
finish();
