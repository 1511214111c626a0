// The official SDK for A2A 1.0 as a client: client.mjs BASE-URL TRANSPORT, where TRANSPORT is JSONRPC or HTTP+JSON.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { Role, TaskState } from '@a2a-js/sdk';
import { ClientFactory, ClientFactoryOptions } from '@a2a-js/sdk/client';
import { check, finish } from '../../node/checks.mjs';

const [base, transport] = process.argv.slice(2);
const factory = new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { preferredTransports: [transport] }));
const client = await factory.createFromUrl(base);

const message = (text, more = {}) => ({
  message: {
    messageId: crypto.randomUUID(), role: Role.ROLE_USER, contextId: '', taskId: '', extensions: [], referenceTaskIds: [], metadata: undefined,
    parts: [{ content: { $case: 'text', value: text }, filename: '', mediaType: 'text/plain', metadata: undefined }],
    ...more.message,
  },
  configuration: { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately: false, ...more.configuration },
  metadata: undefined,
  tenant: '',
});
const text = (task) => task.artifacts.map((a) => a.parts.map((p) => p.content.value).join('')).join('|');
const collect = async (events) => {
  const out = [];
  for await (const e of events) out.push(e);
  return out;
};
const kinds = (events) => events.map((e) => e.payload?.$case).join(' ');

await check('send', async () => {
  const task = await client.sendMessage(message('hello'));
  assert.equal(task.status.state, TaskState.TASK_STATE_COMPLETED);
  assert.equal(text(task), 'echo: hello');
  assert.equal(task.history[0].parts[0].content.value, 'hello');
});
await check('a message instead of a task', async () => {
  const reply = await client.sendMessage(message('say'));
  assert.equal(reply.parts[0].content.value, 'Hi!');
  assert.equal(reply.role, Role.ROLE_AGENT);
});
await check('stream', async () => {
  const events = await collect(client.sendMessageStream(message('stream me')));
  assert.equal(kinds(events), 'task statusUpdate artifactUpdate artifactUpdate statusUpdate');
  assert.equal(events[0].payload.value.status.state, TaskState.TASK_STATE_SUBMITTED);
  assert.equal(events[3].payload.value.append, true);
  assert.equal(events[3].payload.value.lastChunk, true);
  assert.equal(events.at(-1).payload.value.status.state, TaskState.TASK_STATE_COMPLETED);
});
await check('stream of one message', async () => {
  const events = await collect(client.sendMessageStream(message('say')));
  assert.equal(kinds(events), 'message');
});
await check('get, with and without history', async () => {
  const task = await client.sendMessage(message('get me'));
  const again = await client.getTask({ id: task.id, tenant: '' });
  assert.equal(text(again), 'echo: get me');
  const bare = await client.getTask({ id: task.id, tenant: '', historyLength: 0 });
  assert.equal(bare.history.length, 0);
});
await check('list by context, page by page', async () => {
  const contextId = crypto.randomUUID();
  for (let i = 0; i < 3; i++) await client.sendMessage(message(`n${i}`, { message: { contextId } }));
  const ask = { contextId, pageSize: 2, pageToken: '', status: TaskState.TASK_STATE_UNSPECIFIED, tenant: '', includeArtifacts: true, statusTimestampAfter: undefined };
  const first = await client.listTasks(ask);
  assert.equal(first.tasks.length, 2);
  assert.equal(first.totalSize, 3);
  const rest = await client.listTasks({ ...ask, pageToken: first.nextPageToken });
  assert.equal(rest.tasks.length, 1);
  assert.equal(rest.nextPageToken, '');
  assert.equal(new Set([...first.tasks, ...rest.tasks].map((t) => t.id)).size, 3);
});
await check('input required, then continue', async () => {
  const task = await client.sendMessage(message('ask'));
  assert.equal(task.status.state, TaskState.TASK_STATE_INPUT_REQUIRED);
  assert.equal(task.status.message.parts[0].content.value, 'Which one?');
  const done = await client.sendMessage(message('the blue one', { message: { taskId: task.id, contextId: task.contextId } }));
  assert.equal(done.id, task.id);
  assert.equal(done.status.state, TaskState.TASK_STATE_COMPLETED);
  assert.equal(text(done), 'You said: the blue one');
});
await check('return immediately, subscribe, cancel', async () => {
  const task = await client.sendMessage(message('wait', { configuration: { returnImmediately: true } }));
  assert.ok(task.status.state === TaskState.TASK_STATE_SUBMITTED || task.status.state === TaskState.TASK_STATE_WORKING);
  const events = client.resubscribeTask({ id: task.id, tenant: '' });
  const first = await events.next();
  assert.equal(first.value.payload.$case, 'task');
  const canceled = await client.cancelTask({ id: task.id, tenant: '', metadata: undefined });
  assert.equal(canceled.status.state, TaskState.TASK_STATE_CANCELED);
  const rest = await collect(events);
  assert.equal(rest.at(-1).payload.value.status.state, TaskState.TASK_STATE_CANCELED);
});
await check('errors', async () => {
  await assert.rejects(client.getTask({ id: 'nope', tenant: '' }), { name: 'TaskNotFoundError' });
  const task = await client.sendMessage(message('over'));
  await assert.rejects(client.cancelTask({ id: task.id, tenant: '', metadata: undefined }), { name: 'TaskNotCancelableError' });
});
await check('push in the shape of 1.0', async () => {
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
    configuration: { taskPushNotificationConfig: { url, id: 'c1', taskId: '', token: 'tok', tenant: '', authentication: { scheme: 'Bearer', credentials: 'secret' } } },
  }));
  while (got.at(-1)?.body.statusUpdate?.status.state !== 'TASK_STATE_COMPLETED') await once(hook, 'notified');
  assert.deepEqual(got.map((g) => Object.keys(g.body)[0]), ['task', 'statusUpdate', 'artifactUpdate', 'artifactUpdate', 'statusUpdate']);
  assert.equal(got[0].headers.authorization, 'Bearer secret');
  assert.equal(got[0].headers['x-a2a-notification-token'], 'tok');
  assert.equal(got[0].headers['content-type'], 'application/a2a+json');
  hook.close();
});
await check('webhooks: set, get, list, delete', async () => {
  const task = await client.sendMessage(message('hooks'));
  const config = { url: 'http://127.0.0.1:9/never', id: 'h', taskId: task.id, token: '', tenant: '', authentication: undefined };
  assert.equal((await client.createTaskPushNotificationConfig(config)).id, 'h');
  assert.equal((await client.getTaskPushNotificationConfig({ taskId: task.id, id: 'h', tenant: '' })).url, config.url);
  assert.equal((await client.listTaskPushNotificationConfig({ taskId: task.id, tenant: '', pageSize: 0, pageToken: '' })).configs.length, 1);
  await client.deleteTaskPushNotificationConfig({ taskId: task.id, id: 'h', tenant: '' });
  assert.equal((await client.listTaskPushNotificationConfig({ taskId: task.id, tenant: '', pageSize: 0, pageToken: '' })).configs.length, 0);
});
await check('the extended card', async () => {
  const card = await client.getAgentCard();
  assert.equal(card.name, 'parley interop (known)');
});
finish();
