// The rows of the chat, made of the entries of a session: messages, dividers, and for each call what became of it.

import { computed } from "./vendor/signals.js";
import { entries, run } from "./store.js";

export const CONFIRMATION = "adk_request_confirmation";
export const INPUT = "adk_request_input";
export const CREDENTIAL = "adk_request_credential";
const REQUESTS = new Set([CONFIRMATION, INPUT, CREDENTIAL]);
export const isRequest = (call) => REQUESTS.has(call.name);

const callsOf = (event) => (event.content?.parts ?? []).map((part) => part.functionCall).filter(Boolean);
export const responsesOf = (event) => (event.content?.parts ?? []).map((part) => part.functionResponse).filter(Boolean);

/** The last result of each call in memory, by the call's id: `{response, event, final}`. */
function resultsOf(list) {
  const results = new Map();
  for (const { event } of list) {
    for (const response of responsesOf(event)) results.set(response.id, { response, event });
  }
  return results;
}

/** Whether a tool's result says that it failed. */
export const hasFailed = (response) => {
  const said = response?.response;
  return Boolean(said && typeof said === "object" && "error" in said && Object.keys(said).length <= 3 && said.error);
};

/** What becomes of a call: `done`, `failed`, `waiting` (for a person), `running`, `open` (nothing, and nothing runs). */
export function statusOf(call, event, results, waiting, going) {
  const result = results.get(call.id);
  if (waiting.has(call.id)) return "waiting";
  if (result) return hasFailed(result.response) ? "failed" : "done";
  if (going && (!event.invocationId || going.invocationId === event.invocationId)) return "running";
  return event.longRunningToolIds?.includes(call.id) ? "waiting" : "open";
}

/** What waits for a person in the entries: `{call, event, subject}` in order, by the id of the request. */
export function requestsIn(list) {
  const results = resultsOf(list);
  const found = new Map();
  for (const { event, state } of list) {
    if (state !== "stored" || event.partial) continue;
    for (const call of callsOf(event)) {
      const asked = isRequest(call) && event.longRunningToolIds?.includes(call.id);
      if (!asked) continue;
      const subject = call.args?.originalFunctionCall ?? { id: call.args?.functionCallId };
      found.set(call.id, { call, event, subject, answer: results.get(call.id)?.response });
    }
  }
  return found;
}

/** The requests of the session that wait for an answer. */
export const waitingRequests = computed(() => [...requestsIn(entries.value).values()].filter((each) => !each.answer));

const shows = (event) => {
  const parts = event.content?.parts ?? [];
  return parts.some((part) => part.text || part.functionCall || part.inlineData || part.fileData || part.executableCode || part.codeExecutionResult);
};

/** Whether a user's message only carries answers to requests and calls. */
const isAnswer = (event) => event.author === "user" && responsesOf(event).length > 0 && !shows(event);

/** The rows: `{key, kind, entry, first, stamp, …}` and for each event the row in which it is shown. */
function rowsOf(list, going) {
  const results = resultsOf(list);
  const requests = requestsIn(list);
  const subjects = new Set([...requests.values()].filter((each) => !each.answer).map((each) => each.subject.id));
  const rows = [];
  const rowOf = new Map();
  const rowOfCall = new Map();
  let author = null;
  let asked = null; // the last message of the user
  for (const entry of list) {
    const { event } = entry;
    for (const call of callsOf(event)) rowOfCall.set(call.id, entry.key);
    const error = event.errorCode || event.errorMessage;
    if (event.author === "user" && shows(event)) asked = event;
    if (shows(event) || error) {
      const calls = callsOf(event).map((call) => ({
        call,
        status: statusOf(call, event, results, subjects, going),
        result: results.get(call.id),
        request: requests.get(call.id),
      }));
      const stamp = [
        entry.version,
        entry.state,
        author === event.author,
        ...calls.map((each) => `${each.status}${each.result?.event.id ?? ""}${each.request?.answer ? "a" : ""}`),
      ].join();
      rows.push({ key: entry.key, kind: "message", entry, first: author !== event.author, calls, stamp, asked });
      rowOf.set(event.id, entry.key);
      author = event.author;
    } else {
      const call = responsesOf(event).find((each) => rowOfCall.has(each.id));
      if (call) rowOf.set(event.id, rowOfCall.get(call.id));
    }
    const files = Object.entries(event.actions?.artifactDelta ?? {});
    if (files.length) {
      rows.push({ key: `${entry.key}:files`, kind: "files", entry, files, stamp: entry.version });
      rowOf.set(event.id, rowOf.get(event.id) ?? `${entry.key}:files`);
    }
    const to = event.actions?.transferToAgent;
    if (to && to !== event.author) {
      rows.push({ key: `${entry.key}:transfer`, kind: "transfer", entry, from: event.author, to, stamp: to });
      rowOf.set(event.id, rowOf.get(event.id) ?? `${entry.key}:transfer`);
      author = null;
    }
    if (isAnswer(event)) author = null;
  }
  if (rows.length) rows.at(-1).last = true;
  return { rows, rowOf };
}

export const chatRows = computed(() => rowsOf(entries.value, run.value));
