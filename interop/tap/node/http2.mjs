// A server that speaks HTTP/2 without TLS, and nothing else: plain answers, and a stream of events at /events.
import http2 from "node:http2";

const server = http2.createServer();
server.on("stream", (stream, headers) => {
  let text = "";
  stream.setEncoding("utf8");
  stream.on("data", (part) => (text += part));
  stream.on("end", () => {
    const { id, params } = JSON.parse(text);
    const answer = JSON.stringify({ jsonrpc: "2.0", id, result: params[0] + params[1] });
    if (headers[":path"] !== "/events") {
      stream.respond({ ":status": 200, "content-type": "application/json" });
      stream.end(answer);
      return;
    }
    stream.respond({ ":status": 200, "content-type": "text/event-stream" });
    stream.write('data: {"jsonrpc":"2.0","method":"tick","params":[1]}\n\n');
    stream.end("data: " + answer + "\n\n");
  });
});
server.listen(0, "127.0.0.1", () => console.error("listening at port " + server.address().port));
