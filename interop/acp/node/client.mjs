// The client of acp-sdk against our REST binding: node client.mjs BASE
// Its ESM entry does not load on Node 20 (acp-sdk 1.0.3), so it is required.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { check, finish } from '../../node/checks.mjs';

const { Client, ACPError, HTTPError } = createRequire(import.meta.url)('acp-sdk');

const base = process.argv[2];
const client = new Client({ baseUrl: base });

const message = (content) => ({ role: 'user', parts: [{ content_type: 'text/plain', content }] });
const answer = (content) => ({ type: 'message', message: { ...message(content), created_at: null, completed_at: null } });
const text = (run) => run.output.flatMap((m) => m.parts.map((p) => p.content)).join('');

async function all(events) {
  const out = [];
  for await (const event of events) {
    out.push(event);
  }
  return out;
}

const types = (events) => events.map((event) => event.type);

async function until(runId, wanted) {
  for (;;) {
    const run = await client.runStatus(runId);
    if (wanted.includes(run.status)) {
      return run;
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

async function refusal(promise) {
  try {
    return assert.fail(`answered ${JSON.stringify(await promise)}, want an error`);
  } catch (err) {
    return err;
  }
}

await check('ping', () => client.ping());

await check('agents', async () => {
  const agents = await client.agents();
  assert.deepEqual(
    agents.map((a) => a.name),
    ['echo', 'words', 'ask', 'slow', 'broken', 'artifact', 'memory'],
  );
});

await check('agent, with all its metadata', async () => {
  const agent = await client.agent('echo');
  assert.equal(agent.description, 'Repeats your message.');
  assert.deepEqual(agent.input_content_types, ['text/plain']);
  assert.equal(agent.metadata.author.name, 'Ada');
  assert.equal(agent.metadata.annotations.beeai_ui.ui_type, 'chat');
  assert.equal(agent.metadata.links[0].type, 'homepage');
});

await check('runSync', async () => {
  const run = await client.runSync('echo', 'Howdy!');
  assert.equal(run.status, 'completed');
  assert.equal(run.output.length, 1);
  assert.equal(run.output[0].role, 'agent/echo');
  assert.equal(text(run), 'Howdy!');
});

await check('runSync with messages, and with unicode', async () => {
  assert.equal(text(await client.runSync('echo', [message('a'), message('b')])), 'ab');
  assert.equal(text(await client.runSync('echo', 'Grüße 世界 🌍🏽 \u2028 "\\')), 'Grüße 世界 🌍🏽 \u2028 "\\');
});

await check('runAsync, then poll', async () => {
  const run = await client.runAsync('echo', 'Later');
  assert.equal(run.status, 'created');
  assert.equal(text(await until(run.run_id, ['completed', 'failed', 'cancelled'])), 'Later');
});

await check('runStream: the order of events', async () => {
  const events = await all(client.runStream('words', [message('one two three')]));
  assert.deepEqual(types(events), [
    'run.created',
    'run.in-progress',
    'generic',
    'message.created',
    'message.part',
    'message.part',
    'message.part',
    'message.completed',
    'run.completed',
  ]);
  assert.deepEqual(events[2].generic, { words: 3 });
  assert.equal(events[3].message.completed_at, null);
  assert.deepEqual(events[3].message.parts, []);
  assert.equal(text(events.at(-1).run), 'one two three');
});

await check('runEvents', async () => {
  const run = await client.runSync('words', 'one two');
  assert.deepEqual(types(await client.runEvents(run.run_id)), [
    'run.created',
    'run.in-progress',
    'generic',
    'message.created',
    'message.part',
    'message.part',
    'message.completed',
    'run.completed',
  ]);
});

await check('await, then resume as a stream', async () => {
  const run = await client.runSync('ask', 'hello');
  assert.equal(run.status, 'awaiting');
  assert.equal(run.await_request.type, 'message');
  assert.equal(run.await_request.message.parts[0].content, 'Your name?');
  const events = await all(client.runResumeStream(run.run_id, answer('Ada')));
  assert.deepEqual(types(events), ['run.in-progress', 'message.created', 'message.part', 'message.completed', 'run.completed']);
  assert.equal(text(events.at(-1).run), 'Hello Ada');
  assert.equal(events.at(-1).run.await_request ?? null, null);
});

await check('await in a stream, then resume at once and later', async () => {
  const events = await all(client.runStream('ask', 'hello'));
  assert.deepEqual(types(events), ['run.created', 'run.in-progress', 'run.awaiting']);
  assert.equal(text(await client.runResumeSync(events.at(-1).run.run_id, answer('Bob'))), 'Hello Bob');

  const waiting = await client.runSync('ask', 'hello');
  const resumed = await client.runResumeAsync(waiting.run_id, answer('Eve'));
  assert.equal(resumed.run_id, waiting.run_id);
  assert.equal(text(await until(waiting.run_id, ['completed', 'failed'])), 'Hello Eve');
});

await check('resume of a run that does not wait', async () => {
  const run = await client.runSync('echo', 'x');
  const err = await refusal(client.runResumeSync(run.run_id, answer('y')));
  assert.ok(err instanceof ACPError, err);
  assert.equal(err.code, 'server_error');
});

await check('cancel', async () => {
  const run = await client.runAsync('slow', 'x');
  await until(run.run_id, ['in-progress']);
  assert.equal((await client.runCancel(run.run_id)).status, 'cancelling');
  assert.equal((await until(run.run_id, ['cancelled', 'completed', 'failed'])).status, 'cancelled');
  assert.equal(types(await client.runEvents(run.run_id)).at(-1), 'run.cancelled');
  const err = await refusal(client.runCancel(run.run_id));
  assert.ok(err instanceof ACPError, err);
  assert.equal(err.code, 'server_error');
});

await check('cancel of a run that waits', async () => {
  const run = await client.runSync('ask', 'hello');
  await client.runCancel(run.run_id);
  assert.equal((await until(run.run_id, ['cancelled', 'failed'])).status, 'cancelled');
});

await check('a session with history', async () => {
  await client.withSession(async (session) => {
    const first = await session.runSync('echo', 'first');
    assert.equal(first.session_id, session.sessionId);
    const second = await session.runSync('memory', 'second');
    assert.equal(second.session_id, session.sessionId);
    assert.equal(text(second), 'user: first, agent/echo: first');

    const shown = await (await fetch(`${base}/sessions/${session.sessionId}`)).json();
    assert.equal(shown.id, session.sessionId);
    assert.equal(shown.history.length, 4);
    const messages = await Promise.all(shown.history.map(async (url) => (await fetch(url)).json()));
    assert.deepEqual(
      messages.map((m) => `${m.role}: ${m.parts[0].content}`),
      ['user: first', 'agent/echo: first', 'user: second', 'agent/memory: user: first, agent/echo: first'],
    );
    assert.equal((await fetch(`${base}/session/${session.sessionId}`)).status, 200);
  });
});

await check('not_found', async () => {
  const nobody = '5f1ffb71-29a6-4b8c-8ae1-2d2a37a35f20';
  for (const ask of [
    () => client.agent('nope'),
    () => client.runSync('nope', 'x'),
    () => client.runStatus(nobody),
    () => client.runEvents(nobody),
    () => client.runCancel(nobody),
    () => client.runResumeSync(nobody, answer('x')),
    () => all(client.runStream('nope', 'x')),
  ]) {
    const err = await refusal(ask());
    assert.ok(err instanceof ACPError, err);
    assert.equal(err.code, 'not_found');
  }
});

await check('invalid_input', async () => {
  const err = await refusal(client.runSync('echo', []));
  assert.ok(err instanceof ACPError, err);
  assert.equal(err.code, 'invalid_input');
});

await check('a path that is none', async () => {
  const err = await refusal(new Client({ baseUrl: `${base}/nowhere` }).ping());
  assert.ok(err instanceof ACPError || err instanceof HTTPError, err);
  assert.equal(err.code, 'not_found');
});

await check('a failed run is no error', async () => {
  const run = await client.runSync('broken', 'x');
  assert.equal(run.status, 'failed');
  assert.deepEqual({ ...run.error, data: undefined }, { code: 'server_error', message: 'Out of order.', data: undefined });
  assert.equal(types(await all(client.runStream('broken', 'x'))).at(-1), 'run.failed');
});

await check('artifacts, bytes and metadata', async () => {
  const run = await client.runSync('artifact', 'x');
  const [file, cited, step] = run.output[0].parts;
  assert.equal(file.name, 'dot.png');
  assert.equal(file.content_encoding, 'base64');
  assert.deepEqual([...Buffer.from(file.content, 'base64')], [137, 80, 78, 71]);
  assert.deepEqual([cited.metadata.kind, cited.metadata.start_index, cited.metadata.end_index], ['citation', 0, 4]);
  assert.deepEqual([step.metadata.kind, step.metadata.tool_input], ['trajectory', { q: 'x' }]);
});

await check('abort of a stream; the run goes on', async () => {
  const abort = new AbortController();
  let id;
  const err = await refusal(
    (async () => {
      for await (const event of client.runStream('slow', [message('x')], abort.signal)) {
        id ??= event.run?.run_id;
        if (event.type === 'run.in-progress') {
          abort.abort();
        }
      }
    })(),
  );
  assert.equal(err.name, 'AbortError');
  assert.equal((await client.runStatus(id)).status, 'in-progress');
  await client.runCancel(id);
});

await check('20 streams at once', async () => {
  const runs = await Promise.all(
    Array.from({ length: 20 }, async (_, i) => all(client.runStream('words', [message(`run ${i} a b c`)]))),
  );
  for (const [i, events] of runs.entries()) {
    assert.equal(text(events.at(-1).run), `run ${i} a b c`);
    assert.equal(new Set(events.filter((e) => e.run).map((e) => e.run.run_id)).size, 1);
  }
});

finish();
