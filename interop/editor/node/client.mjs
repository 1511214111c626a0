// @agentclientprotocol/sdk as a client of the agent whose command line is given.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { Readable, Writable } from 'node:stream';
import * as acp from '@agentclientprotocol/sdk';
import { check, finish } from './checks.mjs';

const child = spawn(process.argv[2], process.argv.slice(3), { stdio: ['pipe', 'pipe', 'inherit'] });
const { agent, client } = acp.methods;

let seen = [];
let granted = 'yes';
let asked = () => {};
const text = () => seen.filter((u) => u.sessionUpdate === 'agent_message_chunk').map((u) => u.content.text).join('');

const app = acp
  .client({ name: 'traveller' })
  .onNotification(client.session.update, ({ params }) => void seen.push(params.update))
  .onRequest(client.session.requestPermission, async ({ params }) => {
    asked(params);
    if (granted === 'never') {
      return new Promise(() => {});
    }
    return { outcome: { outcome: 'selected', optionId: granted } };
  })
  .onRequest(client.fs.readTextFile, ({ params }) => {
    if (params.path !== '/tour/notes.txt') {
      throw acp.RequestError.resourceNotFound(params.path);
    }
    assert.deepEqual([params.line, params.limit], [1, 1]);
    return { content: 'sea' };
  })
  .onRequest(client.fs.writeTextFile, ({ params }) => {
    assert.equal(params.content, 'sea!');
    return {};
  })
  .onRequest(client.terminal.create, ({ params }) => ({ terminalId: `${params.command} ${params.args.join(' ')}` }))
  .onRequest(client.terminal.waitForExit, () => ({ exitCode: 0 }))
  .onRequest(client.terminal.output, ({ params }) => ({ output: params.terminalId.slice(5), truncated: false, exitStatus: { exitCode: 0 } }))
  .onRequest(client.terminal.release, () => ({}))
  .onRequest(client.elicitation.create, ({ params }) => {
    assert.equal(params.requestedSchema.properties.name.type, 'string');
    return { action: 'accept', content: { name: 'Ada' } };
  })
  .onRequest('_tour/answer', (p) => p, ({ params }) => ({ got: params.question }));

await app.connectWith(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)), async (ctx) => {
  let session;
  const prompt = (words) => ctx.request(agent.session.prompt, { sessionId: session, prompt: [{ type: 'text', text: words }] });
  // The library resolves a prompt before the handlers of its last updates have run.
  const settled = () => new Promise((resolve) => setImmediate(resolve));

  await check('initialize', async () => {
    const it = await ctx.request(agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientInfo: { name: 'traveller', version: '2.4.0' },
      clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true, elicitation: { form: {} } },
    });
    assert.equal(it.protocolVersion, 1);
    assert.equal(it.agentInfo.name, 'tourist');
    assert.equal(it.agentCapabilities.loadSession, true);
    assert.deepEqual(it.agentCapabilities.sessionCapabilities, { list: {}, delete: {}, resume: {}, close: {} });
    assert.deepEqual(it.authMethods, [{ id: 'key', name: 'With a key' }]);
  });
  await check('authenticate, and a method that is none', async () => {
    await ctx.request(agent.authenticate, { methodId: 'key' });
    await assert.rejects(ctx.request(agent.authenticate, { methodId: 'smile' }), { code: -32602 });
    await assert.rejects(ctx.request('no/such', {}), { code: -32601 });
  });
  await check('new session, and what follows its answer', async () => {
    const it = await ctx.request(agent.session.new, { cwd: '/tour', mcpServers: [{ name: 'm', command: '/bin/m', args: [], env: [] }] });
    session = it.sessionId;
    assert.equal(it.modes.currentModeId, 'ask');
    assert.equal(it.configOptions[0].options.length, 2);
    while (!seen.some((u) => u.sessionUpdate === 'available_commands_update')) {
      await settled();
    }
  });
  await check('a whole turn', async () => {
    seen = [];
    const end = await prompt('tour');
    await settled();
    assert.equal(end.stopReason, 'end_turn');
    assert.deepEqual(end._meta, { miles: 12 });
    assert.equal(text(), 'sea hello 0 Ada');
    assert.deepEqual(
      seen.map((u) => u.sessionUpdate),
      ['agent_thought_chunk', 'plan', 'tool_call', 'tool_call_update', 'agent_message_chunk'],
    );
    assert.equal(seen[3].content[0].newText, 'sea!');
  });
  await check('a turn that is not allowed', async () => {
    granted = 'no';
    assert.equal((await prompt('tour')).stopReason, 'refusal');
    granted = 'yes';
  });
  await check('cancel', async () => {
    seen = [];
    const turn = prompt('wait');
    while (text() !== 'waiting') {
      await settled();
    }
    await ctx.notify(agent.session.cancel, { sessionId: session });
    assert.equal((await turn).stopReason, 'cancelled');
  });
  await check('cancel in the same breath as the prompt', async () => {
    for (let i = 0; i < 50; i++) {
      const turn = prompt('wait');
      await ctx.notify(agent.session.cancel, { sessionId: session });
      assert.equal((await turn).stopReason, 'cancelled');
    }
  });
  await check('cancel while the user is asked', async () => {
    granted = 'never';
    const here = new Promise((resolve) => { asked = resolve; });
    const turn = prompt('question');
    assert.equal((await here).toolCall.title, 'May I?');
    await ctx.notify(agent.session.cancel, { sessionId: session });
    assert.equal((await turn).stopReason, 'cancelled');
    granted = 'yes';
  });
  await check('cancel the request itself', async () => {
    seen = [];
    const off = new AbortController();
    const turn = ctx.request(agent.session.prompt, { sessionId: session, prompt: [{ type: 'text', text: 'wait' }] }, { cancellationSignal: off.signal });
    while (text() !== 'waiting') {
      await settled();
    }
    off.abort();
    assert.equal((await turn).stopReason, 'cancelled');
  });
  await check('a thousand updates, all before the answer, in order', async () => {
    seen = [];
    const end = await prompt('flood');
    while (seen.length < 1000) {
      await settled();
    }
    assert.equal(end.stopReason, 'max_tokens');
    assert.equal(text(), Array.from({ length: 1000 }, (_, i) => `${i} `).join(''));
  });
  await check('modes, options, load, resume, list, close, delete', async () => {
    await ctx.request(agent.session.setMode, { sessionId: session, modeId: 'code' });
    await assert.rejects(ctx.request(agent.session.setMode, { sessionId: session, modeId: 'fly' }), { code: -32602 });
    const { configOptions } = await ctx.request(agent.session.setConfigOption, { sessionId: session, configId: 'model', value: 'big' });
    assert.equal(configOptions[0].currentValue, 'big');
    seen = [];
    await ctx.request(agent.session.load, { sessionId: 'old', cwd: '/tour', mcpServers: [] });
    await settled();
    assert.deepEqual(seen.map((u) => u.content.text), ['before', 'as well']);
    await ctx.request(agent.session.resume, { sessionId: 'older', cwd: '/tour', mcpServers: [] });
    const { sessions } = await ctx.request(agent.session.list, { cwd: '/tour' });
    assert.deepEqual(sessions, [{ sessionId: 'old', cwd: '/tour', title: 'an old one' }]);
    await ctx.request(agent.session.close, { sessionId: 'older' });
    await ctx.request(agent.session.delete, { sessionId: 'old' });
    await assert.rejects(ctx.request(agent.session.prompt, { sessionId: 'old', prompt: [] }), { code: -32002 });
  });
  await check('extension methods, both ways', async () => {
    assert.deepEqual(await ctx.request('_tour/ask', { question: 'where?' }), { answer: { got: 'where?' } });
    await assert.rejects(ctx.request('_tour/other', {}), { code: -32601 });
  });
});
child.kill();
finish();
