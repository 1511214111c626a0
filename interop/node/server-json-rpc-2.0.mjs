// The package json-rpc-2.0 as a server of the demo methods, over HTTP and WebSocket on free ports of the loopback. Over
// WebSocket it also asks back: ask calls the client's answer, countdown notifies.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createJSONRPCErrorResponse, JSONRPCClient, JSONRPCErrorException, JSONRPCServer, JSONRPCServerAndClient } from 'json-rpc-2.0';
import WebSocket from 'ws';
import { methods, ready, Refusal } from './methods.mjs';

function serve(server) {
  for (const [name, method] of Object.entries(methods)) {
    server.addMethod(name, async (params) => {
      try {
        return await method(params);
      } catch (err) {
        throw err instanceof Refusal ? new JSONRPCErrorException(err.message, err.code, err.data) : err;
      }
    });
  }
  return server;
}

const plain = serve(new JSONRPCServer({ errorListener: () => {} }));
const http = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) {
    chunks.push(chunk);
  }
  let answer;
  try {
    answer = await plain.receive(JSON.parse(Buffer.concat(chunks)));
  } catch {
    answer = createJSONRPCErrorResponse(null, -32700, 'Parse error');
  }
  if (answer === null) {
    response.writeHead(204).end();
    return;
  }
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
});
http.listen(0, '127.0.0.1');
await once(http, 'listening');

const wss = new WebSocket.Server({ port: 0, host: '127.0.0.1' });
await once(wss, 'listening');
wss.on('connection', (socket) => {
  const both = new JSONRPCServerAndClient(
    serve(new JSONRPCServer({ errorListener: () => {} })),
    new JSONRPCClient((message) => socket.send(JSON.stringify(message))),
    { errorListener: () => {} },
  );
  both.addMethod('ask', (params) => both.request('answer', params));
  both.addMethod('countdown', ({ from }) => {
    for (let left = from; left > 0; left--) {
      both.notify('countdown/tick', { left });
    }
    return 'liftoff';
  });
  socket.on('message', (text) => {
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      socket.send(JSON.stringify(createJSONRPCErrorResponse(null, -32700, 'Parse error')));
      return;
    }
    both.receiveAndSend(message).catch((err) => console.error(err.message, String(text)));
  });
});

ready({ http: `http://127.0.0.1:${http.address().port}/`, ws: `ws://127.0.0.1:${wss.address().port}/` });
