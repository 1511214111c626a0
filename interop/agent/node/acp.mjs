// acp-sdk calls the packer. It is run with the folder of its own suite as its place, whose packages it finds.
import { createRequire } from 'node:module';

const { Client } = createRequire(`${process.cwd()}/`)('acp-sdk');
const client = new Client({ baseUrl: process.argv[1] });
const user = (content) => ({ role: 'user', parts: [{ content_type: 'text/plain', content }], created_at: null, completed_at: null });

const { name, metadata } = await client.agent('packer');
const heard = [];
let run = await client.runSync('packer', 'socks, shirt');
const question = run.await_request.message.parts[0].content;
for await (const event of client.runResumeStream(run.run_id, { type: 'message', message: user('3') })) {
  if (event.type === 'generic') heard.push(event.generic.message);
  if (event.type === 'run.completed') run = event.run;
}
console.log(JSON.stringify({
  agent: name,
  skill: metadata.capabilities[0].name,
  question,
  progress: heard,
  text: run.output.flatMap((m) => m.parts.filter((p) => !p.name).map((p) => p.content)).join(''),
  summary: JSON.parse(run.output.flatMap((m) => m.parts).find((p) => p.name === 'summary').content),
  end: run.status,
}));
