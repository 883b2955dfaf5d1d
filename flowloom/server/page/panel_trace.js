// The run: its spans as a tree with bars, the critical path, and what each agent used.

import { useAnswer } from "./answer.js";
import { devSessionPath } from "./api.js";
import { classes, html, useEffect, useRef, useState } from "./html.js";
import { hueOf } from "./hues.js";
import { count, time } from "./numbers.js";
import { Empty, Json, Problem } from "./parts.js";
import { costOf, runsOf, totalOf, visibleRows } from "./panel_spans.js";
import { prefs } from "./prefs.js";
import { go, openTab, query } from "./router.js";
import { app, eventOf, openedId, running, select, settled, user } from "./store.js";

const KIND_NAMES = { agent: "agent", model: "model", tool: "tool", processor: "processor", other: "span" };
const FIRST_ROWS = 400;
/** The share of a run from which on a span is marked as critical: a microsecond is of no concern. */
const SEEN = 0.01;

/** Milliseconds for people: `84 µs`, `4.2 ms`, `1.31 s`. */
export function span(milliseconds) {
  if (milliseconds < 1) return `${Math.round(milliseconds * 1000)} µs`;
  if (milliseconds < 1000) return `${milliseconds.toFixed(milliseconds < 10 ? 1 : 0)} ms`;
  return milliseconds < 60000 ? `${(milliseconds / 1000).toFixed(2)} s` : `${(milliseconds / 60000).toFixed(1)} min`;
}

function useTrace() {
  const path = openedId.value && `${devSessionPath(app.value, user.value, openedId.value)}/trace`;
  const { value: runs, error } = useAnswer(path, [settled.value, running.value], runsOf);
  return { runs, error };
}

export function RunPanel() {
  const { runs, error } = useTrace();
  const [shown, setShown] = useState("");
  const [processors, setProcessors] = useState(true);
  if (!openedId.value) {
    return html`<${Empty} title="No session is open">Open a session, or send a message: here stands what ran, for how long, and what it used.</${Empty}>`;
  }
  if (error) {
    return html`<div class="pad"><${Problem} error=${error}>${error.status === 404 ? "The server keeps no trace of this session." : ""}</${Problem}></div>`;
  }
  if (!runs) return html`<p class="muted pad" role="status">Loading the trace…</p>`;
  if (!runs.length) return html`<${Empty} title="Nothing has run yet">Send a message. Traces are kept in memory: those from before a restart of the server are gone.</${Empty}>`;
  const wanted = query.value.span;
  const run = runs.find(({ id }) => id === shown) ?? runs.find(({ rows }) => rows.some((row) => row.span.id === wanted)) ?? runs.at(-1);
  const rows = processors ? run.rows : run.rows.filter((row) => row.span.kind !== "processor");
  const some = run.rows.some((row) => row.span.kind === "processor");
  return html`
    <div class="trace" data-testid="trace">
      <div class="trace-bar">
        <label>Run <select value=${run.id} onChange=${(change) => setShown(change.target.value)}>
          ${runs.map((each, index) => html`<option key=${each.id} value=${each.id}>${index + 1} of ${runs.length} · ${time(each.start / 1000)} · ${span(each.length)}</option>`)}
        </select></label>
        ${some && html`<label class="check"><input type="checkbox" checked=${processors} onChange=${(change) => setProcessors(change.target.checked)} /> processors</label>`}
        <span class="muted trace-key"><i class="critical-mark" aria-hidden="true"></i> critical path</span>
      </div>
      <${Usage} run=${run} />
      <${Tree} key=${run.id} rows=${rows} length=${run.length} wanted=${wanted} />
    </div>`;
}

/** What each agent used, and all of them together. */
function Usage({ run }) {
  const { prices } = prefs.value;
  const row = (usage, name, total) => {
    const cost = costOf(usage, prices);
    return html`<tr key=${name} data-testid=${total ? "usage-total" : undefined} class=${total ? "total" : ""}>
      <th scope="row">${total ? name : html`<i class=${`dot hue-${hueOf(name)}`} aria-hidden="true"></i>${name || "no agent"}`}</th>
      <td>${usage.modelCalls}</td><td>${usage.toolCalls}</td>
      <td>${count(usage.input)}${usage.cached > 0 && html`<small class="muted"> ${count(usage.cached)} cached</small>`}</td>
      <td>${count(usage.output)}${usage.reasoning > 0 && html`<small class="muted"> ${count(usage.reasoning)} thoughts</small>`}</td>
      <td>${span(usage.modelTime + usage.toolTime)}</td>
      <td>${cost === null ? html`<span class="muted" title="No price is known for the model: see the settings">–</span>` : `$${cost.toFixed(cost < 0.1 ? 4 : 2)}`}</td>
    </tr>`;
  };
  if (!run.usage.length) return null;
  return html`
    <div class="usage" tabindex="0" role="region" aria-label="What was used">
      <table>
        <thead><tr><th scope="col">Agent</th><th scope="col">Models</th><th scope="col">Tools</th><th scope="col">Tokens in</th><th scope="col">out</th><th scope="col">Time</th><th scope="col">Cost</th></tr></thead>
        <tbody>${run.usage.map((usage) => row(usage, usage.agent, false))}</tbody>
        <tfoot>${row(totalOf(run.usage), "Together", true)}</tfoot>
      </table>
      ${run.usage.some((usage) => usage.modelCalls && costOf(usage, prices) === null) && html`
        <p class="muted">Costs are shown once the price of the model is known.
          <button type="button" class="link" onClick=${() => openTab("settings")}>Set prices</button></p>`}
    </div>`;
}

function Tree({ rows, length, wanted }) {
  const [closed, setClosed] = useState(new Set());
  const [most, setMost] = useState(FIRST_ROWS);
  const tree = useRef();
  const shown = visibleRows(rows, closed);
  const chosen = rows.find((row) => row.span.id === wanted);
  useEffect(() => tree.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" }), [wanted]);
  const fold = (row, shut) => {
    const next = new Set(closed);
    if (shut) next.add(row.span.id);
    else next.delete(row.span.id);
    setClosed(next);
  };
  const choose = (row) => go({ query: { span: row.span.id } }, { replace: true });
  const focus = (row) => requestAnimationFrame(() => document.getElementById(`span-${row?.span.id}`)?.focus());
  const keys = (event, row, index) => {
    const open = row.parent && !closed.has(row.span.id);
    const acts = {
      ArrowDown: () => focus(shown[index + 1]),
      ArrowUp: () => focus(shown[index - 1]),
      ArrowRight: () => (row.parent && !open ? fold(row, false) : focus(shown[index + 1])),
      ArrowLeft: () => (open ? fold(row, true) : focus(shown.slice(0, index).findLast(({ depth }) => depth < row.depth))),
      Home: () => focus(shown[0]),
      End: () => focus(shown.at(-1)),
      Enter: () => choose(row),
      " ": () => choose(row),
    };
    if (!acts[event.key] || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    acts[event.key]();
  };
  const first = shown.some((row) => row === chosen) ? chosen : shown[0];
  return html`
    <div class="spans" role="tree" aria-label="Spans" ref=${tree}>
      ${shown.slice(0, most).map((row, index) => html`<${Row} key=${row.span.id} row=${row} length=${length}
        chosen=${row === chosen} reachable=${row === first} closed=${closed.has(row.span.id)}
        onFold=${fold} onChoose=${choose} onKey=${(event) => keys(event, row, index)} />`)}
    </div>
    ${shown.length > most && html`<button type="button" class="quiet" onClick=${() => setMost(most * 4)}>Show ${shown.length - most} more spans</button>`}
    ${chosen && html`<${Details} row=${chosen} />`}`;
}

/** What the call of a tool has asked for before it runs, in a word; undefined if nothing. */
function askedBy({ kind, eventId, attributes }) {
  const actions = kind === "tool" && eventId ? eventOf(eventId)?.actions : null;
  const id = attributes["gen_ai.tool.call.id"];
  if (actions?.requestedToolConfirmations?.[id]) return "asked for approval";
  return actions?.requestedAuthConfigs?.[id] ? "asked for a login" : undefined;
}

function Row({ row, length, chosen, reachable, closed, onFold, onChoose, onKey }) {
  const { span: each, depth, agent, from, to, parent } = row;
  const critical = row.critical && to - from >= length * SEEN;
  const share = (value) => `${(100 * value) / (length || 1)}%`;
  const asked = askedBy(each);
  const said = [KIND_NAMES[each.kind], span(to - from), critical && "on the critical path", asked, each.error && `failed: ${each.error.type}`];
  return html`
    <div class=${classes("span-row", `span-${each.kind}`, chosen && "chosen", critical && "critical", each.error && "span-failed", `hue-${hueOf(agent ?? "")}`)}
      role="treeitem" data-testid="span-row" id=${`span-${each.id}`} aria-level=${depth + 1} aria-selected=${String(chosen)}
      aria-expanded=${parent ? String(!closed) : undefined} tabindex=${reachable ? 0 : -1}
      aria-label=${`${each.name}, ${said.filter(Boolean).join(", ")}`} onClick=${() => onChoose(row)} onKeyDown=${onKey}>
      <span class="span-name" style=${{ paddingInlineStart: `${depth * 0.875}rem` }}>
        <span class=${classes("twist", parent && !closed && "open")} aria-hidden="true" onClick=${(click) => {
          if (!parent) return;
          click.stopPropagation();
          onFold(row, !closed);
        }}>${parent ? "▸" : ""}</span>
        <span class="span-title" title=${each.name}>${each.name}</span>
        ${asked && html`<span class="asked" title=${asked}>asked</span>`}
        ${each.error && html`<span class="bad" title=${`${each.error.type}: ${each.error.message ?? ""}`}>failed</span>`}
      </span>
      <span class="span-track" aria-hidden="true"><span class="span-bar" style=${{ insetInlineStart: share(from), width: share(to - from) }}></span></span>
      <span class="span-time mono">${critical && html`<i class="critical-mark"></i>`}${span(to - from)}</span>
    </div>`;
}

function Details({ row }) {
  const { span: each, agent } = row;
  const known = each.eventId && eventOf(each.eventId);
  return html`
    <section class="span-details" aria-label="The chosen span">
      <h4>${each.name}</h4>
      <p class="muted">${[agent && `agent ${agent}`, `from ${span(row.from)} to ${span(row.to)}`, row.critical && "on the critical path"].filter(Boolean).join(" · ")}</p>
      ${known && html`<p><button type="button" class="quiet" onClick=${() => select(each.eventId)}>Show in chat</button>
        <button type="button" class="quiet" onClick=${() => go({ event: each.eventId, query: { tab: "request" } })}>Its request</button></p>`}
      <${Json} value=${{ ...each.attributes, ...(each.error ? { error: each.error } : {}), spanId: each.id }} />
    </section>`;
}
