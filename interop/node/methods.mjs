// The demo methods, for servers made of other people's libraries. Each takes params as they came.
import { setTimeout as sleep } from 'node:timers/promises';

export class Refusal extends Error {
  constructor(code, message, data) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

const log = [];
const pick = (params, ...names) => (Array.isArray(params) ? params : names.map((name) => params?.[name]));

function numbers(values, count) {
  if (values.some((value) => typeof value !== 'number') || (count && values.length !== count)) {
    throw new Refusal(-32602, 'Invalid params');
  }
  return values;
}

export const methods = {
  subtract(params) {
    const [minuend, subtrahend] = numbers(pick(params, 'minuend', 'subtrahend'), 2);
    return minuend - subtrahend;
  },
  add(params) {
    const [a, b] = numbers(pick(params, 'a', 'b'), 2);
    return a + b;
  },
  sum: (params) => numbers(params).reduce((a, b) => a + b, 0),
  get_data: () => ['hello', 5],
  echo: (params) => params ?? null,
  update: () => null,
  notify_hello: () => null,
  notify_sum: () => null,
  fail(params) {
    const [code, message, data] = pick(params, 'code', 'message', 'data');
    throw new Refusal(code, message, data);
  },
  async sleep(params) {
    const [ms] = numbers(pick(params, 'ms'), 1);
    await sleep(ms);
    return ms;
  },
  log_event(params) {
    return log.push({ seq: log.length + 1, event: params ?? null });
  },
  get_log: () => log,
};

// ready tells the Go test where the servers are.
export function ready(addresses) {
  console.log(JSON.stringify(addresses));
}
