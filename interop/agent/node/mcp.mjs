// @modelcontextprotocol/client calls the packer. It is run with the folder of its own suite as its place, whose packages it finds.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [address, era] = process.argv.slice(1);
let question;
const heard = [];
const client = new Client({ name: 'traveller', version: '1.0.0' }, { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: era } });
client.setRequestHandler('elicitation/create', ({ params }) => {
  question = params.message;
  return { action: 'accept', content: { [Object.keys(params.requestedSchema.properties)[0]]: '3' } };
});
await client.connect(new StreamableHTTPClientTransport(new URL(address)));
const { tools } = await client.listTools();
const result = await client.callTool({ name: 'packer', arguments: { text: 'socks, shirt' } }, {
  // The library reports its own rounds of questions here too.
  onprogress: (p) => p.message.startsWith('packing') && heard.push(p.message),
});
await new Promise((resolve) => setImmediate(resolve));
console.log(JSON.stringify({
  agent: tools[0].name,
  skill: tools[0]._meta['parley/card'].skills[0].name,
  question,
  progress: heard,
  text: result.content.filter((c) => c.type === 'text').map((c) => c.text).join(''),
  summary: JSON.parse(result.content.find((c) => c.type === 'resource').resource.text),
  end: result.isError ? 'failed' : 'completed',
}));
await client.close();
