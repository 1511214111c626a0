// The service of the tests, on @modelcontextprotocol/sdk 1.x: node server-v1.mjs stdio|http|json|stateless|sse
import { randomUUID } from 'node:crypto';
import http from 'node:http';
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { completable } from '@modelcontextprotocol/sdk/server/completable.js';
import { z } from 'zod';
import { Events } from './events.mjs';

const text = (t) => ({ content: [{ type: 'text', text: t }] });

function service() {
  const server = new McpServer({ name: 'sdk-v1', version: '1.0.0' }, { capabilities: { logging: {} }, instructions: 'Add.' });
  server.registerTool('add', { description: 'Adds.', inputSchema: { a: z.number(), b: z.number() }, outputSchema: { sum: z.number() } },
    async ({ a, b }) => ({ ...text(JSON.stringify({ sum: a + b })), structuredContent: { sum: a + b } }));
  server.registerTool('fail', { description: 'Fails.' }, async () => ({ ...text('it failed'), isError: true }));
  server.registerTool('ask', { description: 'Asks the user for a name.' }, async (extra) => {
    const answer = await server.server.elicitInput({
      message: 'What is your name?',
      requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
    }, { relatedRequestId: extra.requestId });
    return text(`Hello, ${answer.content?.name}!`);
  });
  server.registerTool('think', { description: 'Asks the model.' }, async (extra) => {
    const answer = await server.server.createMessage({
      messages: [{ role: 'user', content: { type: 'text', text: 'ping' } }], maxTokens: 10,
    }, { relatedRequestId: extra.requestId });
    return text(answer.content.text);
  });
  server.registerTool('where', { description: 'Asks for roots, on the stream of the session.' }, async () => {
    const { roots } = await server.server.listRoots();
    return text(roots.map((r) => r.uri).join(' '));
  });
  server.registerTool('count', { description: 'Counts, and tells of it.', inputSchema: { to: z.number() } }, async ({ to }, extra) => {
    for (let i = 1; i <= to; i++) {
      await extra.sendNotification({ method: 'notifications/progress',
        params: { progressToken: extra._meta?.progressToken, progress: i, total: to, message: `at ${i}` } });
    }
    return text(`counted to ${to}`);
  });
  server.registerTool('wait', { description: 'Waits until it is cancelled.' }, (extra) => new Promise((resolve) => {
    extra.signal.addEventListener('abort', () => { cancelled++; resolve(text('cancelled')); });
    extra.sendNotification({ method: 'notifications/progress', params: { progressToken: extra._meta?.progressToken, progress: 0 } });
  }));
  server.registerTool('cancelled', { description: 'Tells how many waits were cancelled.' }, async () => text(String(cancelled)));
  server.registerTool('reconnect', { description: 'Closes the stream before it answers.' }, async (extra) => {
    extra.closeSSEStream?.();
    return text('answered on another stream');
  });
  let grown;
  server.registerTool('grow', { description: 'Adds a tool.' }, async () => {
    grown ??= server.registerTool('grown', { description: 'Was added.' }, async () => text('here'));
    return text('grown');
  });
  server.registerResource('static', 'test://static', { mimeType: 'text/plain' },
    async (uri) => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'static text' }] }));
  server.registerResource('item', new ResourceTemplate('test://item/{id}', { list: undefined }), {},
    async (uri, { id }) => ({ contents: [{ uri: uri.href, blob: Buffer.from(`item ${id}`).toString('base64') }] }));
  server.registerPrompt('greet', { description: 'Greets.', argsSchema: { name: completable(z.string(), (v) => ['Ada', 'Alan', 'Grace'].filter((n) => n.startsWith(v))) } },
    async ({ name }) => ({ messages: [{ role: 'user', content: { type: 'text', text: `Say hello to ${name}.` } }] }));
  return server;
}

let cancelled = 0;
const sessions = new Map();

const body = async (req) => {
  let s = '';
  for await (const chunk of req) s += chunk;
  return s ? JSON.parse(s) : undefined;
};

const refuse = (res, status, message) => res.writeHead(status, { 'Content-Type': 'application/json' })
  .end(JSON.stringify({ jsonrpc: '2.0', error: { code: -32000, message }, id: null }));

async function streamable(req, res, options) {
  const parsed = req.method === 'POST' ? await body(req) : undefined;
  if (req.method === 'POST' && req.url === '/forget') { // the test makes us forget all sessions
    for (const t of sessions.values()) await t.close();
    sessions.clear();
    return res.writeHead(204).end();
  }
  const id = req.headers['mcp-session-id'];
  if (options.sessionIdGenerator === undefined) {
    const transport = new StreamableHTTPServerTransport(options);
    await service().connect(transport);
    return transport.handleRequest(req, res, parsed);
  }
  if (id) {
    const transport = sessions.get(id);
    return transport ? transport.handleRequest(req, res, parsed) : refuse(res, 404, 'Session not found');
  }
  const transport = new StreamableHTTPServerTransport({ ...options, onsessioninitialized: (sid) => sessions.set(sid, transport) });
  transport.onclose = () => sessions.delete(transport.sessionId);
  await service().connect(transport);
  return transport.handleRequest(req, res, parsed);
}

async function pair(req, res) {
  const url = new URL(req.url, 'http://localhost');
  if (req.method === 'GET' && url.pathname === '/sse') {
    const transport = new SSEServerTransport('/messages', res);
    sessions.set(transport.sessionId, transport);
    res.on('close', () => sessions.delete(transport.sessionId));
    return service().connect(transport);
  }
  const transport = sessions.get(url.searchParams.get('sessionId'));
  if (url.pathname === '/messages' && transport) return transport.handlePostMessage(req, res);
  return res.writeHead(url.pathname === '/sse' ? 405 : 404).end();
}

const modes = {
  http: { sessionIdGenerator: randomUUID, eventStore: new Events(), retryInterval: 50 },
  json: { sessionIdGenerator: randomUUID, enableJsonResponse: true },
  stateless: { sessionIdGenerator: undefined },
};

const mode = process.argv[2];
if (mode === 'stdio') {
  await service().connect(new StdioServerTransport());
} else {
  const serve = mode === 'sse' ? pair : (req, res) => streamable(req, res, modes[mode]);
  http.createServer((req, res) => serve(req, res).catch((err) => { console.error(err); res.destroy(); })).listen(0, '127.0.0.1');
}
