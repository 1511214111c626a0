// vscode-jsonrpc as a server on its own stdio, with Content-Length framing: the demo methods, and the three things that
// editors add to JSON-RPC: cancellation, progress, and calls back to the client.
import rpc from 'vscode-jsonrpc/node';
import { methods, Refusal } from './methods.mjs';

const connection = rpc.createMessageConnection(new rpc.StreamMessageReader(process.stdin), new rpc.StreamMessageWriter(process.stdout));

function answer(name, method) {
  connection.onRequest(name, async (...words) => {
    const token = words.pop();
    // By position the library hands over one argument for each; by name, one object.
    const named = words.length === 1 && typeof words[0] === 'object' && words[0] !== null && !Array.isArray(words[0]);
    try {
      return await method(named ? words[0] : words, token);
    } catch (err) {
      return err instanceof Refusal ? new rpc.ResponseError(err.code, err.message, err.data) : new rpc.ResponseError(-32603, String(err));
    }
  });
}

for (const [name, method] of Object.entries(methods)) {
  answer(name, method);
}
answer('sleep', (params, token) => new Promise((resolve, reject) => {
  const ms = params.ms ?? params[0];
  const timer = setTimeout(() => resolve(ms), ms);
  const cancel = () => {
    clearTimeout(timer);
    reject(new Refusal(-32800, 'cancelled'));
  };
  // A cancel that comes right behind its request is seen by the flag alone.
  token.isCancellationRequested ? cancel() : token.onCancellationRequested(cancel);
}));
answer('ask', (params) => connection.sendRequest('answer', rpc.ParameterStructures.byName, params));
answer('countdown', async ({ from }) => {
  for (let left = from; left > 0; left--) {
    await connection.sendNotification('countdown/tick', rpc.ParameterStructures.byName, { left });
  }
  return 'liftoff';
});
answer('work', async ({ workDoneToken, steps }) => {
  const type = new rpc.ProgressType();
  for (let step = 1; step <= steps; step++) {
    await connection.sendProgress(type, workDoneToken, { kind: 'report', percentage: (100 * step) / steps });
  }
  return 'done';
});
connection.onNotification('log_event', (...params) => void methods.log_event(params));
connection.onNotification('exit', () => process.exit(0));
connection.onClose(() => process.exit(0));
connection.listen();
