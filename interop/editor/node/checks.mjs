// check runs f, for at most ten seconds, and prints the line that the Go test reads; finish prints the count.
let passed = 0;
let failed = 0;

export async function check(name, f) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('nothing within 10 s')), 10_000);
  });
  try {
    await Promise.race([f(), late]);
    passed++;
    console.log(`ok ${name}`);
  } catch (err) {
    failed++;
    console.log(`FAIL ${name}\n${String(err?.stack ?? JSON.stringify(err)).replace(/^/gm, '\t')}`);
  } finally {
    clearTimeout(timer);
  }
}

export function finish() {
  console.log(`done ${passed} passed ${failed} failed`);
  process.exit(failed > 0 ? 1 : 0);
}
