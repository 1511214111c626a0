// The package json-rpc-2.0 against the demo methods: node client-json-rpc-2.0.mjs HTTP-ADDRESS WS-ADDRESS
// It brings no carrier: over HTTP it stands on fetch, over WebSocket on ws, there as client and server on one connection.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { JSONRPCClient, JSONRPCErrorException, JSONRPCServer, JSONRPCServerAndClient } from 'json-rpc-2.0';
import WebSocket from 'ws';
import { batches, bothWays, calls, check, checksParams, finish, refusal, silentBatch } from './checks.mjs';

const [http, ws] = process.argv.slice(2);

async function post(message) {
  const response = await fetch(http, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    body: JSON.stringify(message),
  });
  if (response.status === 204) {
    return undefined;
  }
  assert.equal(response.status, 200);
  assert.match(response.headers.get('content-type'), /^application\/json/);
  return response.json();
}

{
  const client = new JSONRPCClient(async (message) => {
    const answer = await post(message);
    if (answer !== undefined) {
      client.receive(answer);
    }
  });
  const peer = {
    call: (method, params) => client.request(method, params),
    async notify(method, params) {
      assert.equal(await post({ jsonrpc: '2.0', method, params }), undefined);
      client.notify(method, params);
    },
  };
  await calls('http', peer);
  await checksParams('http', peer);
  await batches('http', post);
  await silentBatch('http', post);
  await check('http: a batch with the batch call of the package', async () => {
    const answers = await client.requestAdvanced([
      { jsonrpc: '2.0', id: 'p', method: 'add', params: { a: 1, b: 2 } },
      { jsonrpc: '2.0', id: 'q', method: 'nothing' },
    ]);
    assert.deepEqual(answers.map((a) => [a.id, a.result ?? a.error.code]), [['p', 3], ['q', -32601]]);
  });
  await check('http: a server cannot ask back over a POST, and says so', async () => {
    assert.equal((await refusal(client.request('ask', { question: 'who?' }))).code, 1002);
  });
}

{
  const socket = new WebSocket(ws);
  await once(socket, 'open');
  const both = new JSONRPCServerAndClient(
    new JSONRPCServer({ errorListener: () => {} }),
    new JSONRPCClient((message) => socket.send(JSON.stringify(message))),
  );
  socket.on('message', (text) => both.receiveAndSend(JSON.parse(text)).catch((err) => console.error(err.message, String(text))));
  socket.on('close', () => both.rejectAllPendingRequests('closed'));

  const answering = new Map();
  for (const name of ['answer', 'countdown/tick']) {
    both.addMethod(name, async (params) => {
      try {
        return await answering.get(name)(params);
      } catch (err) {
        throw new JSONRPCErrorException(err.message, err.code ?? 0);
      }
    });
  }
  const peer = { answering, call: (method, params) => both.request(method, params), notify: (method, params) => both.notify(method, params) };
  await calls('ws', peer);
  await checksParams('ws', peer);
  await bothWays('ws', peer);
  await batches('ws', (messages) => {
    // The package drops answers with id null, so the raw frame is taken here.
    const frame = new Promise((resolve) => socket.once('message', (text) => resolve(JSON.parse(text))));
    socket.send(JSON.stringify(messages));
    return frame;
  });
  await check('ws: it ends with a close frame', async () => {
    const closed = once(socket, 'close');
    socket.close(1000);
    const [code] = await closed;
    assert.equal(code, 1000);
  });
}
finish();
