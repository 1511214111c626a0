// What every Node client asserts about a server of the demo methods. A client brings an adapter: call(method, params)
// that resolves to the result or rejects with {code, message, data}, and notify(method, params).
//
// One line per check goes to stdout, "ok NAME" or "FAIL NAME" with the reason behind it, and the Go test reads them.
import assert from 'node:assert/strict';

let passed = 0;
let failed = 0;

// check runs f, for at most ten seconds.
export async function check(name, f) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('no answer within 10 s')), 10_000);
  });
  try {
    await Promise.race([f(), late]);
    passed++;
    console.log(`ok ${name}`);
  } catch (err) {
    failed++;
    const reason = err?.stack ?? JSON.stringify(err);
    console.log(`FAIL ${name}\n${String(reason).replace(/^/gm, '\t')}`);
  } finally {
    clearTimeout(timer);
  }
}

// finish prints the count that the Go test waits for, and ends the process.
export function finish() {
  console.log(`done ${passed} passed ${failed} failed`);
  process.exit(failed > 0 ? 1 : 0);
}

// refusal is the error of a call that must fail, cut down to what JSON-RPC says of it.
export async function refusal(promise) {
  let result;
  try {
    result = await promise;
  } catch (err) {
    const out = { code: err.code, message: err.message };
    if (err.data !== undefined) {
      out.data = err.data;
    }
    return out;
  }
  throw new Error(`answered ${JSON.stringify(result)}, want an error`);
}

export const unicode = ['Grüße', '世界 🌍🏽', '\u0000\u001f"\\/', '\u2028\u2029', 'e\u0301 \u202e', ''];

// big is 64 KiB in UTF-8, with a character of four bytes across every power of two.
export const big = '🌍'.repeat(16 * 1024 - 1) + 'abc';

// calls are the checks that need nothing but question and answer. Without named (JSON-RPC 1.0) params are always arrays.
export async function calls(label, peer, { named = true } = {}) {
  const on = (name) => `${label}: ${name}`;
  await check(on('positional params'), async () => {
    assert.equal(await peer.call('subtract', [42, 23]), 19);
    assert.equal(await peer.call('subtract', [23, 42]), -19);
    assert.equal(await peer.call('sum', [1, 2, 3, 4]), 10);
  });
  if (named) {
    await check(on('named params'), async () => {
      assert.equal(await peer.call('subtract', { subtrahend: 23, minuend: 42 }), 19);
      assert.equal(await peer.call('add', { a: 5, b: 3 }), 8);
    });
  }
  await check(on('no params'), async () => {
    assert.deepEqual(await peer.call('get_data', named ? undefined : []), ['hello', 5]);
  });
  await check(on('unicode comes back as it went'), async () => {
    assert.deepEqual(await peer.call('echo', unicode), unicode);
  });
  await check(on('64 KiB come back as they went'), async () => {
    const [back] = await peer.call('echo', [big]);
    assert.equal(back.length, big.length);
    assert.ok(back === big);
  });
  await check(on('values come back as they went'), async () => {
    const values = [0, -1, 1.5, 1e21, 5e-324, Number.MAX_SAFE_INTEGER, true, false, null, [], {}, [[{ a: [null] }]]];
    assert.deepEqual(await peer.call('echo', values), values);
  });
  await check(on('an error with data'), async () => {
    const want = { code: 1234, message: 'as asked 🌍', data: { why: [1, null, 'x'] } };
    assert.deepEqual(await refusal(peer.call('fail', [want.code, want.message, want.data])), want);
  });
  await check(on('an error without data'), async () => {
    const want = { code: -7, message: 'no more' };
    assert.deepEqual(await refusal(peer.call('fail', [want.code, want.message])), want);
  });
  await check(on('an unknown method'), async () => {
    assert.equal((await refusal(peer.call('no_such_method', [1]))).code, -32601);
  });
  await check(on('a notification, then a call that sees it'), async () => {
    const mark = `seen by ${label} at ${process.hrtime.bigint()}`;
    await peer.notify('log_event', [mark]);
    // On a carrier of one connection the order is kept; others may take a moment.
    for (;;) {
      const log = await peer.call('get_log', []);
      if (log.some((entry) => JSON.stringify(entry.event) === JSON.stringify([mark]))) {
        return;
      }
      assert.ok(peer.unordered, `not in the log: ${mark}`);
    }
  });
  await check(on('20 calls at once, answered out of order'), async () => {
    const order = [];
    const answers = await Promise.all(
      Array.from({ length: 20 }, async (_, i) => {
        const ms = (20 - i) * 15;
        const answer = await peer.call('sleep', [ms]);
        order.push(ms);
        return [ms, answer];
      }),
    );
    for (const [asked, answered] of answers) {
      assert.equal(answered, asked);
    }
    assert.notDeepEqual(order, order.toSorted((a, b) => b - a), 'answers came in the order of the calls');
  });
}

// checksParams is one more, for servers that check their parameters.
export async function checksParams(label, peer) {
  await check(`${label}: wrong params`, async () => {
    assert.equal((await refusal(peer.call('subtract', ['x', 1]))).code, -32602);
    assert.equal((await refusal(peer.call('subtract', [1]))).code, -32602);
  });
}

// batches takes raw messages and gives raw responses: send(messages) resolves to an array, or to undefined for no answer.
export async function batches(label, send) {
  await check(`${label}: a batch is answered in order, without its notifications`, async () => {
    const answers = await send([
      { jsonrpc: '2.0', id: 'a', method: 'sleep', params: [50] },
      { jsonrpc: '2.0', method: 'update', params: [1] },
      { jsonrpc: '2.0', id: 2, method: 'subtract', params: [42, 23] },
      { jsonrpc: '2.0', id: 'c', method: 'fail', params: [7, 'seven'] },
      { jsonrpc: '2.0', id: 4.5, method: 'no_such_method' },
      { jsonrpc: '2.0', id: 'ä🌍', method: 'get_data' },
    ]);
    assert.deepEqual(
      answers.map((answer) => answer.error?.code ?? answer.result),
      [50, 19, 7, -32601, ['hello', 5]],
    );
    assert.deepEqual(
      answers.map((answer) => answer.id),
      ['a', 2, 'c', 4.5, 'ä🌍'],
    );
  });
  await check(`${label}: invalid members of a batch are answered one by one`, async () => {
    const answers = await send([1, { foo: 'boo' }, { jsonrpc: '2.0', id: 9, method: 'get_data' }, []]);
    assert.deepEqual(
      answers.map((answer) => [answer.id, answer.error?.code ?? answer.result]),
      [
        [null, -32600],
        [null, -32600],
        [9, ['hello', 5]],
        [null, -32600],
      ],
    );
  });
}

// silentBatch is for carriers on which a client can hear that there is no answer.
export async function silentBatch(label, send) {
  await check(`${label}: a batch of notifications is not answered`, async () => {
    assert.equal(
      await send([
        { jsonrpc: '2.0', method: 'notify_sum', params: [1, 2, 4] },
        { jsonrpc: '2.0', method: 'notify_hello', params: [7] },
      ]),
      undefined,
    );
  });
}

// bothWays are the checks of a duplex connection. A peer of it has answering: a Map of methods that the server may call.
export async function bothWays(label, peer) {
  const on = (name) => `${label}: ${name}`;
  await check(on('the server asks back, 50 at once'), async () => {
    peer.answering.set('answer', async ({ question }) => {
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 20));
      return { heard: question, unicode };
    });
    const questions = Array.from({ length: 50 }, (_, i) => `question ${i} 🌍`);
    const answers = await Promise.all(questions.map((question) => peer.call('ask', { question })));
    assert.deepEqual(answers, questions.map((heard) => ({ heard, unicode })));
  });
  await check(on('what is asked back may fail'), async () => {
    peer.answering.set('answer', () => Promise.reject(Object.assign(new Error('no comment'), { code: 77 })));
    const error = await refusal(peer.call('ask', { question: 'why?' }));
    assert.equal(error.code, 1001);
    assert.deepEqual(error.data, { code: 77, message: 'no comment' });
  });
  await check(on('notifications come in order, all before the result'), async () => {
    const ticks = [];
    peer.answering.set('countdown/tick', ({ left }) => void ticks.push(left));
    assert.equal(await peer.call('countdown', { from: 20, interval_ms: 1 }), 'liftoff');
    assert.deepEqual(ticks, Array.from({ length: 20 }, (_, i) => 20 - i));
  });
}

// target splits an address of parley into what Node wants to know.
export function target(text) {
  const unix = /^unix:([^?]*)/.exec(text);
  if (unix) {
    return { path: unix[1] };
  }
  const url = new URL(text);
  return { host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port) };
}
