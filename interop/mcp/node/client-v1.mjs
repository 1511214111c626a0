// @modelcontextprotocol/sdk 1.x uses our service: node client-v1.mjs http URL | sse URL | stdio COMMAND [ARG…]
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { finish } from '../../node/checks.mjs';
import { capabilities, handlers, ourProgram, use } from './use.mjs';

const [mode, target, ...args] = process.argv.slice(2);
const transport = {
  http: () => new StreamableHTTPClientTransport(new URL(target)),
  sse: () => new SSEClientTransport(new URL(target)),
  stdio: () => new StdioClientTransport(ourProgram(target, args)),
}[mode]();

const client = new Client({ name: 'sdk-v1', version: '1.0.0' }, { capabilities });
client.setRequestHandler(ListRootsRequestSchema, handlers.roots);
client.setRequestHandler(CreateMessageRequestSchema, handlers.sample);
client.setRequestHandler(ElicitRequestSchema, handlers.elicit);
let heard = () => {};
client.setNotificationHandler(ToolListChangedNotificationSchema, () => heard());
let version = '2025-11-25';
if (mode === 'http') client.version = () => transport.protocolVersion;
else client.version = () => version;
await client.connect(transport);
const callTool = client.callTool.bind(client);
client.callTool = (params, options) => callTool(params, undefined, options);
await use(`v1 ${mode}`, client, { version, modern: false, losesProgress: true, noResource: -32002, changed: () => new Promise((resolve) => { heard = resolve; }) });
finish();
