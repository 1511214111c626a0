// A coding agent by @agentclientprotocol/sdk, from the packages of interop/editor: it echoes, asks for a permission, and waits to be
// cancelled. What happens to it stands on stderr.
import { createRequire } from 'node:module';
import { Readable, Writable } from 'node:stream';
import { pathToFileURL } from 'node:url';

const resolve = createRequire(new URL('../editor/node/package.json', import.meta.url)).resolve;
const acp = await import(pathToFileURL(resolve('@agentclientprotocol/sdk')));

const turns = new Map();
let sessions = 0;

const { agent, client } = acp.methods;
const app = acp
  .agent({ name: 'echo' })
  .onRequest(agent.initialize, () => ({ protocolVersion: acp.PROTOCOL_VERSION, agentCapabilities: {}, agentInfo: { name: 'echo', version: '1.0.0' } }))
  .onRequest(agent.session.new, () => ({ sessionId: `js-${++sessions}` }))
  .onNotification(agent.session.cancel, ({ params }) => turns.get(params.sessionId)?.abort())
  .onRequest(agent.session.prompt, async ({ params, client: peer }) => {
    const sessionId = params.sessionId;
    const turn = new AbortController();
    turns.set(sessionId, turn);
    const say = (text) => peer.notify(client.session.update, { sessionId, update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } } });
    const { text } = params.prompt[0];
    try {
      if (text === 'wait') {
        process.stderr.write('waiting\n');
        await new Promise((resolve) => turn.signal.addEventListener('abort', resolve));
        process.stderr.write('cancelled\n');
        return { stopReason: 'cancelled' };
      }
      if (text === 'may I?') {
        const { outcome } = await peer.request(client.session.requestPermission, {
          sessionId,
          toolCall: { toolCallId: 'q', title: 'May I?' },
          options: [{ optionId: 'y', name: 'Yes', kind: 'allow_once' }, { optionId: 'n', name: 'No', kind: 'reject_once' }],
        });
        await say(outcome.optionId === 'y' ? 'I may' : 'I may not');
        return { stopReason: 'end_turn' };
      }
      await say(text);
      return { stopReason: 'end_turn' };
    } finally {
      turns.delete(sessionId);
    }
  });

app.connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
