// The service of the tests, on @modelcontextprotocol/server 2.x: node server-v2.mjs stdio|http|sessions|modern
import { randomUUID } from 'node:crypto';
import http from 'node:http';
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { acceptedContent, completable, createMcpHandler, inputRequired, McpServer, ResourceTemplate } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';
import { Events } from './events.mjs';

const text = (t) => ({ content: [{ type: 'text', text: t }] });
let cancelled = 0;
let grown = false;
let told = () => {}; // tells clients of the modern era that the tools have changed

function service() {
  const server = new McpServer({ name: 'sdk-v2', version: '2.0.0' },
    { capabilities: { logging: {}, tools: { listChanged: true }, resources: { subscribe: true, listChanged: true } }, instructions: 'Add.' });
  server.registerTool('add', { description: 'Adds.', inputSchema: z.object({ a: z.number(), b: z.number() }), outputSchema: z.object({ sum: z.number() }) },
    async ({ a, b }) => ({ ...text(JSON.stringify({ sum: a + b })), structuredContent: { sum: a + b } }));
  server.registerTool('fail', { description: 'Fails.' }, async () => ({ ...text('it failed'), isError: true }));
  const form = z.object({ name: z.string() });
  server.registerTool('ask', { description: 'Asks the user for a name.' }, async (ctx) => {
    const answer = acceptedContent(ctx.mcpReq.inputResponses, 'user_name', form);
    if (answer) return text(`Hello, ${answer.name}!`);
    return inputRequired({ inputRequests: { user_name: inputRequired.elicit({ message: 'What is your name?', requestedSchema: form }) }, requestState: 'half way' });
  });
  server.registerTool('think', { description: 'Asks the model.' }, async (ctx) => {
    const answer = ctx.mcpReq.inputResponses?.model;
    if (answer) return text(answer.content.text ?? answer.content[0].text);
    return inputRequired({ inputRequests: { model: inputRequired.createMessage({ messages: [{ role: 'user', content: { type: 'text', text: 'ping' } }], maxTokens: 10 }) } });
  });
  server.registerTool('where', { description: 'Asks for roots.' }, async (ctx) => {
    const answer = ctx.mcpReq.inputResponses?.roots;
    if (answer) return text(answer.roots.map((r) => r.uri).join(' '));
    return inputRequired({ inputRequests: { roots: inputRequired.listRoots() } });
  });
  server.registerTool('count', { description: 'Counts, and tells of it.', inputSchema: z.object({ to: z.number() }) }, async ({ to }, ctx) => {
    for (let i = 1; i <= to; i++) {
      await ctx.mcpReq.notify({ method: 'notifications/progress',
        params: { progressToken: ctx.mcpReq._meta?.progressToken, progress: i, total: to, message: `at ${i}` } });
    }
    return text(`counted to ${to}`);
  });
  server.registerTool('wait', { description: 'Waits until it is cancelled.' }, (ctx) => new Promise((resolve) => {
    ctx.mcpReq.signal.addEventListener('abort', () => { cancelled++; resolve(text('cancelled')); });
    ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken: ctx.mcpReq._meta?.progressToken, progress: 0 } });
  }));
  server.registerTool('cancelled', { description: 'Tells how many waits were cancelled.' }, async () => text(String(cancelled)));
  server.registerTool('reconnect', { description: 'Closes the stream before it answers.' }, async (ctx) => {
    ctx.http?.closeSSE?.();
    return text('answered on another stream');
  });
  if (grown) server.registerTool('grown', { description: 'Was added.' }, async () => text('here'));
  server.registerTool('grow', { description: 'Adds a tool.' }, async () => {
    if (!grown) {
      grown = true;
      server.registerTool('grown', { description: 'Was added.' }, async () => text('here'));
      told();
    }
    return text('grown');
  });
  server.registerTool('region', { description: 'Wants a header.', inputSchema: z.object({ region: z.string().meta({ 'x-mcp-header': 'Region' }) }) },
    async ({ region }, ctx) => text(`${region} ${ctx.http?.req?.headers.get('mcp-param-region')}`));
  server.registerResource('static', 'test://static', { mimeType: 'text/plain' },
    async (uri) => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'static text' }] }));
  server.registerResource('item', new ResourceTemplate('test://item/{id}', { list: undefined }), {},
    async (uri, { id }) => ({ contents: [{ uri: uri.href, blob: Buffer.from(`item ${id}`).toString('base64') }] }));
  server.registerPrompt('greet', { description: 'Greets.',
    argsSchema: z.object({ name: completable(z.string(), (v) => ['Ada', 'Alan', 'Grace'].filter((n) => n.startsWith(v))) }) },
    async ({ name }) => ({ messages: [{ role: 'user', content: { type: 'text', text: `Say hello to ${name}.` } }] }));
  return server;
}

const sessions = new Map();

async function withSessions(req, res) {
  const known = req.headers['mcp-session-id'];
  if (known) {
    const transport = sessions.get(known);
    if (transport) return transport.handleRequest(req, res);
    return res.writeHead(404, { 'Content-Type': 'application/json' }).end('{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}');
  }
  const transport = new NodeStreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, eventStore: new Events(), retryInterval: 50,
    onsessioninitialized: (id) => { sessions.set(id, transport); } });
  await service().connect(transport);
  return transport.handleRequest(req, res);
}

const mode = process.argv[2];
if (mode === 'stdio') {
  serveStdio(service, { onerror: (err) => console.error(err) });
} else if (mode === 'sessions') {
  http.createServer((req, res) => withSessions(req, res).catch((err) => { console.error(err); res.destroy(); })).listen(0, '127.0.0.1');
} else {
  const handler = createMcpHandler(service, { legacy: mode === 'modern' ? 'reject' : 'stateless', onerror: (err) => console.error(err) });
  told = () => handler.notify.toolsChanged();
  http.createServer(toNodeHandler(handler)).listen(0, '127.0.0.1');
}
