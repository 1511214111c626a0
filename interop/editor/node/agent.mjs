// @agentclientprotocol/sdk as an agent on stdio: the tour, the wait, the question and the flood that tour/main.go does too.
import { Readable, Writable } from 'node:stream';
import * as acp from '@agentclientprotocol/sdk';

const turns = new Map();
let sessions = 0;

const { agent, client } = acp.methods;
const app = acp
  .agent({ name: 'tourist' })
  .onRequest(agent.initialize, () => ({
    protocolVersion: acp.PROTOCOL_VERSION,
    agentCapabilities: { loadSession: true, promptCapabilities: { image: true }, sessionCapabilities: { close: {}, list: {} } },
    agentInfo: { name: 'tourist', version: '2.4.0' },
    authMethods: [{ id: 'key', name: 'With a key' }],
  }))
  .onRequest(agent.authenticate, () => ({}))
  .onRequest(agent.session.new, async ({ params }) => ({
    sessionId: `js-${++sessions}`,
    modes: { currentModeId: 'ask', availableModes: [{ id: 'ask', name: 'Ask' }, { id: 'code', name: 'Code', description: params.cwd }] },
  }))
  .onRequest(agent.session.load, async ({ params, client: peer }) => {
    await peer.notify(client.session.update, { sessionId: params.sessionId, update: { sessionUpdate: 'user_message_chunk', content: { type: 'text', text: 'before' } } });
    await peer.notify(client.session.update, { sessionId: params.sessionId, update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'as well' } } });
    return {};
  })
  .onRequest(agent.session.list, ({ params }) => ({ sessions: [{ sessionId: 'js-0', cwd: params.cwd ?? '/', title: 'an old one' }] }))
  .onRequest(agent.session.close, () => ({}))
  .onRequest(agent.session.setMode, () => ({}))
  .onNotification(agent.session.cancel, ({ params }) => turns.get(params.sessionId)?.abort())
  .onRequest(agent.session.prompt, async ({ params, client: peer }) => {
    const turn = new AbortController();
    const id = params.sessionId;
    turns.set(id, turn);
    const update = (u) => peer.notify(client.session.update, { sessionId: id, update: u });
    const say = (text) => update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } });
    try {
      switch (params.prompt[0].text) {
        case 'wait':
          await say('waiting');
          await new Promise((resolve) => turn.signal.addEventListener('abort', resolve));
          return { stopReason: 'cancelled' };
        case 'question': {
          const { outcome } = await peer.request(client.session.requestPermission, {
            sessionId: id,
            toolCall: { toolCallId: 'q', title: 'May I?' },
            options: [{ optionId: 'y', name: 'Yes', kind: 'allow_once' }],
          });
          return { stopReason: outcome.outcome === 'cancelled' ? 'cancelled' : 'end_turn' };
        }
        case 'flood':
          for (let i = 0; i < 1000; i++) {
            await say(`${i} `);
          }
          return { stopReason: 'max_tokens' };
      }
      await update({ sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text: 'hm' } });
      await update({ sessionUpdate: 'plan', entries: [{ content: 'look around', priority: 'high', status: 'in_progress' }] });
      await update({ sessionUpdate: 'tool_call', toolCallId: 'edit', title: 'Edit the notes', kind: 'edit', status: 'pending', locations: [{ path: '/tour/notes.txt', line: 1 }] });
      const { content } = await peer.request(client.fs.readTextFile, { sessionId: id, path: '/tour/notes.txt', line: 1, limit: 1 });
      const { outcome } = await peer.request(client.session.requestPermission, {
        sessionId: id,
        toolCall: { toolCallId: 'edit', title: 'Edit the notes' },
        options: [
          { optionId: 'no', name: 'No', kind: 'reject_once' },
          { optionId: 'yes', name: 'Yes', kind: 'allow_once' },
        ],
      });
      if (outcome.outcome !== 'selected' || outcome.optionId !== 'yes') {
        return { stopReason: 'refusal' };
      }
      await peer.request(client.fs.writeTextFile, { sessionId: id, path: '/tour/notes.txt', content: `${content}!` });
      await update({
        sessionUpdate: 'tool_call_update',
        toolCallId: 'edit',
        status: 'completed',
        content: [{ type: 'diff', path: '/tour/notes.txt', oldText: content, newText: `${content}!` }],
      });
      const terminal = await peer.createTerminal({ sessionId: id, command: 'echo', args: ['hello'] });
      const exit = await terminal.waitForExit();
      const { output } = await terminal.currentOutput();
      await terminal.release();
      const form = await peer.request(client.elicitation.create, {
        mode: 'form',
        sessionId: id,
        message: 'Your name?',
        requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
      });
      await say(`${content} ${output} ${exit.exitCode} ${form.content.name}`);
      return { stopReason: 'end_turn', _meta: { miles: 12 } };
    } finally {
      turns.delete(id);
    }
  });
app.connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
