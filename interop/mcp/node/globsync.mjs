// The conformance suite imports globSync from node:fs, which Node has from 22 on, and uses it only to find files that we do not
// give it. With this loaded first (node --import ./globsync.mjs …) it runs on Node 20 too.
import { register } from 'node:module';

const hooks = `
const shim = 'parley:fs';
export async function resolve(name, context, next) {
  const suite = context.parentURL?.includes('/conformance/dist/');
  return suite && (name === 'fs' || name === 'node:fs') ? { url: shim, shortCircuit: true } : next(name, context);
}
export async function load(url, context, next) {
  if (url !== shim) return next(url, context);
  const source = "export * from 'node:fs'; export { default } from 'node:fs'; export const globSync = () => [];";
  return { format: 'module', shortCircuit: true, source };
}`;

register('data:text/javascript,' + encodeURIComponent(hooks));
