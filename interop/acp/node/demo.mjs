// The client of acp-sdk against the agents of parley demo: node demo.mjs BASE FILE
// The agent "mark" of the demo writes the time to FILE when it is asked to end.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { check, finish } from '../../node/checks.mjs';

const { Client } = createRequire(import.meta.url)('acp-sdk');

const [base, file] = process.argv.slice(2);
const client = new Client({ baseUrl: base });
const text = (run) => run.output.flatMap((m) => m.parts.map((p) => p.content)).join('');
const message = (content) => ({ role: 'user', parts: [{ content_type: 'text/plain', content }] });
const answer = (content) => ({ type: 'message', message: { ...message(content), created_at: null, completed_at: null } });

await check('agents', async () => {
  const agents = await client.agents();
  const known = ['echo', 'words', 'ask', 'slow', 'scribe', 'courier', 'mark'];
  const names = agents.map((a) => a.name);
  assert.deepEqual(names.filter((n) => known.includes(n)), known);
});
await check('words, as a stream', async () => {
  const parts = [];
  for await (const e of client.runStream('words', [message('one two three')])) {
    if (e.type === 'message.part') parts.push(e.part.content);
  }
  assert.deepEqual(parts, ['one ', 'two ', 'three']);
});
await check('ask, and answer', async () => {
  const run = await client.runSync('ask', 'hello');
  assert.equal(run.status, 'awaiting');
  assert.equal(run.await_request.message.parts[0].content, 'What is your name?');
  assert.equal(text(await client.runResumeSync(run.run_id, answer('Ada'))), 'Hello Ada! Your message: hello');
});
await check('scribe files an artifact when it may', async () => {
  const run = await client.runSync('scribe', 'tea');
  const done = await client.runResumeSync(run.run_id, answer('yes'));
  assert.ok(done.output.flatMap((m) => m.parts).some((p) => p.name === 'note.md' && p.content_type === 'text/markdown'));
});
await check('courier, left and found again', async () => {
  const run = await client.runAsync('courier', '3 stops of 100ms');
  for (;;) {
    const now = await client.runStatus(run.run_id);
    if (now.status === 'completed') {
      assert.match(text(now), /Stop 3 of 3/);
      break;
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
});
await check('a cancel reaches the agent', async () => {
  let begun;
  for await (const e of client.runStream('mark', [message('')])) {
    if (e.type === 'run.in-progress') begun = e.run.run_id;
    if (e.type === 'message.part') break; // it is up
  }
  await client.runCancel(begun);
  while (!existsSync(file) || readFileSync(file, 'utf8') === '') await new Promise((resolve) => setTimeout(resolve, 2));
});
finish();
