// @agentclientprotocol/sdk calls the packer. It is run with the folder of its own suite as its place, whose packages it finds.
import { spawn } from 'node:child_process';
import { Readable, Writable } from 'node:stream';
import * as acp from '@agentclientprotocol/sdk';

const [program, forms] = process.argv.slice(1);
const child = spawn(program, { stdio: ['pipe', 'pipe', 'inherit'] });
const { agent, client } = acp.methods;
const seen = [];
let question;
const app = acp
  .client({ name: 'traveller' })
  .onNotification(client.session.update, ({ params }) => void seen.push(params.update))
  .onRequest(client.elicitation.create, ({ params }) => {
    question = params.message;
    return { action: 'accept', content: { [Object.keys(params.requestedSchema.properties)[0]]: '3' } };
  });
await app.connectWith(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)), async (ctx) => {
  const info = await ctx.request(agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: forms === 'forms' ? { elicitation: { form: {} } } : {},
  });
  const { sessionId } = await ctx.request(agent.session.new, { cwd: '/', mcpServers: [] });
  const prompt = (text) => ctx.request(agent.session.prompt, { sessionId, prompt: [{ type: 'text', text }] });
  let end = await prompt('socks, shirt');
  if (forms !== 'forms') { // the question ended the turn, and the next prompt is the answer
    await new Promise((resolve) => setImmediate(resolve));
    question = seen.splice(0).map((u) => u.content.text).join('');
    end = await prompt('3');
  }
  await new Promise((resolve) => setImmediate(resolve));
  const chunks = seen.filter((u) => u.sessionUpdate === 'agent_message_chunk').map((u) => u.content);
  console.log(JSON.stringify({
    agent: info.agentInfo.name,
    skill: info._meta['parley/card'].skills[0].name,
    question,
    progress: seen.filter((u) => u.toolCallId && u.status === 'in_progress').map((u) => u.title),
    text: chunks.filter((c) => c.type === 'text').map((c) => c.text).join(''),
    summary: JSON.parse(chunks.find((c) => c.type === 'resource').resource.text),
    end: end.stopReason === 'end_turn' ? 'completed' : end.stopReason,
  }));
});
child.kill();
