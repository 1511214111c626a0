// jayson's servers of the demo methods on free ports of the loopback, in both versions of JSON-RPC.
import { once } from 'node:events';
import jayson from 'jayson';
import WebSocket from 'ws';
import { methods, ready, Refusal } from './methods.mjs';

function handlers() {
  const out = {};
  for (const [name, method] of Object.entries(methods)) {
    out[name] = new jayson.Method((params, done) => {
      Promise.resolve()
        .then(() => method(params))
        .then(
          (result) => done(null, result),
          (err) => done(err instanceof Refusal ? { code: err.code, message: err.message, data: err.data } : { code: -32603, message: String(err) }),
        );
    });
  }
  return out;
}

async function listen(server) {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `127.0.0.1:${server.address().port}`;
}

const server = new jayson.Server(handlers());
const old = new jayson.Server(handlers(), { version: 1 });
const wss = new WebSocket.Server({ port: 0, host: '127.0.0.1' });
await once(wss, 'listening');
server.websocket({ wss });

ready({
  http: `http://${await listen(server.http())}/`,
  tcp: `tcp://${await listen(server.tcp())}`,
  ws: `ws://127.0.0.1:${wss.address().port}/`,
  'http 1.0': `http://${await listen(old.http())}/?jsonrpc=1.0`,
  'tcp 1.0': `tcp://${await listen(old.tcp())}?jsonrpc=1.0`,
});
