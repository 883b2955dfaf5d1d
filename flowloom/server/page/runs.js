// Runs: what is sent, the stream that answers, and how it is found again when the connection was lost.

import { readJson } from "./json.js";
import { effect, untracked } from "./vendor/signals.js";
import { api, appPath, sessionPath } from "./api.js";
import { announce } from "./live.js";
import { LegacyReader } from "./legacy.js";
import { prefs } from "./prefs.js";
import { go } from "./router.js";
import { app, change, createSession, currentLog, loadSessions, opened, reload, run, session, sessionId, user } from "./store.js";
import { backoff, frames, pause } from "./stream.js";
import { textOf } from "./joined.js";

const tabs = new BroadcastChannel("flowloom.runs");
const NAMED = 60; // characters of a first message that become the session's name

/** A run that this page follows, and the log that it writes to. */
class Following {
  constructor(where, log) {
    this.where = where;
    this.log = log;
    this.invocationId = "";
    this.last = ""; // the id of the last frame
    this.stopping = false;
    this.aborting = new AbortController();
    this.reader = prefs.value.events === "legacy" ? new LegacyReader() : null;
  }

  get shown() {
    return this.log === currentLog();
  }

  show(state) {
    if (this.shown) run.value = { invocationId: this.invocationId, state, following: this };
  }

  get path() {
    return sessionPath(...this.where);
  }

  /** Take all frames of a stream; ends with it. */
  async take(response) {
    this.show(this.stopping ? "stopping" : "running");
    for await (const { id, data } of frames(response)) {
      if (id && !isAfter(id, this.last)) continue;
      this.last = id || this.last;
      let given;
      try {
        given = readJson(data);
      } catch {
        given = { author: "", customMetadata: { unreadable: data.slice(0, 10000) } };
      }
      const legacy = this.reader && typeof given.type === "string" && !("author" in given);
      if (given.error_details?.error_type === "shutting_down" && this.invocationId) throw new Error(given.error);
      for (const event of legacy ? this.reader.feed(given) : [given]) this.event(event);
    }
    for (const event of this.reader?.close() ?? []) this.event(event);
  }

  event(event) {
    if ("error" in event && !("author" in event)) {
      this.failed(event.error_details?.error_type ?? event.code ?? "", event.error_details?.error_message ?? event.error);
      return;
    }
    if (event.invocationId && !this.invocationId) {
      this.invocationId = event.invocationId;
      change((log) => log.begun(event.invocationId), this.log);
      this.show(this.stopping ? "stopping" : "running");
    }
    change((log) => log.push(event), this.log);
    if (this.shown) tell(event);
  }

  failed(code, message) {
    change((log) => log.failed({ code, message, invocationId: this.invocationId }), this.log);
    if (this.shown) announce(`Error: ${message}`, true);
  }

  /** Follow until the run is over, over as many connections as it takes. `connect` gives the first stream. */
  async follow(connect) {
    for (let attempt = 0; ; attempt += 1) {
      const last = this.last;
      try {
        const response = await (attempt === 0 ? connect() : this.again());
        if (response === null) break;
        await this.take(response);
        break;
      } catch (error) {
        if (error.name === "AbortError") break;
        if (error.status) {
          if (attempt === 0) this.failed(error.code || String(error.status), error.detail);
          break; // the server has answered: this run cannot be followed any more, the session says what became of it
        }
        if (this.last !== last) attempt = 0;
        this.show("reconnecting");
        await pause(backoff(attempt));
      }
    }
    await this.over();
  }

  /** The stream again, from where it stopped; null if there is none any more. */
  async again() {
    if (!this.invocationId) {
      const going = await goingOn(this.where);
      if (!going) return null;
      this.invocationId = going.invocationId;
    }
    return this.stream();
  }

  stream() {
    const headers = this.last ? { "Last-Event-ID": this.last } : {};
    if (!this.last) change((log) => log.restarted(this.invocationId), this.log);
    this.reader = null; // a run that is found again comes in the canonical form
    const path = `${this.path}/runs/${encodeURIComponent(this.invocationId)}/events`;
    return api.raw("GET", path, { headers, signal: this.aborting.signal });
  }

  async over() {
    change((log) => log.ended(this.invocationId), this.log);
    tabs.postMessage({ session: this.path });
    for (let attempt = 0; this.shown; attempt += 1) {
      try {
        await reload();
        break;
      } catch (error) {
        if (error.status) break;
        this.show("reconnecting");
        await pause(backoff(attempt));
      }
    }
    if (this.shown && run.value?.following === this) run.value = null;
    loadSessions();
  }
}

/** Whether a frame's id, `INVOCATION:SEQ.N`, comes after another one of the same run. */
function isAfter(id, last) {
  const [now, before] = [id, last].map((each) => /^(.*):(\d+)\.(\d+)$/.exec(each));
  if (!now || !before || now[1] !== before[1]) return true;
  return (Number(now[2]) - Number(before[2]) || Number(now[3]) - Number(before[3])) > 0;
}

function tell(event) {
  if (event.partial) return;
  const said = textOf(event);
  if (event.errorCode || event.errorMessage) announce(`Error: ${event.errorMessage ?? event.errorCode}`, true);
  else if (event.longRunningToolIds?.length) announce("Something waits for you: see the approvals.", true);
  else if (said) announce(`${event.author}: ${said.slice(0, 1000)}`);
}

/** The runs of a session that go on or wait; none where the server cannot tell. */
async function runsOf(where) {
  try {
    const found = await api.get(`${sessionPath(...where)}/runs`);
    return Array.isArray(found) ? found : (found.runs ?? []);
  } catch (error) {
    if (error.status) return [];
    throw error;
  }
}

/** The run of a session that can be followed, if there is one: it goes on, and has an id. */
const goingOn = async (where) => (await runsOf(where)).find((each) => each.status === "running" && each.invocationId);

/** Run the app with a message's parts, or without any: the run goes on with what there is. `more`: fields of the body. */
export async function send(parts, more = {}) {
  if (!sessionId.value) {
    const said = parts?.map((part) => part.text ?? "").join(" ").trim() ?? "";
    const named = said ? { state: { __session_metadata__: { displayName: said.slice(0, NAMED) } } } : {};
    run.value = { invocationId: "", state: "sending", following: null }; // no second message begins another session
    try {
      go({ session: await createSession(named) }, { replace: true });
    } catch (error) {
      run.value = null;
      throw error;
    }
  }
  await opened;
  const where = [app.value, user.value, sessionId.value];
  const following = new Following(where, currentLog());
  const newMessage = parts ? { role: "user", parts } : null;
  if (newMessage) change((log) => log.sent({ author: "user", content: newMessage, timestamp: Date.now() / 1000 }));
  following.show("sending");
  tabs.postMessage({ session: following.path });
  const { streaming, events, resumeGrace } = prefs.value;
  const body = { appName: where[0], userId: where[1], sessionId: where[2], newMessage, streaming, ...more };
  const path = events === "legacy" ? `${appPath(where[0])}/run` : "/run_sse";
  const params = { resume_grace: resumeGrace };
  const headers = { Accept: "text/event-stream" };
  await following.follow(() => api.raw("POST", path, { body, params, headers, signal: following.aborting.signal }));
}

/** Stop the run that goes on; what was said so far is kept. */
export async function stop() {
  const following = run.value?.following;
  if (!following || following.stopping) return;
  following.stopping = true;
  following.show("stopping");
  try {
    await api.post(`${following.path}/cancel`, {});
  } catch {
    following.aborting.abort(); // a server that knows no cancelling ends a run whose client has gone
  }
}

/** Follow a run that was begun elsewhere, or before a reload. */
async function join(invocationId) {
  const where = [app.value, user.value, sessionId.value];
  const following = new Following(where, currentLog());
  following.invocationId = invocationId;
  following.show("running");
  await reload({ quiet: true }).catch(() => {});
  await following.follow(() => following.stream());
}

const EVERY = 2000; // milliseconds between two questions for runs
const NEWS = 5; // each so many questions the session is asked for as well

let asked = 0;

/** Ask whether a run goes on that this page does not follow. */
async function look() {
  if (document.hidden || !session.value || run.value) return;
  const of = currentLog();
  try {
    const where = [app.value, user.value, sessionId.value];
    const going = await goingOn(where);
    if (of !== currentLog() || run.value) return;
    asked += 1;
    if (going) await join(going.invocationId);
    else if (asked % NEWS === 0) await reload({ quiet: true });
  } catch {
    // the next question comes soon
  }
}

setInterval(look, EVERY);
document.addEventListener("visibilitychange", look);
tabs.onmessage = ({ data }) => {
  if (session.value && data.session === sessionPath(app.value, user.value, sessionId.value) && !run.value) {
    asked = NEWS - 1;
    look();
  }
};
effect(() => {
  if (session.value) untracked(look);
});
