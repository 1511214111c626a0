// @a2a-js/sdk calls the packer. It is run with the folder of its own suite as its place, whose packages it finds.
import { Role, TaskState } from '@a2a-js/sdk';
import { ClientFactory } from '@a2a-js/sdk/client';

const client = await new ClientFactory().createFromUrl(process.argv[1]);
const card = await client.getAgentCard();
const heard = [];
const send = async (text, task) => {
  let last;
  const parts = {};
  for await (const { payload } of client.sendMessageStream({
    message: {
      messageId: crypto.randomUUID(), role: Role.ROLE_USER, contextId: task?.contextId ?? '', taskId: task?.id ?? '', extensions: [], referenceTaskIds: [], metadata: undefined,
      parts: [{ content: { $case: 'text', value: text }, filename: '', mediaType: 'text/plain', metadata: undefined }],
    },
    configuration: undefined, metadata: undefined, tenant: '',
  })) {
    const it = payload.value;
    if (payload.$case === 'task') task = it;
    if (payload.$case === 'artifactUpdate') (parts[it.artifact.name] ??= []).push(...it.artifact.parts);
    if (it.status) {
      last = it.status;
      if (last.state === TaskState.TASK_STATE_WORKING && last.message) heard.push(last.message.parts[0].content.value);
    }
  }
  return { task, last, parts };
};
const asked = await send('socks, shirt');
const done = await send('3', asked.task);
console.log(JSON.stringify({
  agent: card.name,
  skill: card.skills[0].name,
  question: asked.last.message.parts[0].content.value,
  progress: heard,
  text: done.parts.result.map((p) => p.content.value).join(''),
  summary: done.parts.summary[0].content.value,
  end: done.last.state === TaskState.TASK_STATE_COMPLETED ? 'completed' : String(done.last.state),
}));
