// @a2a-js/sdk as a client: node a2a.mjs BASE-URL
import assert from 'node:assert/strict';

const sdk = '../../a2a/node/node_modules/@a2a-js/sdk/dist/';
const { Role, TaskState } = await import(new URL(`${sdk}index.js`, import.meta.url));
const { ClientFactory, ClientFactoryOptions } = await import(new URL(`${sdk}client/index.js`, import.meta.url));
const { check, finish } = await import(new URL('../../node/checks.mjs', import.meta.url));

const factory = new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { preferredTransports: ['JSONRPC'] }));
const client = await factory.createFromUrl(process.argv[2]);
const message = (text, more = {}) => ({
  message: {
    messageId: crypto.randomUUID(), role: Role.ROLE_USER, contextId: '', taskId: '', extensions: [], referenceTaskIds: [], metadata: undefined,
    parts: [{ content: { $case: 'text', value: text }, filename: '', mediaType: 'text/plain', metadata: undefined }], ...more,
  },
  configuration: { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately: false }, metadata: undefined, tenant: '',
});

await check('send and get', async () => {
  const task = await client.sendMessage(message('hello'));
  assert.equal(task.status.state, TaskState.TASK_STATE_COMPLETED);
  assert.equal((await client.getTask({ id: task.id, tenant: '' })).id, task.id);
});
await check('ask and go on', async () => {
  const task = await client.sendMessage(message('ask'));
  assert.equal(task.status.state, TaskState.TASK_STATE_INPUT_REQUIRED);
  const done = await client.sendMessage(message('this one', { taskId: task.id, contextId: task.contextId }));
  assert.equal(done.status.state, TaskState.TASK_STATE_COMPLETED);
});
await check('stream', async () => {
  const kinds = [];
  for await (const e of client.sendMessageStream(message('stream me'))) kinds.push(e.payload?.$case);
  assert.deepEqual(kinds.slice(-3), ['artifactUpdate', 'artifactUpdate', 'statusUpdate']);
});
await check('a task that is none', async () => assert.rejects(client.getTask({ id: 'none', tenant: '' })));
finish();
