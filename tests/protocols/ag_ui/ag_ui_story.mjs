// The protocol's own client, which verifies the order of events: a conversation with the agent at the address given.
import { HttpAgent } from "@ag-ui/client";

const url = process.argv[2];
const colour = { name: "colour", description: "Colours the page.", parameters: { type: "object", properties: {} } };
const agent = new HttpAgent({ url, threadId: "story" });
const told = [];

async function run(text, options = {}) {
  if (text) agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
  const seen = { text, outcome: null, error: null };
  try {
    await agent.runAgent({ runId: crypto.randomUUID(), tools: [colour], ...options }, {
      onRunFinishedEvent: ({ event }) => { seen.outcome = event.outcome?.type ?? null; },
      onRunErrorEvent: ({ event }) => { seen.error = event.message; },
    });
  } catch (error) {
    seen.error = String(error.message);
  }
  const last = agent.messages.at(-1);
  seen.last = last.role === "assistant" ? last.content : last.role;
  told.push(seen);
}

await run("hello");
await run("note");
await run("page");
const call = agent.messages.flatMap((message) => message.toolCalls ?? []).find((each) => each.function.name === "colour");
agent.addMessage({ id: "result", role: "tool", toolCallId: call.id, content: '{"done": true}' });
await run(null);
await run("pay");
await run(null, { resume: [{ interruptId: agent.pendingInterrupts[0].id, status: "resolved", payload: { confirmed: true } }] });
await run("all");
await run("fail");
console.log(JSON.stringify({ told, state: agent.state }));
