// What the panels show, made from the server's data: sections and authors, differences, spans, state.

import assert from "node:assert/strict";
import { test } from "node:test";

import { blocksOf, short } from "../../flowloom/server/page/parts.js";
import { linesOf, textsOf } from "../../flowloom/server/page/panel_diff.js";
import { keyProblem, readValue, scopesOf } from "../../flowloom/server/page/panel_scopes.js";
import { authorsOf, curlOf, groupsOf, partLines, speakerOf, warningsOf, wireBody } from "../../flowloom/server/page/panel_sections.js";
import { costOf, runsOf, totalOf, visibleRows } from "../../flowloom/server/page/panel_spans.js";

const section = (path, value, by = "basic") => ({ path, by, value });
const said = (role, text) => ({ role, parts: [{ text }] });
const step = (name, microseconds = 1) => ({ name, microseconds, changes: [], events: [] });
const assembly = (sections, more) => ({ agent: "desk", sections, steps: [], halted_by: null, reaches_model: true,
  tools_not_run: [], without_flow: null, request: {}, ...more });

test("sections stand in groups, each in the order of the wire", () => {
  const groups = groupsOf(assembly([section("model", "m"), section("config.system_instruction[0]", "Be."),
    section("config.tools[0].function_declarations[a]", {}), section("config.temperature", 1), section("contents[0]", {})]));
  assert.deepEqual(groups.map(({ id, sections }) => [id, sections.map(({ path }) => path)]), [
    ["system", ["config.system_instruction[0]"]], ["tools", ["config.tools[0].function_declarations[a]"]],
    ["contents", ["contents[0]"]], ["settings", ["model", "config.temperature"]]]);
});

test("authors are the processors that ran, with hues for those that wrote what is still there", () => {
  const authors = authorsOf(assembly([section("model", "m", "basic"), section("contents[0]", {}, "contents"),
    section("x", 1, "plugin"), section("y", 1, null)], { steps: [step("basic", 2), step("auth"), step("contents"), step("basic", 3)],
    halted_by: "auth" }));
  assert.deepEqual(authors.map(({ name, pieces, hue, microseconds, halted }) => [name, pieces, hue, microseconds, halted]), [
    ["basic", 1, 1, 5, false], ["auth", 0, 0, 1, true], ["contents", 1, 2, 1, false], ["plugin", 1, 3, 0, false]]);
});

test("warnings say what is unusual of a request", () => {
  assert.deepEqual(warningsOf(assembly([])), []);
  assert.match(warningsOf(assembly([], { halted_by: "auth" }))[0], /auth halted/);
  assert.match(warningsOf(assembly([], { reaches_model: false }))[0], /callback or a plugin/);
  assert.match(warningsOf(assembly([], { tools_not_run: ["pay"] }))[0], /would run pay/);
});

test("parts are shown by what they are, and nothing of them is lost", () => {
  assert.deepEqual(partLines({ text: "hm", thought: true }), [{ kind: "thought", text: "hm" }]);
  assert.deepEqual(partLines({ function_call: { name: "f", id: "call_1", args: { a: 1 } } }),
    [{ kind: "call", name: "f", id: "call_1", text: '{\n  "a": 1\n}' }]);
  assert.equal(partLines({ function_response: { name: "f", response: { result: 3 } } })[0].text, "3");
  assert.deepEqual(partLines({ inline_data: { mime_type: "image/png", data: "sha" } }),
    [{ kind: "file", text: "file, image/png, sha" }]);
  assert.deepEqual(partLines({ unknown: 1 }), [{ kind: "data", text: "unknown = 1" }]);
  assert.equal(speakerOf({ role: "user", parts: [{ function_response: {} }] }), "tools");
  assert.equal(speakerOf(said("model", "x")), "model");
});

test("a long text is laid out in blocks that end with a line, and nothing of it is lost", () => {
  const lines = Array.from({ length: 300 }, (_, index) => `line ${index}`).join("\n");
  const blocks = blocksOf(lines, 100);
  assert.equal(blocks.join(""), lines);
  assert.ok(blocks.slice(0, -1).every((block) => block.endsWith("\n") && block.length <= 101));
  const faces = "😀".repeat(200);
  assert.equal(blocksOf(faces, 101).join(""), faces);
  assert.ok(blocksOf(faces, 101).every((block) => block.isWellFormed()));
  assert.deepEqual(blocksOf("short"), ["short"]);
  assert.deepEqual([short("abc", 2), short("ab", 2), short(undefined)], ["ab…", "ab", ""]);
});

test("the curl command quotes what a shell would take for its own, and holds no key", () => {
  const request = { model: "gemini-2.5-flash", contents: [said("user", "it's $HOME `x`")],
    config: { system_instruction: "Be.", temperature: 0, tools: [] } };
  assert.deepEqual(wireBody(request), { contents: request.contents, system_instruction: { parts: [{ text: "Be." }] },
    generation_config: { temperature: 0 }, tools: [] });
  const curl = curlOf(request);
  assert.match(curl, /gemini-2.5-flash:generateContent/);
  assert.ok(curl.includes(String.raw`it'\''s $HOME`));
  assert.match(curl, /\$GEMINI_API_KEY/);
});

test("lines are compared by their longest common part", () => {
  const lines = linesOf("a\nb\nc", "a\nc\nd").map(({ kind, text }) => `${kind[0]} ${text}`);
  assert.deepEqual(lines, ["s a", "r b", "s c", "a d"]);
  assert.deepEqual(linesOf("", "x"), [{ kind: "added", text: "x" }]);
  assert.deepEqual(textsOf({ kind: "removed", before: "x", after: null }), ["x", ""]);
  const long = (mark) => Array.from({ length: 3000 }, (_, index) => `${mark}${index}`).join("\n");
  assert.equal(linesOf(long("a"), long("b")).length, 6000);
});

const KINDS = { invoke_agent: "agent", generate_content: "model", execute_tool: "tool" };

function span(name, from, to, parent = null, attributes = {}, more = {}) {
  const [operation, agent] = name.split(" ");
  return { spanId: name, parentSpanId: parent, traceId: "t", name, kind: KINDS[operation], startTime: 1_795_000_000 + from / 1000,
    microseconds: (to - from) * 1000, invocationId: null, eventId: null, error: null,
    agent: operation === "invoke_agent" ? agent : null, attributes, ...more };
}
const tokens = (input, output, model = "m") => ({ "gen_ai.usage.input_tokens": input, "gen_ai.usage.output_tokens": output,
  "gen_ai.request.model": model });

test("spans are rows of a tree, with times since the start of their run", () => {
  const [run] = runsOf([span("generate_content m", 1, 6, "invoke_agent a", tokens(10, 5)), span("invoke_agent a", 0, 10),
    span("execute_tool f", 6, 9, "invoke_agent a")]);
  assert.deepEqual(run.rows.map(({ span: { kind }, depth, from, to, agent }) => [kind, depth, Math.round(from), Math.round(to), agent]),
    [["agent", 0, 0, 10, "a"], ["model", 1, 1, 6, "a"], ["tool", 1, 6, 9, "a"]]);
  assert.equal(Math.round(run.length), 10);
});

test("the critical path is what the end waited for, not what ran beside it", () => {
  const [run] = runsOf([span("invoke_agent a", 0, 20), span("generate_content m", 0, 5, "invoke_agent a"),
    span("execute_tool slow", 5, 15, "invoke_agent a"), span("execute_tool quick", 5, 8, "invoke_agent a"),
    span("generate_content n", 15, 20, "invoke_agent a")]);
  const off = run.rows.filter(({ critical }) => !critical).map(({ span: { name } }) => name);
  assert.deepEqual(off, ["execute_tool quick"]);
});

test("a child that ends after its parent, and one whose parent is gone, are shown", () => {
  const runs = runsOf([span("invoke_agent a", 0, 5), span("execute_tool f", 1, 9, "invoke_agent a"),
    span("execute_tool g", 2, 4, "gone")]);
  assert.equal(runs.length, 1);
  assert.equal(Math.round(runs[0].length), 9);
  assert.equal(runs[0].rows.length, 3);
});

test("each run has its own rows, the oldest first", () => {
  const run = (invocationId) => ({ invocationId });
  const runs = runsOf([span("invoke_agent b", 30, 40, null, {}, run("e-2")), span("invoke_agent a", 0, 5, null, {}, run("e-1"))]);
  assert.deepEqual(runs.map(({ id }) => id), ["e-1", "e-2"]);
});

test("usage is summed by agent, and costs what the model's price says", () => {
  const [run] = runsOf([span("invoke_agent a", 0, 10), span("generate_content m", 1, 3, "invoke_agent a", tokens(1000, 100)),
    span("invoke_agent b", 3, 9, "invoke_agent a"), span("generate_content m2", 4, 8, "invoke_agent b", tokens(500, 50, "m-large")),
    span("execute_tool f", 8, 9, "invoke_agent b", {}, { error: { type: "ValueError" } })]);
  assert.deepEqual(run.usage.map(({ agent, input, output, toolCalls, failures }) => [agent, input, output, toolCalls, failures]),
    [["a", 1000, 100, 0, 0], ["b", 500, 50, 1, 1]]);
  const total = totalOf(run.usage);
  assert.deepEqual([total.input, total.output, total.modelCalls], [1500, 150, 2]);
  const prices = { m: { input: 1, output: 2 }, "m-large": { input: 10, output: 20 } };
  assert.equal(costOf(total, prices).toFixed(6), "0.007200");
  assert.equal(costOf(total, { x: { input: 1, output: 1 } }), null);
});

test("what stands below a closed row is left out", () => {
  const [run] = runsOf([span("invoke_agent a", 0, 10), span("invoke_agent b", 1, 5, "invoke_agent a"),
    span("execute_tool f", 1, 2, "invoke_agent b"), span("execute_tool g", 6, 7, "invoke_agent a")]);
  const names = visibleRows(run.rows, new Set(["invoke_agent b"])).map(({ span: { name } }) => name);
  assert.deepEqual(names, ["invoke_agent a", "invoke_agent b", "execute_tool g"]);
});

test("state is shown by scope, with the event that wrote each key last", () => {
  const event = (id, stateDelta) => ({ id, actions: { stateDelta } });
  const events = [event("1", { city: "Rome", "user:name": "Ann" }), event("2", { city: "Oslo" }), { id: "3" }];
  const scopes = scopesOf({ city: "Oslo", "user:name": "Ann", "app:v": 1 }, events);
  assert.deepEqual(scopes.map(({ scope, entries }) => [scope.id, entries.map((each) => [each.name, each.writer?.id ?? null])]),
    [["session", [["city", "2"]]], ["user", [["name", "1"]]], ["app", [["v", null]]]]);
  assert.deepEqual(scopes[0].entries[0].earlier.map(({ id }) => id), ["1"]);
});

test("an edited value is JSON, and a new key needs a name of its own", () => {
  assert.deepEqual(readValue(' {"a": 1} '), { value: { a: 1 } });
  assert.match(readValue("hello").error, /double quotes/);
  assert.equal(keyProblem("a", {}), "");
  assert.match(keyProblem("a", { a: 1 }), /of that name/);
  assert.match(keyProblem("user:", {}), /name goes after/);
  assert.match(keyProblem(" ", {}), /Give/);
  assert.match(keyProblem("temp:x", {}), /not stored/);
});
