// jayson's clients against the demo methods: node client-jayson.mjs [1.0] ADDRESS…
// Addresses are http://, tcp:// and ws://; with 1.0 in front all of them speak JSON-RPC 1.0.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import jayson from 'jayson';
import WebSocket from 'ws';
import { batches, calls, check, checksParams, finish, refusal, silentBatch, target } from './checks.mjs';

const addresses = process.argv.slice(2);
const old = addresses[0] === '1.0';
if (old) {
  addresses.shift();
}

async function connect(address) {
  const options = { version: old ? 1 : 2 };
  const url = new URL(address);
  if (url.protocol === 'http:') {
    const { host, port } = target(address);
    return jayson.Client.http({ ...options, host, port, path: url.pathname + url.search });
  }
  if (url.protocol === 'ws:') {
    const ws = new WebSocket(address);
    await once(ws, 'open');
    return jayson.Client.websocket({ ...options, ws });
  }
  return jayson.Client.tcp({ ...options, ...target(address) });
}

// answerOf is the whole response; undefined for none.
function answerOf(client, ...request) {
  return new Promise((resolve, reject) => {
    client.request(...request, (err, response) => (err ? reject(err) : resolve(response)));
  });
}

function adapter(client, unordered) {
  return {
    unordered, // each message has a connection of its own, so nothing tells which comes first
    async call(method, params) {
      const response = await answerOf(client, method, params, undefined);
      if (response.error) {
        throw response.error;
      }
      return response.result;
    },
    async notify(method, params) {
      assert.equal(await answerOf(client, method, params, null), undefined);
    },
  };
}

for (const address of addresses) {
  const client = await connect(address);
  const label = `${address.split(':')[0]}${old ? ' 1.0' : ''}`;
  const peer = adapter(client, label.startsWith('tcp'));
  await calls(label, peer, { named: !old });
  await checksParams(label, peer);
  if (old) {
    await check(`${label}: the answer has result and error and no version`, async () => {
      assert.deepEqual(await answerOf(client, 'add', [5, 3], 'one'), { id: 'one', result: 8, error: null });
      const response = await answerOf(client, 'fail', [7, 'seven'], 2);
      assert.equal(response.id, 2);
      assert.equal(response.result, null);
      assert.equal(response.error.code, 7);
      assert.ok(!('jsonrpc' in response));
    });
  } else {
    await check(`${label}: ids as they came`, async () => {
      for (const id of ['', 'x', '1', 1, 0, -3, 'ä🌍', 9007199254740991]) {
        assert.deepEqual(await answerOf(client, { jsonrpc: '2.0', id, method: 'add', params: [1, 2] }), { jsonrpc: '2.0', id, result: 3 });
      }
    });
    await check(`${label}: requests that are none`, async () => {
      const { error, id } = await answerOf(client, { jsonrpc: '2.0', id: 5, method: 'add', params: 'bar' });
      assert.deepEqual([id, error.code], [5, -32600]);
    });
    if (label !== 'ws') {
      // Over WebSocket this client finds the answer of a batch by an id that is in it, and so never the one to a batch without.
      await batches(label, (messages) => answerOf(client, messages));
      if (label === 'http') {
        await silentBatch(label, (messages) => answerOf(client, messages)); // over TCP it waits for an answer to any array
      }
    } else {
      await check('ws: a batch', async () => {
        const answers = await answerOf(client, [client.request('add', [1, 2], 'a'), client.request('update', [1], null), client.request('no_such', [], 'b')]);
        assert.deepEqual(answers.map((a) => [a.id, a.result ?? a.error.code]), [['a', 3], ['b', -32601]]);
      });
    }
  }
  client.ws?.close();
}
await check('a call to nobody fails', async () => {
  const client = jayson.Client.tcp({ host: '127.0.0.1', port: 1 });
  assert.equal((await refusal(adapter(client).call('add', [1, 2]))).code, 'ECONNREFUSED');
});
finish();
