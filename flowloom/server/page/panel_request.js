// The request inspector: what a model was asked, and which processor wrote which piece of it.

import { api, devSessionPath } from "./api.js";
import { classes, html, useEffect, useState } from "./html.js";
import { exact, time } from "./numbers.js";
import { Copy, Empty, Long, Problem } from "./parts.js";
import { linesOf, textsOf } from "./panel_diff.js";
import { Legend, Pieces, hueClass, huesOf, visible } from "./panel_pieces.js";
import { curlOf, pretty, warningsOf } from "./panel_sections.js";
import { app, events, openedId, select, selected, user } from "./store.js";

/** Whether an event is what a model said: then there is a request that led to it. */
const isAnswer = (event) => event.author !== "user" && !event.partial && event.content?.role !== "user" &&
  Boolean(event.content ?? event.errorCode ?? event.usageMetadata);

/** The answer that is inspected: the selected one, else the last before what is selected, else the last. */
function inspected(answers) {
  const id = selected.value;
  const at = answers.findIndex((event) => event.id === id);
  if (at >= 0) return at;
  const place = events.value.findIndex((event) => event.id === id);
  const before = answers.filter((event) => events.value.indexOf(event) < place).length;
  return (place >= 0 && before ? before : answers.length) - 1;
}

const known = new Map();

/** The assembly that led to an event: `{assembly}` (null if the server keeps none), `{error}`, or `{}` while it is asked for. */
function useRequest(id) {
  const [held, setHeld] = useState({});
  const path = id && openedId.value && `${devSessionPath(app.value, user.value, openedId.value)}/events/${encodeURIComponent(id)}/request`;
  useEffect(() => {
    if (!path) return setHeld({});
    if (known.has(path)) return setHeld({ assembly: known.get(path) });
    let left = false;
    setHeld({});
    api.get(path).then(
      (assembly) => {
        if (assembly) known.set(path, assembly);
        if (known.size > 50) known.delete(known.keys().next().value);
        if (!left) setHeld({ assembly });
      },
      (error) => left || setHeld({ error }),
    );
    return () => (left = true);
  }, [path]);
  return held;
}

export function RequestInspector() {
  const [dry, setDry] = useState(null);
  const [chosen, setChosen] = useState("");
  const answers = events.value.filter(isAnswer);
  const at = inspected(answers);
  const event = answers[at];
  const { assembly, error } = useRequest(event?.id);
  useEffect(() => setDry(null), [event?.id, openedId.value]);
  if (!openedId.value) {
    return html`<${Empty} title="No session is open">Open a session, or send a message: here stands what the model was asked then, and who wrote which piece of it.</${Empty}>`;
  }
  const shown = dry ?? assembly;
  return html`
    <div class="inspector" data-testid="request">
      ${event && html`<${Calls} answers=${answers} at=${at} />`}
      <${DryRun} onShow=${setDry} />
      ${dry && html`<p class="banner" role="status">What the next message would send. Nothing was sent or stored.
        ${event && html`<button type="button" class="link" onClick=${() => setDry(null)}>Back to the call</button>`}</p>`}
      ${!dry && (assembly === null || error?.status === 404) && html`<${Empty} title="The server keeps no request for this event">It was made before the server was started, or longer ago than the server keeps.</${Empty}>`}
      ${!dry && error && error.status !== 404 && html`<${Problem} error=${error} />`}
      ${!event && !dry && html`<${Empty} title="No model was asked yet">Send a message, or see with a dry run what it would send.</${Empty}>`}
      ${event && !dry && assembly === undefined && !error && html`<p class="muted pad" role="status">Loading the request…</p>`}
      ${shown && html`<${Request} assembly=${shown} chosen=${chosen} onChoose=${setChosen} />`}
    </div>`;
}

/** The model calls of the session, to go from one to the next. */
const Calls = ({ answers, at }) => html`
  <div class="calls">
    <button type="button" class="quiet" disabled=${at <= 0} aria-label="Previous model call" onClick=${() => select(answers[at - 1].id)}>‹</button>
    <select aria-label="Model call" value=${answers[at].id} onChange=${(change) => select(change.target.value)}>
      ${answers.map((event, index) => html`<option key=${event.id} value=${event.id} title=${exact(event.timestamp)}>
        ${index + 1} of ${answers.length} · ${event.author} · ${time(event.timestamp)}</option>`)}
    </select>
    <button type="button" class="quiet" disabled=${at >= answers.length - 1} aria-label="Next model call" onClick=${() => select(answers[at + 1].id)}>›</button>
  </div>
`;

function Request({ assembly, chosen, onChoose }) {
  const warnings = warningsOf(assembly);
  const there = chosen && assembly.steps.some(({ name }) => name === chosen) ? chosen : "";
  return html`
    <header class="inspector-head">
      <h3>${assembly.agent} <span class="muted">asks</span> ${assembly.request.model ?? "no model"}
        <span class="muted"> step ${assembly.step + 1}</span></h3>
      <span class="inspector-copy">
        <${Copy} label="Copy JSON" text=${() => pretty(assembly.request)} />
        <span title="The call in the form of the Gemini API; the key is taken from the environment"><${Copy} label="Copy curl" text=${() => curlOf(assembly.request)} /></span>
      </span>
    </header>
    ${warnings.map((warning) => html`<p class="banner warn" role="note">${warning}</p>`)}
    ${assembly.difference && html`<${Difference} assembly=${assembly} />`}
    <div class="inspector-body">
      <${Legend} assembly=${assembly} chosen=${there} onChoose=${onChoose} />
      <div class="inspector-pieces"><${Pieces} assembly=${assembly} chosen=${there} onChoose=${onChoose} /></div>
    </div>`;
}

/** What is different from the agent's call before, in one line; unfolded, line by line. */
function Difference({ assembly }) {
  const [open, setOpen] = useState(false);
  const { differences, prefix_broken_by: broken, contents_kept: kept, older_contents: contents } = assembly.difference;
  const hues = huesOf(assembly);
  const breaker = differences.find(({ path }) => path === broken)?.by;
  const amounts = ["added", "changed", "removed"]
    .map((kind) => [differences.filter((each) => each.kind === kind).length, kind])
    .filter(([amount]) => amount)
    .map(([amount, kind]) => `${amount} ${kind}`);
  return html`
    <details class="difference" data-testid="request-diff" open=${open} onToggle=${(change) => setOpen(change.target.open)}>
      <summary>Difference from the previous call <span class="muted">${amounts.join(", ") || "none"}</span></summary>
      ${open && html`
        <p class=${classes("banner", broken && "warn")}>${broken
          ? html`A provider's cache of the call before does not hold: it ends at <code>${broken}</code>${breaker && html`, which ${breaker} wrote`}.`
          : `A provider's cache of the call before holds: ${kept} of ${contents} contents are the same.`}</p>
        ${differences.map((each) => html`
          <article class=${classes("piece", hueClass(hues.get(each.by)))} key=${each.path + each.kind}>
            <header><span class=${`diff-kind diff-${each.kind}`}>${each.kind}</span><span class="path mono">${each.path}</span>
              <span class=${classes("by", hueClass(hues.get(each.by)))}>${each.by ?? "author not known"}</span></header>
            <${Lines} difference=${each} />
          </article>`)}`}
    </details>`;
}

const SIGNS = { same: " ", added: "+", removed: "−" };

function Lines({ difference }) {
  const lines = linesOf(...textsOf(difference));
  const near = lines.map((_, index) => lines.slice(Math.max(0, index - 2), index + 3).some(({ kind }) => kind !== "same"));
  return html`<pre class="lines mono" tabindex="0">${lines.map(({ kind, text }, index) => near[index]
    ? html`<span class=${`line line-${kind}`}><span class="sign">${SIGNS[kind]}</span><${Long} text=${visible(text)} most=${2000} />${"\n"}</span>`
    : near[index - 1] && html`<span class="line muted">…${"\n"}</span>`)}</pre>`;
}

/** What the next message would send: put together on the server, where nothing is sent or stored. */
function DryRun({ onShow }) {
  const [text, setText] = useState("");
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const run = async (submitted) => {
    submitted.preventDefault();
    setBusy(true);
    setError(null);
    const newMessage = text.trim() ? { role: "user", parts: [{ text }] } : null;
    try {
      onShow(await api.post(`${devSessionPath(app.value, user.value, openedId.value)}/explain`, { newMessage }));
    } catch (failure) {
      setError(failure);
    }
    setBusy(false);
  };
  return html`
    <details class="dry-run" data-testid="dry-run">
      <summary>Dry run <span class="muted">what the next message would send</span></summary>
      <form onSubmit=${run}>
        <label for="dry-run-text">The next message</label>
        <textarea id="dry-run-text" rows="2" value=${text} onInput=${(typing) => setText(typing.target.value)}
          placeholder="Empty: the run goes on with the history as it is"
          onKeyDown=${(key) => key.key === "Enter" && (key.ctrlKey || key.metaKey) && run(key)}></textarea>
        <button type="submit" class="primary" disabled=${busy}>${busy ? "Putting it together…" : "Show the request"}</button>
      </form>
      ${error && html`<${Problem} error=${error} />`}
    </details>`;
}
