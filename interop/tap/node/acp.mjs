// @agentclientprotocol/sdk as an editor of an agent: node acp.mjs CMD ARG…
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { Readable, Writable } from 'node:stream';

const acp = await import(new URL('../../editor/node/node_modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js', import.meta.url));
const { check, finish } = await import(new URL('../../node/checks.mjs', import.meta.url));

const child = spawn(process.argv[2], process.argv.slice(3), { stdio: ['pipe', 'pipe', 'inherit'] });
const { agent, client } = acp.methods;
let said = '';
const app = acp
  .client({ name: 'editor' })
  .onNotification(client.session.update, ({ params: { update } }) => {
    if (update.sessionUpdate === 'agent_message_chunk') said += update.content.text;
  })
  .onRequest(client.session.requestPermission, ({ params }) => ({ outcome: { outcome: 'selected', optionId: params.options.at(-1).optionId } }))
  .onRequest(client.fs.readTextFile, () => ({ content: 'sea' }))
  .onRequest(client.fs.writeTextFile, () => ({}))
  .onRequest(client.terminal.create, () => ({ terminalId: 't1' }))
  .onRequest(client.terminal.waitForExit, () => ({ exitCode: 0 }))
  .onRequest(client.terminal.output, () => ({ output: 'hello', truncated: false, exitStatus: { exitCode: 0 } }))
  .onRequest(client.terminal.release, () => ({}))
  .onRequest(client.elicitation.create, () => ({ action: 'accept', content: { name: 'Ada' } }));

await app.connectWith(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)), async (ctx) => {
  let session;
  const prompt = (text) => ctx.request(agent.session.prompt, { sessionId: session, prompt: [{ type: 'text', text }] });
  await check('initialize and a session', async () => {
    const it = await ctx.request(agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION, clientInfo: { name: 'editor', version: '1.0.0' },
      clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true },
    });
    assert.equal(it.agentInfo.name, 'tourist');
    ({ sessionId: session } = await ctx.request(agent.session.new, { cwd: '/tour', mcpServers: [] }));
  });
  await check('a turn with permission and files', async () => assert.equal((await prompt('tour')).stopReason, 'end_turn'));
  await check('a thousand updates', async () => {
    assert.equal((await prompt('flood')).stopReason, 'max_tokens');
    await new Promise((resolve) => setImmediate(resolve));
    assert.match(said, / 999 $/);
  });
});
child.stdin.end();
finish();
child.kill();
