// What is shown: the app, the user, the session and its events. Panels read these signals; see panels.js.

import { batch, computed, effect, signal, untracked } from "./vendor/signals.js";
import { api, ApiError, appPath, devPath, sessionPath, sessionsPath } from "./api.js";
import { Joined } from "./joined.js";
import { prefs } from "./prefs.js";
import { go, route } from "./router.js";

export const app = computed(() => route.value.app);
export const user = computed(() => route.value.user || "user");
export const sessionId = computed(() => route.value.session);

/** The apps: `{name, description?, rootAgentName?, broken?}`; null until they are known. */
export const apps = signal(null);
export const appsError = signal(null);
/** `GET /apps/APP/app-info`, null until it is known, or if the app does not load (`appError` says why). */
export const appInfo = signal(null);
export const appError = signal(null);

/** The sessions of the user, newest first, without events; null until they are known. */
export const sessions = signal(null);
/** The session that is open, without its events; null for none. `sessionError` says why it does not open. */
export const session = signal(null);
export const sessionError = signal(null);
/** The id of the session that is open: nothing is asked of one that is only named by the address. */
export const openedId = computed(() => (session.value ? sessionId.value : ""));
export const loading = signal(false);

let log = new Joined(prefs.value.retained);
/** The entries in memory (joined.js), a new array once in a frame when one changed. */
export const entries = signal([]);
/** The events in memory, as on the wire, oldest first. */
export const events = computed(() => entries.value.map((entry) => entry.event));
/** Sums over all events of the session: `{events, tokens, inputTokens, outputTokens, calls, errors}`. */
export const totals = signal(log.totals);
/** How many events stand before those in memory, and whether the newest is among these. */
export const hidden = signal({ before: 0, atEnd: true });
/** Counts up whenever a run of this session has ended, or `reload()` was called. */
export const settled = signal(0);
/** The run that goes on: `{invocationId, state: "sending"|"running"|"reconnecting"|"stopping", ours}`; null for none. */
export const run = signal(null);
export const running = computed(() => run.value !== null);

/** The id of the event that is selected; empty for none. */
export const selected = computed(() => route.value.event);

/** Select an event, by its id: the address says so. */
export const select = (id, { replace = true } = {}) => go({ event: id }, { replace });

/** Counts how often an event was asked to be shown, also one that is selected already. */
export const revealed = signal(0);

/** Select an event and bring it into view, in the chat if that has it. */
export function reveal(id) {
  go({ event: id, query: { tab: undefined } });
  revealed.value += 1;
}

/** An event in memory by its id. */
export const eventOf = (id) => events.value.find((event) => event.id === id);

// -- one paint for a frame --------------------------------------------------------------------------

let due = false;

function show() {
  due = false;
  batch(() => {
    entries.value = log.entries.map((entry) => entry);
    totals.value = log.totals;
    hidden.value = { before: log.before, atEnd: log.atEnd };
  });
}

/** The log of the open session, for a run that goes on writing to it when another one is open. */
export const currentLog = () => log;

/** Change a log, that of the open session if no other is given; what changed is drawn with the next frame. */
export function change(what, of = log) {
  const result = what(of);
  if (!due && of === log) {
    due = true;
    if (document.hidden) setTimeout(show, 50);
    else requestAnimationFrame(show);
  }
  return result;
}

// -- loading ----------------------------------------------------------------------------------------

export async function loadApps() {
  try {
    const names = await api.get("/list-apps");
    apps.value = names.map((name) => ({ name }));
    appsError.value = null;
    const { apps: known } = await api.get("/list-apps", { params: { detailed: true } });
    const details = new Map((known ?? []).map((each) => [each.name, each]));
    apps.value = names.map((name) => ({ ...details.get(name), name, broken: !details.has(name) }));
  } catch (error) {
    if (apps.value === null || error.status === 0) appsError.value = error;
  }
}

export async function loadAppInfo(name) {
  appInfo.value = null;
  appError.value = null;
  if (!name) return;
  try {
    const info = await api.get(`${appPath(name)}/app-info`);
    if (app.value === name) appInfo.value = info;
  } catch (error) {
    if (error.code === "agent_broken") {
      const told = await api.get(`${devPath(name)}/problem`).catch(() => null); // only a development server tells
      error.body = { ...error.body, traceback: told?.traceback };
    }
    if (app.value === name) appError.value = error;
  }
}

const PAGE_OF_SESSIONS = 50;

/** Whether the user has more sessions than those that are known. */
export const moreSessions = signal(false);

/** Ask for the user's latest sessions anew, or for those that come `after` the known ones. */
export async function loadSessions({ after } = {}) {
  const where = [app.value, user.value];
  if (!where[0]) return;
  try {
    const found = await api.get(sessionsPath(...where), { params: { limit: PAGE_OF_SESSIONS, after } });
    if (app.value !== where[0] || user.value !== where[1]) return;
    const fresh = new Set(found.map((each) => each.id));
    const kept = after ? sessions.value.filter((each) => !fresh.has(each.id)) : [];
    moreSessions.value = found.length === PAGE_OF_SESSIONS;
    sessions.value = [...kept, ...found].sort((a, b) => (b.lastUpdateTime ?? 0) - (a.lastUpdateTime ?? 0));
  } catch (error) {
    if (error.status === 0 || error.status === 404) sessions.value ??= [];
  }
}

/** Ask for the open session anew, and take what came to it since; `quiet` tells panels only of news. */
export async function reload({ quiet = false } = {}) {
  const where = [app.value, user.value, sessionId.value];
  if (!where[2]) return;
  const of = log;
  const after = of.lastStored;
  const path = sessionPath(...where);
  let found;
  try {
    found = await api.get(path, { params: after ? { afterEventId: after } : {} });
  } catch (error) {
    if (error.status !== 404 || !after) throw error;
    found = await api.get(path); // that event is not there any more
  }
  if (of !== log) return;
  const { events: came = [], ...rest } = found;
  const all = !after || came[0]?.id === of.ids[0]; // a server that does not know `afterEventId` gives all of them
  change((log) => log.stored(came, all ? "" : after));
  const news = came.length > 0 || rest.lastUpdateTime !== session.value?.lastUpdateTime;
  session.value = rest;
  if (!quiet || news) settled.value += 1;
}

/** Show the newest events again, after older ones were loaded in their place. */
export async function loadNewest() {
  const of = log;
  const found = await api.get(sessionPath(app.value, user.value, sessionId.value));
  if (of === log) change((log) => log.stored(found.events ?? []));
}

/** Done when the session of the address is open, or cannot be opened. */
export let opened = Promise.resolve();

/** Open the session of the address; nothing if there is none. */
async function open(appName, userId, id) {
  const fresh = new Joined(prefs.value.retained);
  log = fresh;
  batch(() => {
    session.value = null;
    sessionError.value = null;
    run.value = null;
    loading.value = Boolean(id);
  });
  show();
  if (!id) return;
  try {
    const { events: all = [], ...rest } = await api.get(sessionPath(appName, userId, id));
    if (log !== fresh) return;
    log.stored(all);
    session.value = rest;
    show();
  } catch (error) {
    if (log === fresh) sessionError.value = error;
  }
  if (log === fresh) loading.value = false;
}

const PAGE_OF_EVENTS = 500;

/** Load the events before those in memory, from the `first` one (its number) on; true if there were any. */
export async function loadOlder(first = log.before - PAGE_OF_EVENTS) {
  const of = log;
  const end = of.before;
  if (end === 0) return false;
  const start = Math.max(0, first);
  const params = start > 0 ? { afterEventId: of.ids[start - 1], limit: end - start } : { limit: end };
  let { events: found = [] } = await api.get(sessionPath(app.value, user.value, sessionId.value), { params });
  if (of !== log) return false;
  const wanted = new Set(of.ids.slice(start, end));
  found = found.filter((event) => wanted.has(event.id));
  change((log) => log.older(found));
  return true;
}

/** Make a session and go to it; answers its id. */
export async function createSession(body = {}) {
  const made = await api.post(sessionsPath(app.value, user.value), body);
  await loadSessions();
  return made.id;
}

effect(() => {
  const name = app.value;
  untracked(() => loadAppInfo(name));
});

effect(() => {
  const where = [app.value, user.value];
  untracked(() => {
    sessions.value = null;
    if (where[0]) loadSessions();
  });
});

effect(() => {
  const where = [app.value, user.value, sessionId.value];
  untracked(() => {
    opened = open(...where);
    if (sessions.value) loadSessions(); // what the one that was left is doing
  });
});

const BEFORE_A_LINK = 50;

effect(() => {
  const id = selected.value;
  if (!openedId.value) return;
  untracked(() => {
    const at = log.ids.indexOf(id);
    if (at >= 0 && at < log.before) loadOlder(at - BEFORE_A_LINK).catch(() => {}); // what is shown stays, then
  });
});

effect(() => {
  const { retained } = prefs.value;
  untracked(() => change((log) => log.retain(retained)));
});

export { ApiError };
