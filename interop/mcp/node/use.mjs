// What every Node client asserts about our service. A client brings an adapter over its SDK's client object.
import assert from 'node:assert/strict';
import { check } from '../../node/checks.mjs';

// handlers are what a client of the tests answers when it is asked.
export const handlers = {
  roots: async () => ({ roots: [{ uri: 'file:///work', name: 'work' }] }),
  sample: async (request) => {
    const content = request.params.messages[0].content;
    const said = Array.isArray(content) ? content[0].text : content.text;
    return { role: 'assistant', model: 'parrot', content: { type: 'text', text: `You said: ${said}` } };
  },
  elicit: async () => ({ action: 'accept', content: { name: 'Ada' } }),
};

export const capabilities = { roots: { listChanged: true }, sampling: {}, elicitation: { form: {} } };

const text = (result) => result.content.filter((c) => c.type === 'text').map((c) => c.text).join('');

// ourProgram starts the Go test binary as the server on stdio, or, with arguments, parley bridge.
export const ourProgram = (command, args) => ({ command, args, env: { ...process.env, ...(args.length ? {} : { PARLEY_INTEROP_MCP_STDIO: '1' }) } });

// use runs the checks. changed is a promise-maker: it resolves at the next word that the tools have changed.
export async function use(label, client, { version, modern, changed, noResource, losesProgress }) {
  const on = (name) => `${label}: ${name}`;
  const call = (name, args = {}, options) => client.callTool({ name, arguments: args }, options);
  await check(on('opening'), async () => {
    assert.equal(client.version(), version);
    assert.equal(client.getServerVersion().name, 'parley');
    assert.equal(client.getInstructions(), 'Add.');
  });
  await check(on('tools'), async () => {
    const { tools } = await client.listTools();
    assert.ok(tools.some((t) => t.name === 'add' && t.outputSchema), JSON.stringify(tools));
  });
  await check(on('add'), async () => {
    assert.deepEqual((await call('add', { a: 2, b: 3.5 })).structuredContent, { sum: 5.5 });
  });
  await check(on('many at once'), async () => {
    const all = await Promise.all(Array.from({ length: 30 }, (_, i) => call('add', { a: i, b: 1 })));
    all.forEach((r, i) => assert.equal(r.structuredContent.sum, i + 1));
  });
  await check(on('fail'), async () => {
    const r = await call('fail');
    assert.equal(r.isError, true);
    assert.equal(text(r), 'it failed');
  });
  await check(on('wrong arguments'), async () => {
    assert.equal((await call('add', { a: 'x' })).isError, true);
  });
  await check(on('unknown tool'), async () => {
    await assert.rejects(call('nonsense'), (err) => err.code === -32602);
  });
  for (const [name, answer] of Object.entries({
    ask: 'Hello, Ada!', think: 'You said: ping', where: 'file:///work', reconnect: 'answered on another stream',
  })) {
    await check(on(name), async () => assert.equal(text(await call(name)), answer));
  }
  await check(on('region'), async () => assert.equal(text(await call('region', { region: 'Süd' })), 'Süd'));
  await check(on('progress'), async () => {
    const steps = [];
    assert.equal(text(await call('count', { to: 20 }, { onprogress: (p) => steps.push(p.message) })), 'counted to 20');
    // Both SDKs (1.32, 2.4) forget a call's progress handler at its answer, before they have run it for what came just before.
    if (!losesProgress) assert.deepEqual(steps, Array.from({ length: 20 }, (_, i) => `at ${i + 1}`));
  });
  await check(on('resources'), async () => {
    assert.equal((await client.listResources()).resources[0].uri, 'test://static');
    assert.equal((await client.listResourceTemplates()).resourceTemplates[0].uriTemplate, 'test://item/{id}');
    assert.equal((await client.readResource({ uri: 'test://static' })).contents[0].text, 'static text');
    assert.equal(atob((await client.readResource({ uri: 'test://item/7' })).contents[0].blob), 'item 7');
    await assert.rejects(client.readResource({ uri: 'test://nowhere' }), (err) => { assert.equal(err.code, noResource, err.stack); return true; });
  });
  await check(on('prompts'), async () => {
    assert.equal((await client.listPrompts()).prompts[0].name, 'greet');
    const { messages } = await client.getPrompt({ name: 'greet', arguments: { name: 'Ada' } });
    assert.equal(messages[0].content.text, 'Say hello to Ada.');
    await assert.rejects(client.getPrompt({ name: 'greet' }), (err) => err.code === -32602);
  });
  await check(on('completion'), async () => {
    const r = await client.complete({ ref: { type: 'ref/prompt', name: 'greet' }, argument: { name: 'name', value: 'A' } });
    assert.deepEqual(r.completion.values, ['Ada', 'Alan']);
  });
  if (!modern) await check(on('ping'), async () => client.ping());
  await check(on('tools change'), async () => {
    const heard = changed();
    await call('grow');
    await heard;
    assert.ok((await client.listTools()).tools.some((t) => t.name === 'grown'));
  });
  await check(on('cancel'), async () => {
    const before = text(await call('cancelled'));
    const stop = new AbortController();
    await assert.rejects(call('wait', {}, { signal: stop.signal, onprogress: () => stop.abort() }));
    while (text(await call('cancelled')) === before);
  });
  await check(on('close'), async () => client.close());
}
