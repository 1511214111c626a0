// The official SDK for A2A 1.0 against the agents of parley demo: demo.mjs BASE-URL TRANSPORT FILE
// The skill "mark" of the demo writes the time to FILE when it is asked to end.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { Role, TaskState } from '@a2a-js/sdk';
import { ClientFactory, ClientFactoryOptions } from '@a2a-js/sdk/client';
import { check, finish } from '../../node/checks.mjs';

const [base, transport, file] = process.argv.slice(2);
const factory = new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { preferredTransports: [transport] }));
const client = await factory.createFromUrl(base);

const message = (text, more = {}) => ({
  message: {
    messageId: crypto.randomUUID(), role: Role.ROLE_USER, contextId: '', taskId: '', extensions: [], referenceTaskIds: [], metadata: undefined,
    parts: [{ content: { $case: 'text', value: text }, filename: '', mediaType: 'text/plain', metadata: undefined }],
    ...more,
  },
  configuration: { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately: false },
  metadata: undefined,
  tenant: '',
});
const text = (task) => task.artifacts.map((a) => a.parts.map((p) => p.content.value).join('')).join('|');

await check('the card names the agents as skills', async () => {
  const card = await client.getAgentCard();
  const known = ['echo', 'words', 'ask', 'slow', 'scribe', 'courier', 'mark'];
  const names = card.skills.map((s) => s.id);
  assert.deepEqual(names.filter((n) => known.includes(n)), known);
});
await check('echo', async () => {
  const task = await client.sendMessage(message('hello'));
  assert.equal(task.status.state, TaskState.TASK_STATE_COMPLETED);
  assert.equal(text(task), 'hello');
});
await check('words, as a stream', async () => {
  const parts = [];
  for await (const e of client.sendMessageStream(message('/words one two three'))) {
    if (e.payload.$case === 'artifactUpdate') parts.push(...e.payload.value.artifact.parts.map((p) => p.content.value));
  }
  assert.equal(parts.join(''), 'one two three');
  assert.ok(parts.length >= 3);
});
await check('ask, and answer', async () => {
  const task = await client.sendMessage(message('/ask hello'));
  assert.equal(task.status.state, TaskState.TASK_STATE_INPUT_REQUIRED);
  const done = await client.sendMessage(message('Ada', { taskId: task.id, contextId: task.contextId }));
  assert.equal(text(done), 'Hello Ada! Your message: hello');
});
await check('courier, rejoined', async () => {
  let id;
  for await (const e of client.sendMessageStream(message('/courier 4 stops of 100ms'))) {
    id = e.payload.value.taskId ?? e.payload.value.id;
    if (e.payload.$case === 'artifactUpdate') break; // and leave it
  }
  let last;
  for await (const e of client.resubscribeTask({ id, tenant: '' })) last = e;
  assert.equal(last.payload.value.status.state, TaskState.TASK_STATE_COMPLETED);
  assert.match(text(await client.getTask({ id, tenant: '' })), /Stop 4 of 4/);
});
await check('a cancel reaches the agent', async () => {
  let id;
  const events = client.sendMessageStream(message('/mark'));
  for (;;) {
    const { value } = await events.next();
    id = value.payload.value.taskId ?? value.payload.value.id;
    if (value.payload.$case === 'artifactUpdate') break; // it is up
  }
  const canceled = await client.cancelTask({ id, tenant: '', metadata: undefined });
  assert.equal(canceled.status.state, TaskState.TASK_STATE_CANCELED);
  while (!existsSync(file) || readFileSync(file, 'utf8') === '') await new Promise((resolve) => setTimeout(resolve, 2));
});
finish();
