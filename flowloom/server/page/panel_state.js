// The state of the session by scope: each key with the event that wrote it, to be edited.

import { api, sessionPath } from "./api.js";
import { classes, html, useState } from "./html.js";
import { isNumber, writeJson } from "./json.js";
import { exact, time } from "./numbers.js";
import { Empty, Icon, Problem, short } from "./parts.js";
import { LongText } from "./panel_pieces.js";
import { keyProblem, readValue, scopesOf } from "./panel_scopes.js";
import { app, events, reload, select, session, sessionId, totals, user } from "./store.js";

const pretty = (value) => writeJson(value, 2);

async function write(key, value) {
  await api.patch(sessionPath(app.value, user.value, sessionId.value), { stateDelta: { [key]: value } });
  await reload();
}

export function StatePanel() {
  const [search, setSearch] = useState("");
  const [adding, setAdding] = useState(false);
  if (!session.value) return html`<${Empty} title="No session is open">Open a session: here stands its state, and which event wrote each key.</${Empty}>`;
  const state = session.value.state ?? {};
  const wanted = search.trim().toLowerCase();
  const holds = (key) => !wanted || key.toLowerCase().includes(wanted) || (writeJson(state[key]) ?? "").toLowerCase().includes(wanted);
  const scopes = scopesOf(Object.fromEntries(Object.entries(state).filter(([key]) => holds(key))), events.value);
  const complete = events.value.length >= totals.value.events;
  return html`
    <div class="state pad">
      <div class="tools">
        <input type="search" aria-label="Search keys and values" placeholder="Search keys and values" value=${search} onInput=${(typing) => setSearch(typing.target.value)} />
        <button type="button" class="quiet" onClick=${() => setAdding(true)} disabled=${adding}><${Icon} name="add" />Add a key</button>
      </div>
      ${adding && html`<${Editor} state=${state} onDone=${() => setAdding(false)} />`}
      ${scopes.map(({ scope, entries }) => html`
        <section key=${scope.id} class="scope" aria-label=${`${scope.title} state`}>
          <h3>${scope.title} <span class="muted">${scope.hint}</span></h3>
          ${entries.map((entry) => html`<${Key} key=${entry.key} entry=${entry} complete=${complete} />`)}
        </section>`)}
      ${!scopes.length && !adding && (wanted
        ? html`<p class="muted">Nothing of the state has “${search}” in it.</p>`
        : html`<${Empty} title="The state is empty">Agents, tools and callbacks write it; or add a key here.</${Empty}>`)}
    </div>`;
}

function Key({ entry, complete }) {
  const [editing, setEditing] = useState(false);
  const { key, name, value, writer, earlier } = entry;
  const text = pretty(value) ?? "null";
  const inLine = !text.includes("\n") && text.length <= 80;
  return html`
    <article class="key" data-testid="state-key" data-key=${key}>
      <header>
        <h4 class="mono">${short(name)}</h4>
        ${inLine && !editing && html`<code class=${`value value-${value === null ? "null" : isNumber(value) ? "number" : typeof value}`}>${text}</code>`}
        <button type="button" class="icon-button" aria-label=${`Edit ${key}`} title="Edit" onClick=${() => setEditing(!editing)}><${Icon} name="edit" /></button>
      </header>
      ${!inLine && !editing && html`<details open=${text.length < 400}><summary class="muted">${Array.isArray(value) ? `list of ${value.length}` : typeof value}</summary><div class="says says-data"><${LongText} text=${text} mono /></div></details>`}
      ${editing && html`<${Editor} keyName=${key} value=${value} onDone=${() => setEditing(false)} />`}
      <p class="writer muted">${writer
        ? html`written by <${Writer} event=${writer} />${earlier.length > 0 && html`, ${earlier.length === 1 ? "once" : `${earlier.length} times`} before`}`
        : complete ? "there when the session began, or written by another session" : "written by none of the events in memory"}</p>
    </article>`;
}

const Writer = ({ event }) => html`<button type="button" class="link" title=${`${exact(event.timestamp)} · event ${event.id}`} onClick=${() => select(event.id, { replace: false })}>${event.author} at ${time(event.timestamp)}</button>`;

/** A key's value as JSON; without `keyName` of a new key. */
function Editor({ keyName, value, state, onDone }) {
  const [name, setName] = useState("");
  const [text, setText] = useState(keyName === undefined ? "" : pretty(value));
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const save = async (submitted) => {
    submitted.preventDefault();
    const wrongName = keyName === undefined ? keyProblem(name, state) : "";
    const read = readValue(text);
    if (wrongName || read.error) return setError(wrongName || read.error);
    setBusy(true);
    try {
      await write(keyName ?? name.trim(), read.value);
      onDone();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  const keys = (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      onDone();
    }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save(event);
  };
  return html`
    <form class="editor" onSubmit=${save} onKeyDown=${keys}>
      ${keyName === undefined && html`<label>Key <input type="text" class="mono" value=${name} placeholder="city, user:name, app:version" onInput=${(typing) => setName(typing.target.value)} ref=${focusOnce} /></label>`}
      <label>Value, as JSON
        <textarea class=${classes("mono", error && "wrong")} rows=${Math.min(12, Math.max(2, text.split("\n").length))} value=${text}
          onInput=${(typing) => setText(typing.target.value)} ref=${keyName === undefined ? undefined : focusOnce}></textarea></label>
      ${error && (typeof error === "string" ? html`<p class="form-error" role="alert">${error}</p>` : html`<${Problem} error=${error} />`)}
      <div class="tools"><button type="submit" class="primary" disabled=${busy}>Save</button><button type="button" class="quiet" onClick=${onDone}>Cancel</button></div>
    </form>`;
}

const focusOnce = (node) => {
  if (node && !node.dataset.seen) {
    node.dataset.seen = "yes";
    node.focus();
  }
};
