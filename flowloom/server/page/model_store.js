// The requests that wait for a person, what was answered, and the answers that are being written.

import { ApiError, api } from "./api.js";
import { readJson, writeJson } from "./json.js";
import { backoff, frames, pause } from "./stream.js";
import { prefs } from "./prefs.js";
import { computed, signal } from "./html.js";
import { fieldOf } from "./model_schema.js";
import { formOf, read } from "./model_form.js";

const REQUESTS = "/dev/models/requests";
const MAX_SENT = 200;

/** The requests that wait (`WaitingRequest.to_dict`), the oldest first; null until they are known. */
export const waiting = signal(null);
/** What was answered here or ended otherwise, the latest first: `{id, agent, model, at, answer, state, detail}`. */
export const sent = signal([]);
/** Why there are no requests to be had: an `ApiError`. */
export const failure = signal(null);
/** Whether the stream of requests is connected. */
export const connected = signal(false);
/** The id of the request that one has chosen. */
const wanted = signal("");
/** The request that is shown: the chosen one as long as it waits, else the oldest. */
export const current = computed(() => {
  const all = waiting.value ?? [];
  return all.find(({ id }) => id === wanted.value) ?? all[0] ?? null;
});
export const choose = (id) => (wanted.value = id);

// -- hearing of requests --------------------------------------------------------------------------------------------

let listening = false;

/** Follow the requests from now on, also while another panel is open. */
export function listen() {
  if (!listening) follow();
  listening = true;
}

async function follow() {
  for (let attempt = 0; ; attempt++) {
    try {
      const response = await api.raw("GET", `${REQUESTS}/stream`);
      waiting.value = await api.get(REQUESTS);
      [failure.value, connected.value, attempt] = [null, true, 0];
      for await (const { data } of frames(response)) took(readJson(data));
    } catch (error) {
      if (error instanceof ApiError) failure.value = error;
      if (error.status === 404 || error.status === 403) {
        listening = false;
        return;
      }
    }
    connected.value = false;
    await pause(backoff(attempt));
  }
}

/** Take a frame of the stream: a request that came, or how one ended. */
export function took(said) {
  const all = waiting.value ?? [];
  if ("assembly" in said) {
    if (all.some(({ id }) => id === said.id)) return;
    waiting.value = [...all, said];
    if (prefs.value.sound) chime();
    return;
  }
  const over = all.find(({ id }) => id === said.id);
  waiting.value = all.filter(({ id }) => id !== said.id);
  if (over) note(over, said.state);
}

/** Note how a request ended; what was sent here is known already. */
function note(request, state, more = {}) {
  const known = sent.value.find(({ id }) => id === request.id);
  const { id, agent, model } = request;
  const entry = { id, agent, model, at: Date.now() / 1000, answer: null, detail: "", ...known, state, ...more };
  sent.value = [entry, ...sent.value.filter((each) => each.id !== id)].slice(0, MAX_SENT);
}

// -- answers that are being written ---------------------------------------------------------------------------------

/** By request: `{thought, text, calls: [{name, args}], tool: {name, form} or null, form: of the response schema}`. */
const drafts = signal({});

export const draftFor = (request) => drafts.value[request.id] ?? {
  thought: "",
  text: "",
  said: "",
  calls: [],
  tool: null,
  form: request.response_schema ? formOf(fieldOf(request.response_schema)) : null,
};

export function changeDraft(request, change) {
  drafts.value = { ...drafts.value, [request.id]: { ...draftFor(request), ...change } };
}

function forget(id) {
  const { [id]: _, ...others } = drafts.value;
  drafts.value = others;
}

/** The form of a tool's arguments, with what it begins with. */
export const toolForm = (tool, args) => ({ name: tool.name, form: formOf(fieldOf(tool.schema), args) });

/**
 * The parts of an answer, and what is wrong with it: `{parts, problems: [{where, path, message}]}`. `where` is the tool
 * whose form is open (`tool`), the form of the response schema (`text`), or `answer`.
 */
export function partsOf(request, draft) {
  const parts = [];
  const problems = [];
  const told = (where, found) => problems.push(...found.map((each) => ({ where, ...each })));
  if (draft.thought.trim()) parts.push({ text: draft.thought, thought: true });
  const calls = [...draft.calls];
  if (draft.tool) {
    const tool = request.tools.find(({ name }) => name === draft.tool.name);
    const { value, problems: found } = read(fieldOf(tool.schema), draft.tool.form);
    told("tool", found);
    calls.push({ name: tool.name, args: value ?? {} });
  }
  if (draft.form && !calls.length) {
    const { value, problems: found } = read(fieldOf(request.response_schema), draft.form);
    told("text", found);
    parts.push({ text: writeJson(value ?? null) });
  } else if (draft.text.trim() && !draft.form) parts.push({ text: draft.text });
  parts.push(...calls.map(({ name, args }) => ({ functionCall: { name, args } })));
  if (!parts.some((part) => !part.thought) && !draft.said) told("answer", [{ path: "", message: "Write a text, or call a tool." }]);
  return { parts, problems };
}

/** Send an answer. Raises `ApiError`: 422 for one that does not fit (`body` has `tool` and `field`). */
export async function send(request, body) {
  try {
    await api.post(`${REQUESTS}/${encodeURIComponent(request.id)}/answer`, body);
  } catch (error) {
    if (error.status === 404 || error.status === 409) {
      took({ id: request.id, state: error.body?.state ?? "cancelled" });
      note(request, error.body?.state ?? "cancelled", { answer: body, detail: error.detail });
      forget(request.id);
    }
    throw error;
  }
  note(request, body.error ? "failed" : "answered", { answer: body });
  waiting.value = (waiting.value ?? []).filter(({ id }) => id !== request.id);
  forget(request.id);
}

/** Say a piece of an answer that is being written, to a run that streams. */
export const say = (request, text) => api.post(`${REQUESTS}/${encodeURIComponent(request.id)}/answer`, { parts: [{ text }], partial: true });

// -- badge and sound ------------------------------------------------------------------------------------------------

/** What stands before the window's title: how many requests wait, if that is wished. */
export const badge = computed(() => {
  const amount = waiting.value?.length ?? 0;
  return prefs.value.badge && amount ? `(${amount}) ` : "";
});

/** Two short tones; nothing where the browser allows none before a click. */
function chime() {
  try {
    const audio = new AudioContext();
    [660, 880].forEach((pitch, index) => {
      const [tone, volume] = [audio.createOscillator(), audio.createGain()];
      const start = audio.currentTime + index * 0.14;
      tone.frequency.value = pitch;
      volume.gain.setValueAtTime(0.12, start);
      volume.gain.exponentialRampToValueAtTime(0.001, start + 0.13);
      tone.connect(volume).connect(audio.destination);
      tone.start(start);
      tone.stop(start + 0.14);
    });
    setTimeout(() => audio.close(), 600);
  } catch {
    // no sound to be had
  }
}
