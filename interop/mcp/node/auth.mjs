// The npm clients with authorization: node auth.mjs v1|v2|v2-dpop URL. They begin without a token, go where they are sent, and come back with a code.
import assert from 'node:assert/strict';
import * as v1 from '@modelcontextprotocol/sdk/client/index.js';
import * as v1http from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import * as v2 from '@modelcontextprotocol/client';
import { check, finish } from '../../node/checks.mjs';

const [kind, target] = process.argv.slice(2);
const redirect = 'http://127.0.0.1:1/callback';

// A user who says yes at once, and a memory that ends with the program.
class Provider {
  visits = [];
  get redirectUrl() { return redirect; }
  get clientMetadata() {
    // With a refresh token, version 1.32 trades that for more scopes, which are not to be had so (RFC 6749, section 6), and gives up.
    const grants = kind === 'v1' ? ['authorization_code'] : ['authorization_code', 'refresh_token'];
    return { client_name: kind, redirect_uris: [redirect], grant_types: grants, response_types: ['code'], token_endpoint_auth_method: 'none' };
  }
  clientInformation() { return this.information; }
  saveClientInformation(information) { this.information = information; }
  tokens() { return this.kept; }
  saveTokens(tokens) { this.kept = tokens; }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  codeVerifier() { return this.verifier; }
  async redirectToAuthorization(url) {
    this.visits.push(url.searchParams.get('scope'));
    const answer = await fetch(url, { redirect: 'manual' });
    this.back = new URL(answer.headers.get('location')).searchParams;
  }
}

const provider = new Provider();
if (kind === 'v2-dpop') {
  const session = v2.DpopSession.create();
  provider.dpop = () => session;
}
const { Client } = kind === 'v1' ? v1 : v2;
const { StreamableHTTPClientTransport } = kind === 'v1' ? v1http : v2;

// Each attempt has a transport of its own, as these packages want it.
async function connected(f) {
  for (let attempt = 0; ; attempt++) {
    const transport = new StreamableHTTPClientTransport(new URL(target), { authProvider: provider });
    const client = new Client({ name: kind, version: '1.0.0' });
    try {
      await client.connect(transport);
      return await f(client);
    } catch (err) {
      if (attempt > 2 || err.constructor.name !== 'UnauthorizedError') throw err;
      await transport.finishAuth(kind === 'v1' ? provider.back.get('code') : provider.back);
    } finally {
      await client.close();
    }
  }
}

const text = (result) => result.content[0].text;
await check(`${kind} gets in`, async () => {
  assert.match(await connected(async (client) => text(await client.callTool({ name: 'whoami', arguments: {} }))), /^alice at /);
});
await check(`${kind} goes back for more`, async () => {
  const scopes = await connected(async (client) => text(await client.callTool({ name: 'admin/reset', arguments: {} })));
  assert.ok(scopes.split(' ').includes('mcp:admin'), scopes);
  assert.equal(provider.visits[0], 'mcp:use');
  assert.ok(provider.visits[1].includes('mcp:admin'), provider.visits[1]);
});
if (kind === 'v2-dpop') {
  await check('the token is bound', async () => assert.equal(provider.kept.token_type.toLowerCase(), 'dpop'));
}
finish();
