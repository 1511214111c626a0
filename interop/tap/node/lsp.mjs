// vscode-jsonrpc as an editor of a language server: node lsp.mjs FOLDER CMD ARG…
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(new URL('../../node/package.json', import.meta.url));
const rpc = require('vscode-jsonrpc/node');
const { check, finish } = await import(new URL('../../node/checks.mjs', import.meta.url));

const [folder, ...argv] = process.argv.slice(2);
const child = spawn(argv[0], argv.slice(1), { stdio: ['pipe', 'pipe', 'inherit'] });
const connection = rpc.createMessageConnection(new rpc.StreamMessageReader(child.stdout), new rpc.StreamMessageWriter(child.stdin));
let configured = 0;
connection.onRequest('workspace/configuration', ({ items }) => (configured++, items.map(() => null)));
connection.onRequest('client/registerCapability', () => null);
connection.onRequest('window/workDoneProgress/create', () => null);
connection.onNotification(() => {});
connection.listen();

const root = pathToFileURL(folder).href;
const uri = `${root}/main.go`;
const { readFileSync } = await import('node:fs');
await check('initialize', async () => {
  const { serverInfo } = await connection.sendRequest('initialize', {
    processId: process.pid, rootUri: root, workspaceFolders: [{ uri: root, name: 'hello' }],
    capabilities: { workspace: { configuration: true, workspaceFolders: true }, window: { workDoneProgress: true } },
  });
  assert.equal(serverInfo.name, 'gopls');
});
await connection.sendNotification('initialized', {});
await check('hover and definition', async () => {
  await connection.sendNotification('textDocument/didOpen', { textDocument: { uri, languageId: 'go', version: 1, text: readFileSync(`${folder}/main.go`, 'utf8') } });
  const at = { textDocument: { uri }, position: { line: 5, character: 13 } };
  const hover = await connection.sendRequest('textDocument/hover', at);
  assert.match(JSON.stringify(hover), /greet/);
  const [definition] = await connection.sendRequest('textDocument/definition', at);
  assert.equal(definition.range.start.line, 2);
  assert.ok(configured > 0);
});
await check('shutdown', async () => {
  assert.equal(await connection.sendRequest('shutdown'), null);
});
await connection.sendNotification('exit');
const [code] = child.exitCode === null ? await once(child, 'exit') : [child.exitCode];
await check('the exit code passes', async () => assert.equal(code, 0));
finish();
