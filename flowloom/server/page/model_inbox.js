// Be the model: the requests that wait for a person, the one that is being answered, and what was sent.

import { classes, html, useEffect, useState } from "./html.js";
import { duration, exact, time } from "./numbers.js";
import { Empty, Json, Problem } from "./parts.js";
import { Answer } from "./model_answer.js";
import { RequestBlocks } from "./model_blocks.js";
import { choose, connected, current, failure, listen, sent, waiting } from "./model_store.js";
import { partLines } from "./panel_sections.js";
import { visible } from "./panel_pieces.js";
import { prefs, setPref } from "./prefs.js";

export function ModelPanel() {
  useEffect(listen, []);
  const all = waiting.value;
  if (failure.value?.status === 404) {
    return html`<${Empty} title="No person is asked here">This server has no requests for people. Give an agent the model <code>human</code>, or start the server with <code>--models human</code>.</${Empty}>`;
  }
  const request = current.value;
  return html`
    <div class="model" data-testid="model-panel">
      <aside class="inbox" data-testid="model-inbox" aria-label="Requests that wait">
        <header>
          <h3>Waiting <span class="badge">${all?.length ?? 0}</span></h3>
          <span class="wishes">
            <${Wish} name="sound" label="sound" /><${Wish} name="badge" label="title" />
          </span>
        </header>
        ${!connected.value && (all || failure.value) && html`<p class="banner warn" role="status">The connection is lost; trying again.</p>`}
        ${all?.length ? html`<ul>${all.map((each) => html`<${Waiting} key=${each.id} request=${each} chosen=${each === request} />`)}</ul>`
          : all && html`<p class="muted">No agent asks. Requests come when a run reaches a model that is a person.</p>`}
        <${Sent} />
      </aside>
      ${failure.value && !all && html`<${Problem} error=${failure.value} />`}
      ${request
        ? html`<div class="model-desk" key=${request.id}><${RequestBlocks} request=${request} /><${Answer} request=${request} /></div>`
        : all && html`<div class="model-desk"><${Empty} title="Nothing waits for you">Send a message in the chat, here or in another window: its request comes to this place, and you answer as the model.</${Empty}></div>`}
    </div>`;
}

const Wish = ({ name, label }) => html`
  <label class="check"><input type="checkbox" checked=${prefs.value[name]} onChange=${(change) => setPref(name, change.target.checked)} /> ${label}</label>`;

/** The time in seconds since 1970, anew each second. */
function useNow() {
  const [now, setNow] = useState(Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** What a request is about, in a line: what was said to the model last. */
function gistOf(request) {
  const content = request.assembly.request.contents?.at(-1);
  const line = (content?.parts ?? []).flatMap(partLines).at(-1);
  return line ? `${line.name ? `${line.name}: ` : ""}${line.text}`.replace(/\s+/g, " ").slice(0, 140) : "";
}

function Waiting({ request, chosen }) {
  const now = useNow();
  const left = request.expires_at === null ? null : request.expires_at - now;
  return html`
    <li><button type="button" class=${classes("inbox-row", chosen && "chosen")} aria-current=${chosen ? "true" : undefined} onClick=${() => choose(request.id)}>
      <b>${request.agent ?? "An agent"}</b>
      <span class="muted inbox-time" title=${`since ${exact(request.came_at)}`}>${duration(Math.max(0, Math.floor(now - request.came_at)) || 0)}${left !== null && html`<span class=${left < 30 ? "bad" : ""}> · ${duration(Math.max(0, Math.floor(left)))} left</span>`}</span>
      <span class="inbox-gist" dir="auto">${visible(gistOf(request))}</span>
    </button></li>`;
}

const STATES = { answered: "answered", failed: "failed, as you said", cancelled: "withdrawn: its run ended", "timed out": "timed out" };

/** What was sent, and what became of it. */
function Sent() {
  if (!sent.value.length) return null;
  return html`
    <details class="sent-list" data-testid="model-sent" open>
      <summary>Sent <span class="muted">${sent.value.length}</span></summary>
      <ul>${sent.value.map((entry) => html`
        <li key=${entry.id}><details>
          <summary><b>${entry.agent ?? "An agent"}</b> <span class="muted">${time(entry.at)}</span>
            <span class=${classes("outcome", `outcome-${entry.state.replace(" ", "-")}`)}>${STATES[entry.state] ?? entry.state}</span></summary>
          ${entry.detail && html`<p>${entry.detail}</p>`}
          ${entry.answer ? html`<${Json} value=${entry.answer} />` : html`<p class="muted">Not answered from this window.</p>`}
        </details></li>`)}</ul>
    </details>`;
}
