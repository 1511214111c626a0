// The official SDK for A2A 1.0 as a server, with v0.3 beside it when asked: server.mjs [legacy]. It prints {"url"} when it listens.
import express from 'express';
import { DefaultRequestHandler, InMemoryTaskStore, InMemoryPushNotificationStore, DefaultPushNotificationSender, AgentEvent } from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import { duplicateInterfacesForLegacy } from '@a2a-js/sdk/compat/v0_3';
import { createLegacyAwarePushNotificationSender } from '@a2a-js/sdk/compat/v0_3/server';
import { TaskState, Role } from '@a2a-js/sdk';

const legacy = process.argv[2] === 'legacy';
const part = (value) => ({ content: { $case: 'text', value }, filename: '', mediaType: 'text/plain', metadata: undefined });
const say = (ctx, text) => ({ messageId: crypto.randomUUID(), role: Role.ROLE_AGENT, contextId: ctx.contextId, taskId: ctx.taskId, parts: [part(text)], extensions: [], referenceTaskIds: [], metadata: undefined });

class Executor {
  waiting = new Map();
  status(bus, ctx, state, text) {
    bus.publish(AgentEvent.statusUpdate({ taskId: ctx.taskId, contextId: ctx.contextId, metadata: undefined,
      status: { state, message: text ? say(ctx, text) : undefined, timestamp: new Date().toISOString() } }));
  }
  async execute(ctx, bus) {
    const text = ctx.userMessage.parts.map((p) => p.content.value).join('');
    if (text === 'say') {
      bus.publish(AgentEvent.message(say({ contextId: ctx.contextId, taskId: '' }, 'Hi!')));
      bus.finished();
      return;
    }
    if (!ctx.task) {
      bus.publish(AgentEvent.task({ id: ctx.taskId, contextId: ctx.contextId, artifacts: [], metadata: undefined, history: [ctx.userMessage],
        status: { state: TaskState.TASK_STATE_SUBMITTED, message: undefined, timestamp: new Date().toISOString() } }));
    }
    this.status(bus, ctx, TaskState.TASK_STATE_WORKING);
    if (text === 'ask') {
      this.status(bus, ctx, TaskState.TASK_STATE_INPUT_REQUIRED, 'Which one?');
      bus.finished();
      return;
    }
    if (text === 'wait') {
      await new Promise((resolve) => this.waiting.set(ctx.taskId, resolve));
      this.status(bus, ctx, TaskState.TASK_STATE_CANCELED);
      bus.finished();
      return;
    }
    const artifact = (value, append, lastChunk) => bus.publish(AgentEvent.artifactUpdate({ taskId: ctx.taskId, contextId: ctx.contextId, append, lastChunk, metadata: undefined,
      artifact: { artifactId: 'a1', name: 'result', description: '', parts: [part(value)], metadata: undefined, extensions: [] } }));
    artifact(ctx.task ? 'You said: ' : 'echo: ', false, false);
    artifact(text, true, true);
    this.status(bus, ctx, TaskState.TASK_STATE_COMPLETED);
    bus.finished();
  }
  async cancelTask(taskId) {
    this.waiting.get(taskId)?.();
  }
}

const app = express();
const server = app.listen(0, '127.0.0.1', () => {
  const base = `http://127.0.0.1:${server.address().port}`;
  const interfaces = [
    { url: `${base}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0', tenant: '' },
    { url: `${base}/rest`, protocolBinding: 'HTTP+JSON', protocolVersion: '1.0', tenant: '' },
  ];
  const card = {
    name: 'js', description: 'The SDK for JavaScript.', version: '1', provider: undefined, documentationUrl: '', iconUrl: '',
    supportedInterfaces: legacy ? duplicateInterfacesForLegacy(interfaces, ['JSONRPC']) : interfaces,
    capabilities: { streaming: true, pushNotifications: true, extensions: [], extendedAgentCard: false },
    defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'], securitySchemes: {}, securityRequirements: [], signatures: [],
    skills: [{ id: 'echo', name: 'Echo', description: 'Says it again.', tags: ['test'], examples: [], inputModes: [], outputModes: [], securityRequirements: [] }],
  };
  const hooks = new InMemoryPushNotificationStore();
  const sender = legacy ? createLegacyAwarePushNotificationSender(hooks) : new DefaultPushNotificationSender(hooks);
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Executor(), undefined, hooks, sender);
  const compat = legacy ? { legacyCompat: { enabled: true } } : {};
  app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler, ...compat }));
  app.use('/rpc', jsonRpcHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication, ...compat }));
  app.use('/rest', restHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication, ...compat }));
  console.log(JSON.stringify({ url: base }));
});
