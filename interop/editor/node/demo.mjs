// @agentclientprotocol/sdk as a client of parley demo: demo.mjs FILE COMMAND ARG…
// The command "mark" of the demo writes the time to FILE when it is asked to end.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { Readable, Writable } from 'node:stream';
import * as acp from '@agentclientprotocol/sdk';
import { check, finish } from './checks.mjs';

const [file, command, ...args] = process.argv.slice(2);
const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
const { agent, client } = acp.methods;

let seen = [];
let written;
const text = () => seen.filter((u) => u.sessionUpdate === 'agent_message_chunk').map((u) => u.content.text).join('');

const app = acp
  .client({ name: 'reader' })
  .onNotification(client.session.update, ({ params }) => void seen.push(params.update))
  .onRequest(client.session.requestPermission, ({ params }) => {
    assert.match(params.toolCall.title, /^Write these \d+ bytes to note.md\?$/);
    return { outcome: { outcome: 'selected', optionId: params.options.find((o) => o.kind === 'allow_once').optionId } };
  })
  .onRequest(client.fs.writeTextFile, ({ params }) => {
    written = params;
    return {};
  });

await app.connectWith(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)), async (ctx) => {
  let session;
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  const prompt = (words) => {
    seen = [];
    return ctx.request(agent.session.prompt, { sessionId: session, prompt: [{ type: 'text', text: words }] });
  };
  await check('initialize, and a session with its commands', async () => {
    const it = await ctx.request(agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION, clientInfo: { name: 'reader', version: '2.4.0' },
      clientCapabilities: { fs: { readTextFile: false, writeTextFile: true } },
    });
    assert.equal(it.agentInfo.name, 'parley-demo');
    session = (await ctx.request(agent.session.new, { cwd: '/project', mcpServers: [] })).sessionId;
    while (seen.length === 0) await settled();
    const known = ['echo', 'words', 'ask', 'slow', 'scribe', 'courier', 'mark'];
    const names = seen[0].availableCommands.map((c) => c.name);
    assert.deepEqual(names.filter((n) => known.includes(n)), known);
  });
  await check('words, as updates', async () => {
    const end = await prompt('/words one two three');
    await settled();
    assert.equal(end.stopReason, 'end_turn');
    assert.equal(text(), 'one two three');
    assert.equal(seen.length, 3);
  });
  await check('ask without forms, and the next prompt is the answer', async () => {
    await prompt('/ask hello');
    await settled();
    assert.equal(text(), 'What is your name?');
    await prompt('Ada');
    await settled();
    assert.equal(text(), 'Hello Ada! Your message: hello');
  });
  await check('scribe asks for the permission and writes through the editor', async () => {
    const end = await prompt('tea');
    assert.equal(end.stopReason, 'end_turn');
    assert.equal(written.path, '/project/note.md');
    assert.match(written.content, /^# Tea\n/);
  });
  await check('a cancel reaches the agent', async () => {
    const turn = prompt('/mark');
    while (text() === '') await settled();
    await ctx.notify(agent.session.cancel, { sessionId: session });
    assert.equal((await turn).stopReason, 'cancelled');
    assert.ok(readFileSync(file, 'utf8') !== '');
  });
});
child.kill();
finish();
