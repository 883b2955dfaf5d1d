// The timeline: one row for each event in memory, whatever it is.

import { classes, computed, html, signal, useMemo } from "./html.js";
import { CONFIRMATION, CREDENTIAL, hasFailed, INPUT, requestsIn, responsesOf } from "./chat_rows.js";
import { textOf } from "./joined.js";
import { hueOf } from "./hues.js";
import { writeJson } from "./json.js";
import { count, counted, duration, exact, size, time } from "./numbers.js";
import { Copy, Empty, Icon, IconButton, Json, short } from "./parts.js";
import { addressOf } from "./router.js";
import { entries, hidden, loadOlder, reveal, select, selected, totals } from "./store.js";
import { Windowed } from "./windowed.js";

const kind = signal("");
const author = signal("");
const text = signal("");
const opened = signal(new Set());

/** What an event is, in a word. */
export function kindOf(event) {
  const parts = event.content?.parts ?? [];
  if (event.errorCode || event.errorMessage) return "error";
  if (parts.some((part) => part.functionCall?.name?.startsWith("adk_request_"))) return "request";
  if (parts.some((part) => part.functionCall)) return "call";
  if (parts.some((part) => part.functionResponse)) return "result";
  if (parts.some((part) => part.text && !part.thought)) return event.author === "user" ? "user" : "text";
  if (parts.some((part) => part.thought)) return "thought";
  if (parts.length) return "file";
  if (event.actions?.transferToAgent) return "transfer";
  if (Object.keys(event.actions?.artifactDelta ?? {}).length) return "artifact";
  if (Object.keys(event.actions?.stateDelta ?? {}).length) return "state";
  if (event.customMetadata?.compaction || event.actions?.compaction) return "summary";
  return "other";
}

const ASKS = { [CONFIRMATION]: "asks for approval", [INPUT]: "asks a question", [CREDENTIAL]: "asks for a credential" };

/** An event in one line; `asks` is the request to a person that its result stands for. */
function wordsOf(event, asks) {
  const parts = event.content?.parts ?? [];
  const call = parts.find((part) => part.functionCall)?.functionCall;
  const response = parts.find((part) => part.functionResponse)?.functionResponse;
  if (event.errorCode || event.errorMessage) return `${event.errorCode ?? ""} ${event.errorMessage ?? ""}`.trim().slice(0, 200);
  if (call) return `${short(call.name, 80)}(${writeJson(call.args ?? {}).slice(1, 120).replace(/}$/, "")})`;
  if (response && asks) return `${short(response.name, 80)} → ${ASKS[asks]}`;
  if (response) return `${short(response.name, 80)} → ${hasFailed(response) ? "failed: " : ""}${writeJson(response.response ?? null)}`.slice(0, 160);
  const words = textOf(event) || parts.map((part) => part.text ?? "").join("");
  if (words) return words.slice(0, 200);
  if (event.actions?.transferToAgent) return `to ${event.actions.transferToAgent}`;
  const changed = [...Object.keys(event.actions?.stateDelta ?? {}), ...Object.keys(event.actions?.artifactDelta ?? {})];
  return changed.join(", ");
}

const sizes = new WeakMap();
function sizeOf(event) {
  if (!sizes.has(event)) sizes.set(event, writeJson(event).length);
  return sizes.get(event);
}

const all = computed(() => {
  let before = null;
  const open = new Map([...requestsIn(entries.value).values()].map(({ call, subject }) => [subject.id, call]));
  return entries.value.map((entry) => {
    const { event } = entry;
    const responses = responsesOf(event);
    for (const [subject, { id }] of open) if (responses.some((each) => each.id === id)) open.delete(subject);
    const asks = responses.map((each) => open.get(each.id)?.name).find(Boolean);
    const took = before && before.invocationId === event.invocationId ? event.timestamp - before.timestamp : undefined;
    before = event;
    return { key: entry.key, entry, event, kind: kindOf(event), took, asks };
  });
});

const kinds = computed(() => [...new Set(all.value.map((row) => row.kind))].sort());
const authors = computed(() => [...new Set(all.value.map((row) => row.event.author).filter(Boolean))].sort());

const rows = computed(() => {
  const [wantedKind, wantedAuthor, words] = [kind.value, author.value, text.value.trim().toLowerCase()];
  if (!wantedKind && !wantedAuthor && !words) return all.value;
  return all.value.filter(
    (row) =>
      (!wantedKind || row.kind === wantedKind) &&
      (!wantedAuthor || row.event.author === wantedAuthor) &&
      (!words || writeJson(row.event).toLowerCase().includes(words)),
  );
});

/** Select the event that stands so many rows further on. */
export function stepEvent(by) {
  const list = rows.value;
  const at = list.findIndex((row) => row.event.id === selected.value);
  const to = at < 0 ? (by > 0 ? 0 : list.length - 1) : at + by;
  if (list[to]) select(list[to].event.id);
}

/** Open or close the JSON of the selected event. */
export function toggle(key) {
  const next = new Set(opened.value);
  if (!next.delete(key)) next.add(key);
  opened.value = next;
}

function Row({ row, open, chosen }) {
  const { event, key } = row;
  const press = () => {
    select(event.id);
    toggle(key);
  };
  const hue = hueOf(event.author);
  return useMemo(() => {
    const usage = event.usageMetadata;
    const tokens = usage?.totalTokenCount ?? (usage ? (usage.promptTokenCount ?? 0) + (usage.candidatesTokenCount ?? 0) : 0);
    return html`
      <div class=${classes("event", chosen && "chosen", open && "open")} data-testid="event-row" data-event=${event.id} data-kind=${row.kind}>
        <button type="button" class="event-line" data-focus aria-expanded=${String(open)} aria-current=${chosen ? "true" : undefined} onClick=${press}>
          <time title=${exact(event.timestamp)}>${time(event.timestamp)}</time>
          <span class="event-author author" data-hue=${hue}><bdi>${event.author || "server"}</bdi></span>
          <span class=${`kind ${row.kind}`}>${row.kind}</span>
          <span class="event-words" dir="auto">${wordsOf(event, row.asks)}</span>
          <span class="event-numbers">
            ${tokens > 0 && html`<span title="tokens">${count(tokens)} tok</span>`}
            ${row.took > 0 && html`<span title="since the event before">${duration(row.took)}</span>`}
            <span class="event-size" title="size as JSON">${size(sizeOf(event))}</span>
          </span>
        </button>
        ${open &&
        html`
          <div class="event-body">
            <div class="event-actions">
              <button type="button" class="quiet" onClick=${() => reveal(event.id)}><${Icon} name="link" />Show in chat</button>
              <${Copy} text=${() => writeJson(event, 2)} label="Copy JSON" />
              <${Copy} text=${() => location.origin + addressOf({ event: event.id })} label="Copy link" />
            </div>
            <${Json} value=${event} testid="event-json" />
          </div>
        `}
      </div>
    `;
  }, [row.entry, row.entry.version, row.took, row.asks, open, chosen, hue]);
}

let asking = false;

async function older() {
  if (asking || hidden.value.before === 0) return;
  asking = true;
  await loadOlder().catch(() => {});
  asking = false;
}

const Choice = ({ label, value, options }) => html`
  <select aria-label=${label} data-testid=${`event-filter-${label.toLowerCase()}`} value=${value.value} onChange=${(event) => (value.value = event.target.value)}>
    <option value="">${label}: all</option>
    ${options.map((each) => html`<option value=${each}>${each}</option>`)}
  </select>
`;

/** The panel. */
export function Timeline() {
  const list = rows.value;
  const goal = useMemo(() => (selected.value ? { key: selected.value, focus: () => !document.querySelector(".chat")?.checkVisibility() } : null), [selected.value]);
  const sums = totals.value;
  const filtered = Boolean(kind.value || author.value || text.value);
  const clear = () => (kind.value = author.value = text.value = "");
  return html`
    <div class="timeline" data-testid="timeline">
      <div class="filters" data-testid="event-filter" role="search" aria-label="Filter events">
        <${Choice} label="Kind" value=${kind} options=${kinds.value} />
        <${Choice} label="Author" value=${author} options=${authors.value} />
        <input type="search" aria-label="Text in events" placeholder="Text in events" data-testid="event-filter-text" value=${text.value} onInput=${(event) => (text.value = event.target.value)} />
        ${filtered && html`<${IconButton} name="close" label="Show all events" onClick=${clear} />`}
      </div>
      <p class="sums" data-testid="totals">
        ${counted(sums.events, "event")}${sums.tokens > 0 && ` · ${counted(sums.tokens, "token")}`}${sums.calls > 0 && ` · ${counted(sums.calls, "call")}`}${sums.errors > 0 && html` · <span class="bad">${counted(sums.errors, "error")}</span>`}
        ${filtered && ` · ${count(list.length)} shown`}${hidden.value.before > 0 && ` · the last ${count(all.value.length)} in memory`}
      </p>
      ${list.length === 0
        ? filtered
          ? html`<${Empty} title="Nothing fits the filter"><button type="button" onClick=${clear}>Show all events</button></${Empty}>`
          : html`<${Empty} title="No events yet">Send a message: each event of the run gets a row here.</${Empty}>`
        : html`<${Windowed} rows=${list} draw=${(row) => html`<${Row} row=${row} open=${opened.value.has(row.key)} chosen=${row.event.id === selected.value} />`} estimate=${37} follow goal=${goal} onStart=${older} label="Events" testid="events" />`}
    </div>
  `;
}
