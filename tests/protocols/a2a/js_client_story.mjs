// The client of the JavaScript SDK with one of our servers: what it is told, as one line of JSON.
import http from "node:http";
import { pathToFileURL } from "node:url";

const [sdk, base] = process.argv.slice(2);
const { ClientFactory } = await import(pathToFileURL(`${sdk}/dist/client/index.js`));
const client = await new ClientFactory().createFromUrl(base);
let number = 0;
const part = (content) => ({ content, metadata: undefined, filename: "", mediaType: "" });
const text = (value) => part({ $case: "text", value });
const request = (parts, more = {}, configuration = undefined) => ({
  tenant: "",
  message: {
    messageId: `m${number++}`, contextId: "", taskId: "", role: 1, parts, metadata: undefined, extensions: [],
    referenceTaskIds: [], ...more,
  },
  configuration, metadata: undefined,
});
const textOf = (task) => task.artifacts.map((a) => a.parts.map((p) => p.content?.value).join("")).join("|");
const told = {};

// send
const sent = await client.sendMessage(request([text("Hello")]));
const task = sent.task ?? sent;
told.send = [task.status.state, textOf(task)];

// stream
const pieces = [];
for await (const event of client.sendMessageStream(request([text("Hello again")], { contextId: task.contextId }))) {
  const payload = event.payload ?? event;
  if (payload.$case === "artifactUpdate") pieces.push(payload.value.artifact.parts.map((p) => p.content?.value).join(""));
}
told.stream = pieces.join("");

// two contexts
const other = await client.sendMessage(request([text("count")]));
const again = await client.sendMessage(request([text("count")], { contextId: task.contextId }));
told.contexts = [textOf(other.task ?? other), textOf(again.task ?? again)];

// dialog
const asked = await client.sendMessage(request([text("ask")]));
const waiting = asked.task ?? asked;
const reply = await client.sendMessage(
  request([text("Rome")], { taskId: waiting.id, contextId: waiting.contextId }));
told.dialog = [waiting.status.state, waiting.status.message.parts[0].content.value, textOf(reply.task ?? reply)];

// file
const file = { content: { $case: "raw", value: Buffer.from("abc") }, metadata: undefined, filename: "a.txt", mediaType: "text/plain" };
const filed = await client.sendMessage(request([text("file"), file]));
told.file = textOf(filed.task ?? filed);

// get
const found = await client.getTask({ tenant: "", id: task.id, historyLength: 0 });
told.get = [found.id === task.id, textOf(found)];

// cancel
const long = await client.sendMessage(request([text("dig")], {}, {
  acceptedOutputModes: [], taskPushNotificationConfig: undefined, historyLength: undefined, returnImmediately: true,
}));
const cancelled = await client.cancelTask({ tenant: "", id: (long.task ?? long).id, metadata: undefined });
told.cancel = cancelled.status.state;

// push
const notified = [];
const sink = http.createServer((incoming, answer) => {
  let body = "";
  incoming.on("data", (piece) => (body += piece));
  incoming.on("end", () => {
    notified.push([incoming.headers["x-a2a-notification-token"], Object.keys(JSON.parse(body))[0]]);
    answer.end();
  });
});
await new Promise((done) => sink.listen(0, "127.0.0.1", done));
await client.sendMessage(request([text("Hello")], {}, {
  acceptedOutputModes: [], historyLength: undefined, returnImmediately: false,
  taskPushNotificationConfig: {
    tenant: "", id: "", taskId: "", url: `http://127.0.0.1:${sink.address().port}/`, token: "t0ken", authentication: undefined,
  },
}));
for (let tries = 0; notified.length < 3 && tries < 200; tries++) await new Promise((done) => setTimeout(done, 20));
sink.close();
told.push = notified;
console.log(JSON.stringify(told));
