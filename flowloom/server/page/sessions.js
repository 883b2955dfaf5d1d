// The sessions of a user: found, opened, named, forked, taken out and in, deleted.

import { classes, computed, effect, html, signal, useRef, useState } from "./html.js";
import { api, ApiError, call, sessionPath, sessionsPath } from "./api.js";
import { waitingRequests } from "./chat_rows.js";
import { textOf } from "./joined.js";
import { readJson, writeJson } from "./json.js";
import { ago, exact } from "./numbers.js";
import { Empty, Icon, IconButton, Problem, short } from "./parts.js";
import { go } from "./router.js";
import { app, createSession, events, hidden, loadSessions, moreSessions, reload, running, selected, session, sessionId, sessions, user } from "./store.js";

const METADATA = "__session_metadata__";
const UNDO = 6000; // milliseconds in which a deletion can be taken back

const wanted = signal(""); // what is searched for
const found = signal([]); // the sessions that the server found
const problem = signal(null);
const leaving = signal(null); // the session that is about to be deleted: {id, name, path, was, timer}
const notes = signal({}); // what was seen of sessions while they were open: {id: {words, status}}

/** Words without the marks of Markdown, which mean nothing in a line. */
const plain = (words) => words.replace(/(^|\s)#{1,6}\s|\*\*|`+/g, "$1").trim();

export const nameOf = (each) => short(String(each.state?.[METADATA]?.displayName || each.id));

effect(() => {
  const id = session.value?.id;
  if (!id || !hidden.value.atEnd) return;
  const last = events.value.findLast((event) => textOf(event) || event.errorMessage);
  const failed = Boolean(last?.errorCode && last.errorCode !== "INVOCATION_ABORTED");
  const told = events.value.findLast((event) => textOf(event).trim());
  const status = running.value ? "running" : waitingRequests.value.length ? "paused" : failed ? "failed" : "idle";
  const words = told ? textOf(told).trim().slice(0, 120) : "";
  const known = notes.peek()[id];
  if (known?.words !== words || known?.status !== status) notes.value = { ...notes.peek(), [id]: { words, status } };
});

/** The sessions that are shown, newest first. */
export const shown = computed(() => {
  const text = wanted.value.trim().toLowerCase();
  const known = (sessions.value ?? []).filter((each) => each.id !== leaving.value?.id);
  if (!text) return known;
  const named = known.filter((each) => `${nameOf(each)}\n${each.id}`.toLowerCase().includes(text));
  const others = found.value.filter((each) => each.id !== leaving.value?.id && named.every((one) => one.id !== each.id));
  return [...named, ...others];
});

let asked = 0;

async function search(text) {
  wanted.value = text;
  found.value = [];
  const now = (asked += 1);
  if (!text.trim()) return;
  await new Promise((resolve) => setTimeout(resolve, 200));
  if (now !== asked) return;
  try {
    const list = await api.get(sessionsPath(app.value, user.value), { params: { q: text.trim(), limit: 100 } });
    const searches = list.length < (sessions.value ?? []).length || moreSessions.value; // google-adk gives all of them
    if (now === asked && searches) found.value = list;
  } catch {
    // the names are searched all the same
  }
}

/** Whether the sessions are open where there is no room for them beside the chat. */
export const drawer = signal(false);

/** Open a session, or none, and make room for its chat. */
function open(session) {
  go({ session });
  drawer.value = false;
}

/** Go to the session that many places further in the list. */
export function step(by) {
  const list = shown.value;
  const at = list.findIndex((each) => each.id === sessionId.value);
  const to = list[at < 0 ? 0 : at + by];
  if (to) open(to.id);
}

export const newSession = () => {
  open("");
  document.getElementById("composer")?.focus();
};
export const focusSearch = () => document.getElementById("session-search")?.focus();

const guarded = (what) => async (...given) => {
  problem.value = null;
  try {
    await what(...given);
  } catch (error) {
    problem.value = error;
  }
};

const rename = guarded(async (each, displayName) => {
  const stateDelta = { [METADATA]: { ...each.state?.[METADATA], displayName } };
  await api.patch(sessionPath(app.value, user.value, each.id), { stateDelta });
  await loadSessions();
  if (each.id === sessionId.value) await reload();
});

const fork = guarded(async (each) => {
  const throughEventId = (each.id === sessionId.value && selected.value) || undefined; // without one, all that is stored
  const made = await api.post(`${sessionPath(app.value, user.value, each.id)}/fork`, { throughEventId });
  await loadSessions();
  go({ session: made.id });
});

const save = guarded(async (each) => {
  const whole = await api.get(sessionPath(app.value, user.value, each.id));
  const address = URL.createObjectURL(new Blob([writeJson(whole, 2)], { type: "application/json" }));
  const link = Object.assign(document.createElement("a"), { href: address, download: `${each.id}.json` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
});

const load = guarded(async (file) => {
  let given;
  try {
    given = readJson(await file.text());
  } catch {
    throw new ApiError(0, "not_json", `${file.name} is no session: it is not JSON.`);
  }
  if (!Array.isArray(given?.events)) throw new ApiError(0, "no_session", `${file.name} is no session: it has no list \`events\`. Export one to see what it looks like.`);
  go({ session: await createSession({ state: given.state ?? {}, events: given.events }) });
});

function remove(each) {
  finish();
  const path = sessionPath(app.value, user.value, each.id);
  const was = each.id === sessionId.value ? { app: app.value, user: user.value, session: each.id } : null; // where one was
  leaving.value = { id: each.id, name: nameOf(each), path, was, timer: setTimeout(finish, UNDO) };
  if (was) go({ session: "" });
}

function undo() {
  const { was, timer } = leaving.value;
  clearTimeout(timer);
  leaving.value = null;
  if (was) go(was);
}

/** Delete what is about to be deleted, now: its time is over, or the page is left. */
async function finish() {
  if (!leaving.value) return;
  const { path, timer, id } = leaving.value;
  clearTimeout(timer);
  sessions.value = (sessions.value ?? []).filter((each) => each.id !== id);
  leaving.value = null;
  await guarded(() => call("DELETE", path, { keepalive: true }))();
}

addEventListener("pagehide", finish);

const STATUS = { running: "running", paused: "waits for you", failed: "failed" };

function Item({ each }) {
  const [naming, setNaming] = useState(false);
  const isOpen = each.id === sessionId.value;
  const noted = notes.value[each.id];
  const words = noted?.words ?? each.lastWords;
  const status = (isOpen ? noted?.status : undefined) ?? each.status ?? noted?.status; // google-adk's list tells none
  const named = (event) => {
    event.preventDefault();
    setNaming(false);
    rename(each, new FormData(event.target).get("name").trim() || each.id);
  };
  if (naming) {
    return html`
      <li class="session open">
        <form onSubmit=${named}>
          <input name="name" class="session-rename" data-testid="session-name" aria-label="Name of the session" value=${nameOf(each)} ref=${(field) => field?.focus()} onKeyDown=${(event) => event.key === "Escape" && (event.stopPropagation(), setNaming(false))} onBlur=${() => setNaming(false)} />
        </form>
      </li>
    `;
  }
  return html`
    <li class=${classes("session", isOpen && "open")} data-testid="session-item" data-session=${each.id}>
      <button type="button" class="session-open" aria-current=${isOpen ? "true" : undefined} onClick=${() => open(each.id)}>
        <span class="session-name"><bdi>${nameOf(each)}</bdi></span>
        <time class="session-time" title=${exact(each.lastUpdateTime)}>${ago(each.lastUpdateTime)}</time>
        <span class="session-words">${STATUS[status] && html`<span class=${`session-status ${status}`}>${STATUS[status]}</span> `}<bdi>${plain(words ?? "") || (nameOf(each) === each.id ? "" : each.id)}</bdi></span>
      </button>
      <div class="session-tools">
        <${IconButton} name="edit" label=${`Rename ${nameOf(each)}`} data-testid="session-rename" onClick=${() => setNaming(true)} />
        <${IconButton} name="fork" label=${isOpen && selected.value ? "Fork at the selected event" : `Fork ${nameOf(each)}`} data-testid="session-fork" onClick=${() => fork(each)} />
        <${IconButton} name="download" label=${`Export ${nameOf(each)}`} data-testid="session-export" onClick=${() => save(each)} />
        <${IconButton} name="trash" label=${`Delete ${nameOf(each)}`} data-testid="session-delete" onClick=${() => remove(each)} />
      </div>
    </li>
  `;
}

export function Sessions() {
  const picker = useRef();
  const list = shown.value;
  return html`
    <nav class="sessions" aria-labelledby="sessions-title">
      <div class="sessions-head">
        <h2 id="sessions-title">Sessions</h2>
        <input type="file" accept="application/json,.json" hidden ref=${picker} data-testid="session-import-file" aria-label="Session file" tabindex="-1" onChange=${(event) => { load(event.target.files[0]); event.target.value = ""; }} />
        <${IconButton} name="upload" label="Import a session" data-testid="session-import" disabled=${!app.value} onClick=${() => picker.current.click()} />
        <button type="button" class="primary small" data-testid="session-new" disabled=${!app.value} onClick=${newSession}><${Icon} name="add" />New</button>
      </div>
      <div class="search">
        <${Icon} name="search" />
        <input type="search" id="session-search" data-testid="session-search" aria-label="Search sessions" placeholder="Search sessions" value=${wanted.value} onInput=${(event) => search(event.target.value)} />
      </div>
      ${problem.value && html`<${Problem} error=${problem.value}><button type="button" onClick=${() => (problem.value = null)}>Close</button></${Problem}>`}
      ${list.length > 0 && html`<ul class="session-list">${list.map((each) => html`<${Item} key=${each.id} each=${each} />`)}</ul>`}
      ${moreSessions.value && !wanted.value && html`<button type="button" class="quiet" onClick=${() => loadSessions({ after: list.at(-1).id })}>Show older sessions</button>`}
      ${list.length === 0 &&
      (wanted.value
        ? html`<${Empty} title="Nothing found">No session has “${wanted.value}” in its name or its messages.</${Empty}>`
        : sessions.value && html`<${Empty} title="No sessions yet">The first message begins one.</${Empty}>`)}
      ${leaving.value &&
      html`<div class="toast" role="status" data-testid="undo"><span>Deleted <bdi>${leaving.value.name}</bdi>.</span><button type="button" onClick=${undo}>Undo</button></div>`}
    </nav>
  `;
}
