// The official SDK for A2A 0.3 as a client: client03.mjs BASE-URL.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { ClientFactory } from 'a2a-js-sdk-0.3/client';
import { check, finish } from '../../node/checks.mjs';

const client = await new ClientFactory().createFromUrl(process.argv[2]);

const message = (text, more = {}) => ({
  message: { kind: 'message', messageId: crypto.randomUUID(), role: 'user', parts: [{ kind: 'text', text }], ...more.message },
  configuration: more.configuration,
});
const text = (task) => task.artifacts.map((a) => a.parts.map((p) => p.text).join('')).join('|');
const collect = async (events) => {
  const out = [];
  for await (const e of events) out.push(e);
  return out;
};

await check('send', async () => {
  const task = await client.sendMessage(message('hello'));
  assert.equal(task.kind, 'task');
  assert.equal(task.status.state, 'completed');
  assert.equal(text(task), 'echo: hello');
});
await check('a message instead of a task', async () => {
  const reply = await client.sendMessage(message('say'));
  assert.equal(reply.kind, 'message');
  assert.equal(reply.parts[0].text, 'Hi!');
});
await check('stream', async () => {
  const events = await collect(client.sendMessageStream(message('stream me')));
  assert.deepEqual(events.map((e) => e.kind), ['task', 'status-update', 'artifact-update', 'artifact-update', 'status-update']);
  assert.deepEqual(events.filter((e) => e.kind === 'status-update').map((e) => e.final), [false, true]);
});
await check('file and data parts, there and back', async () => {
  const parts = [
    { kind: 'file', file: { bytes: 'aGk=', name: 'a.txt', mimeType: 'text/plain' } },
    { kind: 'file', file: { uri: 'https://example.com/b.txt', name: 'b.txt', mimeType: 'text/plain' } },
    { kind: 'data', data: { n: 1 } },
  ];
  const task = await client.sendMessage(message('', { message: { parts } }));
  assert.deepEqual(task.history[0].parts, parts);
});
await check('get', async () => {
  const task = await client.sendMessage(message('get me'));
  assert.equal(text(await client.getTask({ id: task.id })), 'echo: get me');
  assert.equal((await client.getTask({ id: task.id, historyLength: 0 })).history, undefined);
});
await check('input required, then continue', async () => {
  const task = await client.sendMessage(message('ask'));
  assert.equal(task.status.state, 'input-required');
  const done = await client.sendMessage(message('the blue one', { message: { taskId: task.id, contextId: task.contextId } }));
  assert.equal(done.status.state, 'completed');
  assert.equal(text(done), 'You said: the blue one');
});
await check('not blocking, resubscribe, cancel', async () => {
  const task = await client.sendMessage(message('wait', { configuration: { blocking: false } }));
  const events = client.resubscribeTask({ id: task.id });
  assert.equal((await events.next()).value.kind, 'task');
  assert.equal((await client.cancelTask({ id: task.id })).status.state, 'canceled');
  const rest = await collect(events);
  assert.equal(rest.at(-1).status.state, 'canceled');
  assert.equal(rest.at(-1).final, true);
});
await check('errors', async () => {
  await assert.rejects(client.getTask({ id: 'nope' }), (err) => err.name === 'TaskNotFoundError' || err.code === -32001 || /-32001|not found/i.test(err.message));
  const task = await client.sendMessage(message('over'));
  await assert.rejects(client.cancelTask({ id: task.id }), (err) => err.name === 'TaskNotCancelableError' || err.code === -32002 || /-32002|cancel/i.test(err.message));
});
await check('push in the shape of 0.3', async () => {
  const got = [];
  const hook = createServer((req, res) => {
    let body = '';
    req.on('data', (d) => (body += d));
    req.on('end', () => {
      got.push({ headers: req.headers, body: JSON.parse(body) });
      res.writeHead(204).end();
      hook.emit('notified');
    });
  }).listen(0, '127.0.0.1');
  await once(hook, 'listening');
  const url = `http://127.0.0.1:${hook.address().port}/hook`;
  await client.sendMessage(message('push me', {
    configuration: { blocking: true, pushNotificationConfig: { url, id: 'c1', token: 'tok', authentication: { schemes: ['Bearer'], credentials: 'secret' } } },
  }));
  while (got.at(-1)?.body.status.state !== 'completed') await once(hook, 'notified');
  assert.ok(got.every((g) => g.body.kind === 'task'));
  assert.equal(got[0].headers.authorization, 'Bearer secret');
  assert.equal(got[0].headers['x-a2a-notification-token'], 'tok');
  assert.equal(got[0].headers['content-type'], 'application/json');
  hook.close();
});
await check('webhooks: set, get, list, delete', async () => {
  const task = await client.sendMessage(message('hooks'));
  const config = { taskId: task.id, pushNotificationConfig: { id: 'h', url: 'http://127.0.0.1:9/never' } };
  assert.equal((await client.setTaskPushNotificationConfig(config)).pushNotificationConfig.id, 'h');
  assert.equal((await client.getTaskPushNotificationConfig({ id: task.id, pushNotificationConfigId: 'h' })).taskId, task.id);
  assert.equal((await client.listTaskPushNotificationConfig({ id: task.id })).length, 1);
  await client.deleteTaskPushNotificationConfig({ id: task.id, pushNotificationConfigId: 'h' });
  assert.equal((await client.listTaskPushNotificationConfig({ id: task.id })).length, 0);
});
await check('the extended card', async () => {
  assert.equal((await client.getAgentCard()).name, 'parley interop (known)');
});
finish();
