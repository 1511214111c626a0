// vscode-jsonrpc, the library of VS Code's language clients, against the demo methods with Content-Length framing:
//   node client-vscode.mjs ADDRESS           on a TCP or Unix socket
//   node client-vscode.mjs -- CMD ARG…       on the stdio of a child
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import rpc from 'vscode-jsonrpc/node';
import { bothWays, calls, check, checksParams, finish, refusal, target } from './checks.mjs';

const words = process.argv.slice(2);
let child;
let streams;
let label;
if (words[0] === '--') {
  child = spawn(words[1], words.slice(2), { stdio: ['pipe', 'pipe', 'inherit'] });
  streams = [child.stdout, child.stdin];
  label = 'stdio';
} else {
  const socket = connect(target(words[0]));
  await once(socket, 'connect');
  streams = [socket, socket];
  label = words[0].split(':')[0];
}
const connection = rpc.createMessageConnection(new rpc.StreamMessageReader(streams[0]), new rpc.StreamMessageWriter(streams[1]));
const answering = new Map();
connection.onRequest('answer', async (params) => {
  try {
    return await answering.get('answer')(params);
  } catch (err) {
    return new rpc.ResponseError(err.code, err.message);
  }
});
connection.onNotification('countdown/tick', (params) => answering.get('countdown/tick')?.(params));
connection.onUnhandledNotification((message) => console.error('unhandled', message));
connection.listen();

// spread tells the library which of the two forms of params is meant.
function spread(params) {
  if (params === undefined) {
    return [];
  }
  return Array.isArray(params) ? [rpc.ParameterStructures.byPosition, ...params] : [rpc.ParameterStructures.byName, params];
}
const peer = {
  answering,
  call: (method, params, token) => connection.sendRequest(method, ...spread(params), ...(token ? [token] : [])),
  notify: (method, params) => connection.sendNotification(method, ...spread(params)),
};

await calls(label, peer);
await checksParams(label, peer);
await bothWays(label, peer);
await check(`${label}: a cancelled call is answered -32800, at once`, async () => {
  const source = new rpc.CancellationTokenSource();
  const start = performance.now();
  const answer = refusal(peer.call('sleep', [60_000], source.token));
  source.cancel();
  assert.equal((await answer).code, rpc.LSPErrorCodes?.RequestCancelled ?? -32800);
  assert.ok(performance.now() - start < 5_000);
});
await check(`${label}: only the cancelled one of many`, async () => {
  const sources = Array.from({ length: 10 }, () => new rpc.CancellationTokenSource());
  const answers = sources.map((source, i) => peer.call('sleep', { ms: 200 + i }, source.token).then(
    (ms) => ms,
    (err) => err.code,
  ));
  sources[3].cancel();
  sources[7].cancel();
  assert.deepEqual(await Promise.all(answers), [200, 201, 202, -32800, 204, 205, 206, -32800, 208, 209]);
});
await check(`${label}: cancelling what is over or never was does no harm`, async () => {
  await connection.sendNotification('$/cancelRequest', { id: 0 });
  await connection.sendNotification('$/cancelRequest', { id: 'nobody' });
  await connection.sendNotification('$/setTrace', { value: 'off' });
  assert.equal(await peer.call('add', [1, 2]), 3);
});
await check(`${label}: a stream of ticks can be cancelled`, async () => {
  const source = new rpc.CancellationTokenSource();
  const first = new Promise((resolve) => answering.set('countdown/tick', resolve));
  const answer = refusal(peer.call('countdown', { from: 1000, interval_ms: 20 }, source.token));
  await first;
  source.cancel();
  assert.equal((await answer).code, -32800);
});
if (child) {
  await check('stdio: the child ends by itself when its stdin ends', async () => {
    const exit = once(child, 'exit');
    connection.end();
    child.stdin.end();
    assert.deepEqual(await exit, [0, null]);
  });
} else {
  connection.dispose();
}
finish();
