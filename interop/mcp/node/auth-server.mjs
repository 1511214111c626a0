// A guarded service on @modelcontextprotocol/sdk 1.x, which is its own authorization server: node auth-server.mjs. It prints where it listens.
import http from 'node:http';
import express from 'express';
import { DemoInMemoryAuthProvider } from '@modelcontextprotocol/sdk/examples/server/demoInMemoryOAuthProvider.js';
import { requireBearerAuth } from '@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js';
import { getOAuthProtectedResourceMetadataUrl, mcpAuthRouter } from '@modelcontextprotocol/sdk/server/auth/router.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';

const server = http.createServer();
server.listen(0, '127.0.0.1', () => {
  const origin = new URL(`http://127.0.0.1:${server.address().port}`);
  const resource = new URL('/mcp', origin);
  const provider = new DemoInMemoryAuthProvider((asked) => asked?.href === resource.href);
  const app = express();
  app.use(express.json());
  app.use(mcpAuthRouter({ provider, issuerUrl: origin, resourceServerUrl: resource, scopesSupported: ['mcp:tools'] }));
  const guard = requireBearerAuth({ verifier: provider, requiredScopes: ['mcp:tools'], resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(resource) });
  app.all('/mcp', guard, async (req, res) => {
    const service = new McpServer({ name: 'guarded', version: '1.0.0' });
    service.registerTool('whoami', { description: 'Who asks?' }, async (extra) => ({
      content: [{ type: 'text', text: `${extra.authInfo.scopes.join(' ')} for ${extra.authInfo.resource.href}` }],
    }));
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    res.on('close', () => { transport.close(); service.close(); });
    await service.connect(transport);
    await transport.handleRequest(req, res, req.body);
  });
  server.on('request', app);
  console.log(JSON.stringify({ http: resource.href }));
});
