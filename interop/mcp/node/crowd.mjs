// Clients of both SDKs use our service at once: node crowd.mjs URL CLIENTS CALLS
import assert from 'node:assert/strict';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { check, finish } from '../../node/checks.mjs';

const [url, clients, calls] = [new URL(process.argv[2]), Number(process.argv[3]), Number(process.argv[4])];

// kinds are how a client is made: with a session each, and for all without one.
const kinds = [
  { name: 'v1', make: () => [new ClientV1({ name: 'sdk-v1', version: '1.0.0' }), new TransportV1(url)] },
  ...['legacy', '2026-07-28'].map((era) => ({
    name: `v2 ${era}`,
    make: () => [
      new Client({ name: 'sdk-v2', version: '2.0.0' }, { versionNegotiation: { mode: era === 'legacy' ? era : { pin: era } } }),
      new StreamableHTTPClientTransport(url),
    ],
  })),
];

const crowd = await Promise.all(Array.from({ length: clients }, async (_, i) => {
  const { name, make } = kinds[i % kinds.length];
  const [client, transport] = make();
  await client.connect(transport);
  return { name: `client ${i}, ${name}`, client };
}));
await Promise.all(crowd.map(({ name, client }, i) => check(name, async () => {
  for (let n = 0; n < calls; n++) {
    const { structuredContent } = await client.callTool({ name: 'add', arguments: { a: 1000 * i, b: n } });
    assert.deepEqual(structuredContent, { sum: 1000 * i + n });
  }
  await client.close();
})));
finish();
