// The chat: the rows of the session, what waits for a person, and the composer.

import { html, signal, useMemo } from "./html.js";
import { Waiting } from "./approvals.js";
import { chatRows } from "./chat_rows.js";
import { Composer } from "./composer.js";
import { ChatRow } from "./message.js";
import { count } from "./numbers.js";
import { Empty, Problem } from "./parts.js";
import { go } from "./router.js";
import { app, appError, apps, appsError, hidden, loading, loadNewest, loadOlder, revealed, run, selected, session, sessionError, sessionId } from "./store.js";
import { Windowed } from "./windowed.js";

let asking = false;
const returned = signal(0); // how often one went back to the newest events: the list begins at its end again

async function older() {
  if (asking || hidden.value.before === 0) return;
  asking = true;
  await loadOlder().catch(() => {});
  asking = false;
}

async function newest() {
  await loadNewest();
  returned.value += 1;
}

/** What stands where no message is yet. */
function Nothing() {
  if (appsError.value) return html`<${Problem} error=${appsError.value}>Is the server running? Start it with <code>flowloom web</code>, then reload this page.</${Problem}>`;
  if (apps.value?.length === 0) return html`<${Empty} title="No apps here">Make a folder with an <code>agent.py</code> that has a <code>root_agent</code>, and start <code>flowloom web</code> above it.</${Empty}>`;
  if (!app.value) return html`<${Empty} title="Choose an app">Every folder with an agent is one: choose it in the bar above.</${Empty}>`;
  if (["app_not_found", "forbidden"].includes(appError.value?.code)) {
    return html`<div class="broken"><${Problem} error=${appError.value}>Choose another one in the bar above.</${Problem}></div>`;
  }
  if (sessionError.value) {
    const gone = sessionError.value.status === 404;
    return html`
      <${Empty} title=${gone ? "There is no such session" : "The session does not open"}>
        ${gone ? `“${sessionId.value}” is not among the sessions of this user. Choose another one, or begin a new one. ` : `${sessionError.value.detail} `}
        <button type="button" onClick=${() => go({ session: "" })}>New session</button>
      </${Empty}>
    `;
  }
  if (loading.value) return html`<${Empty} title="Opening…" />`;
  if (appError.value) {
    return html`<div class="broken"><${Problem} error=${appError.value}>${appError.value.code === "agent_broken" ? "Mend the agent and send a message: it is loaded anew." : ""}</${Problem}>${appError.value.body?.traceback && html`<pre class="json" tabindex="0" data-testid="traceback">${appError.value.body.traceback}</pre>`}</div>`;
  }
  return html`<${Empty} title=${`Talk to ${app.value}`}>Write a message below. What the agent thinks, calls and answers appears here.</${Empty}>`;
}

/** What the connection is at, if it is not well. */
function Connection() {
  if (run.value?.state !== "reconnecting") return null;
  return html`<p class="connection" role="status" data-testid="reconnecting">The connection was lost. Trying to reconnect…</p>`;
}

export function Chat() {
  const { rows, rowOf } = chatRows.value;
  const key = rowOf.get(selected.value) ?? "";
  const goal = useMemo(() => (key ? { key, focus: () => true } : null), [key, selected.value, revealed.value]);
  const { before, atEnd } = hidden.value;
  const header = before > 0 && html`<button type="button" class="older quiet" onClick=${older}>Show earlier events (${count(before)})</button>`;
  return html`
    <main class="chat" data-testid="chat" aria-labelledby="chat-title">
      <h1 class="unseen" id="chat-title">Chat${session.value ? ` with ${app.value}` : ""}</h1>
      ${rows.length === 0
        ? html`<div class="nothing"><${Nothing} /></div>`
        : html`<${Windowed} key=${`${sessionId.value}:${returned.value}`} rows=${rows} draw=${(row) => html`<${ChatRow} row=${row} chosen=${row.key === key} />`} estimate=${96} follow ...${{ goal, header }} onStart=${older} label="Messages" testid="messages" />`}
      ${!atEnd && html`<button type="button" class="newest quiet" onClick=${newest}>Back to the newest events</button>`}
      <${Connection} />
      <${Waiting} />
      <${Composer} />
    </main>
  `;
}
