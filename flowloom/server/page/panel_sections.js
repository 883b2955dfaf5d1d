// A request by its pieces (the JSON of `Assembly.to_dict`): in groups, with authors, as text, as JSON and as curl.

import { writeJson } from "./json.js";

const GROUPS = [
  { id: "system", title: "System instruction", holds: (path) => path.startsWith("config.system_instruction") },
  { id: "tools", title: "Tools", holds: (path) => /^(config\.tools|server_tools)\b/.test(path) },
  { id: "contents", title: "Contents", holds: (path) => path.startsWith("contents") },
  { id: "settings", title: "Settings", holds: () => true },
];

/** The sections of an assembly by what they are: `[{id, title, sections}]`, each in the order of the wire. */
export function groupsOf(assembly) {
  const groups = GROUPS.map(({ id, title }) => ({ id, title, sections: [] }));
  for (const section of assembly.sections) {
    groups[GROUPS.findIndex(({ holds }) => holds(section.path))].sections.push(section);
  }
  return groups;
}

/** The processors in the order in which they ran: `{name, microseconds, changes, pieces, halted, hue}`. */
export function authorsOf(assembly) {
  const authors = new Map();
  for (const step of assembly.steps) {
    const known = authors.get(step.name);
    const halted = step.name === assembly.halted_by;
    if (known) {
      known.microseconds += step.microseconds;
      known.changes.push(...step.changes);
    } else {
      authors.set(step.name, { ...step, changes: [...step.changes], pieces: 0, halted, hue: 0 });
    }
  }
  for (const { by } of assembly.sections) {
    if (!by) continue;
    if (!authors.has(by)) authors.set(by, { name: by, microseconds: 0, changes: [], pieces: 0, halted: false, hue: 0 });
    authors.get(by).pieces++;
  }
  // the hues go to those whose pieces are seen, so that neighbours differ as long as there are hues
  let next = 0;
  for (const author of authors.values()) if (author.pieces) author.hue = (next++ % 8) + 1;
  return [...authors.values()];
}

/** What a reader should know before the pieces. */
export function warningsOf(assembly) {
  const said = [];
  if (assembly.halted_by) {
    said.push(`The processor ${assembly.halted_by} halted the step: the model is not asked, and this is the request ` +
      "as it was then.");
  } else if (!assembly.reaches_model) {
    said.push(assembly.without_flow
      ? `${assembly.agent} (${assembly.without_flow}) works without a flow, and no agent below it asks a model: ` +
        "there is no request."
      : "The model is not asked: a callback or a plugin answers in its place, or the run ended before.");
  }
  if (assembly.tools_not_run.length) {
    const tools = assembly.tools_not_run.join(", ");
    said.push(`A real run would run ${tools} first. What stands here for the results is a placeholder.`);
  }
  return said;
}

/** The declaration of a function that a section holds, else null. */
export function declarationOf({ path, value }) {
  return path.includes(".function_declarations[") && typeof value === "object" ? value : null;
}

/** The content (`{role, parts}`) that a section holds, else null. */
export function contentOf({ path, value }) {
  return path.startsWith("contents[") && typeof value === "object" ? value : null;
}

/** Who speaks in a content: `user`, `model`, or `tools` if it is made of nothing but results. */
export function speakerOf(content) {
  const parts = content.parts ?? [];
  if (parts.length && parts.every((part) => "function_response" in part)) return "tools";
  return content.role ?? "user";
}

/**
 * What a part says, `[{kind, text, name}]`: `text`, `thought`, `call`, `result`, `file`, `code`, `output`, or `data` for
 * what has no form of its own, so that nothing is lost.
 */
export function partLines(part) {
  if (typeof part === "string") return [{ kind: "text", text: part }];
  const { text, thought, function_call, function_response, inline_data, file_data, ...others } = part;
  const { executable_code, code_execution_result, ...rest } = others;
  const lines = [];
  const say = (kind, value, more) => value !== undefined && lines.push({ kind, ...more, text: value });
  say(thought ? "thought" : "text", text);
  if (function_call) say("call", pretty(function_call.args ?? {}), { name: function_call.name, id: function_call.id });
  if (function_response) {
    const { name, id } = function_response;
    say("result", pretty(resultOf(function_response)), { name, id });
  }
  for (const file of [inline_data, file_data]) if (file) say("file", fileText(file));
  if (executable_code) say("code", executable_code.code ?? "");
  if (code_execution_result) say("output", code_execution_result.output ?? "");
  for (const [name, value] of Object.entries(rest)) say("data", `${name} = ${pretty(value)}`);
  return lines.length ? lines : [{ kind: "text", text: "" }];
}

/** A section as plain text: for a search, and for a difference. */
export function sectionText({ value }) {
  return typeof value === "string" ? value : pretty(value);
}

export const pretty = (value) => writeJson(value, 2);

function resultOf(answer) {
  const given = answer.response;
  const only = given && typeof given === "object" && Object.keys(given).join() === "result";
  return only ? given.result : (given ?? null);
}

function fileText(file) {
  const facts = [file.display_name ?? file.file_uri ?? "file", file.mime_type, file.data];
  return facts.filter(Boolean).join(", ");
}

const TOP_LEVEL = ["system_instruction", "tools", "tool_config", "safety_settings", "cached_content"];
const NOT_SENT = ["http_options", "should_return_http_response", "automatic_function_calling", "labels"];

/** The body of the call in the form of the Gemini API, which takes the names of fields in snake case, too. */
export function wireBody(request) {
  const body = { contents: request.contents ?? [] };
  const generation = {};
  for (const [name, value] of Object.entries(request.config ?? {})) {
    if (name === "system_instruction") body[name] = typeof value === "string" ? { parts: [{ text: value }] } : value;
    else if (TOP_LEVEL.includes(name)) body[name] = value;
    else if (!NOT_SENT.includes(name)) generation[name] = value;
  }
  if (Object.keys(generation).length) body.generation_config = generation;
  return body;
}

/** A shell command that makes the call; the key stays in the environment. */
export function curlOf(request) {
  const model = request.model ?? "MODEL";
  const base = "${GEMINI_API_BASE:-https://generativelanguage.googleapis.com/v1beta}";
  const body = writeJson(wireBody(request), 1).replaceAll("'", String.raw`'\''`);
  return [
    `curl "${base}/models/${encodeURIComponent(model).replaceAll("%2F", "/")}:generateContent" \\`,
    `  -H "x-goog-api-key: $GEMINI_API_KEY" \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  -d '${body}'`,
  ].join("\n");
}
