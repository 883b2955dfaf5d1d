// One message of the chat: its text, thoughts, calls, sources, files, and what went wrong.

import { classes, html, useMemo, useState } from "./html.js";
import { api, sessionPath } from "./api.js";
import { Approval } from "./approvals.js";
import { isRequest } from "./chat_rows.js";
import { sourcesOf, withCitations } from "./chat_sources.js";
import { writeJson } from "./json.js";
import { Link, markdown } from "./markdown.js";
import { hueOf } from "./hues.js";
import { duration, exact, size, time } from "./numbers.js";
import { Blocks, Copy, Held, Icon, IconButton, Json, LONG, Long, short } from "./parts.js";
import { addressOf, openTab } from "./router.js";
import { send } from "./runs.js";
import { app, change, running, select, sessionId, user } from "./store.js";

const HEAD = LONG; // characters of a long text that are shown at once, and of its end
const TAIL = 5000;

/** A text of a model, or of the user: Markdown, or as it is. */
function Text({ text, plain, at }) {
  const [all, setAll] = useState(false);
  const draw = (piece, styled) => (styled ? markdown(piece, at) : html`<p class="plain"><${Blocks} text=${piece} /></p>`);
  if (text.length <= HEAD + TAIL || all) return html`<div class="message-text" dir="auto" data-testid="message-text">${draw(text, !plain && text.length <= HEAD + TAIL)}</div>`;
  return html`
    <div class="message-text" dir="auto" data-testid="message-text">
      ${draw(text.slice(0, HEAD), !plain)}
      <button type="button" class="quiet" onClick=${() => setAll(true)}>Show the ${size(text.length - HEAD - TAIL)} between</button>
      <p class="plain">${text.slice(-TAIL)}</p>
    </div>
  `;
}

/** Thoughts: open while they stream, closed once the answer begins; as one leaves them after that. */
function Thought({ text, streaming }) {
  const [chosen, setChosen] = useState(null);
  const open = chosen ?? streaming;
  return html`
    <div class=${classes("thought", open && "open")} data-testid="thought">
      <button type="button" class="fold" aria-expanded=${String(open)} onClick=${() => setChosen(!open)}>
        <${Icon} name="chevron" />${streaming ? "Thinking…" : "Thoughts"}
      </button>
      ${open && html`<div class="thought-text" dir="auto"><${Long} text=${text} /></div>`}
    </div>
  `;
}

const STATUS = {
  done: ["check", "done"],
  failed: ["warn", "failed"],
  waiting: ["user", "waits for you"],
  running: ["retry", "running"],
  open: ["stop", "no result"],
};

/** A tool call as a chip that opens to its arguments and result. */
function ToolCall({ call, status, result, event }) {
  const [open, setOpen] = useState(false);
  const [icon, word] = STATUS[status];
  const took = result && status !== "waiting" ? duration(Math.max(0, result.event.timestamp - event.timestamp)) : "";
  const args = Object.entries(call.args ?? {})
    .map(([name, value]) => `${short(name)}: ${short(typeof value === "string" ? value : writeJson(value))}`)
    .join(", ");
  return html`
    <div class=${classes("tool", status, open && "open")} data-testid="tool-call" data-status=${status}>
      <button type="button" class="chip" aria-expanded=${String(open)} onClick=${() => setOpen(!open)}>
        <span class="chip-status"><${Icon} name=${icon} /></span>
        <span class="chip-name">${short(call.name, 80)}</span>
        <span class="chip-args" dir="auto">${args.slice(0, 120)}</span>
        <span class="chip-word">${word}${took && ` · ${took}`}</span>
        <${Icon} name="chevron" />
      </button>
      ${open &&
      html`
        <div class="tool-body">
          <p class="label">Arguments</p>
          <${Json} value=${call.args ?? {}} />
          <p class="label">Result</p>
          ${result ? html`<${Json} value=${result.response.response ?? null} testid="tool-result" />` : html`<p class="muted">None yet.</p>`}
        </div>
      `}
    </div>
  `;
}

const dataOf = ({ data, mimeType }) => `data:${mimeType};base64,${data.replaceAll("-", "+").replaceAll("_", "/")}`;

/** An image, a sound or a film in place; any other file as something to download. */
function File({ blob, name }) {
  const kind = (blob.mimeType ?? "").split("/")[0];
  const title = name || blob.displayName || "file";
  if (!blob.data) return html`<p class="file"><${Icon} name="file" />${title} <span class="muted">no data</span></p>`;
  const href = dataOf(blob);
  if (kind === "image" && blob.mimeType !== "image/svg+xml") return html`<img class="file-image" src=${href} alt=${title} />`;
  if (kind === "audio") return html`<audio controls src=${href} aria-label=${title} />`;
  if (kind === "video") return html`<video controls src=${href} aria-label=${title} />`;
  return html`<a class="file" href=${href} download=${title}><${Icon} name="file" />${title} <span class="muted">${size((blob.data.length * 3) / 4)}</span></a>`;
}

/** An artifact that an event saved: loaded when one asks for it. */
function Artifact({ name, version }) {
  const [part, setPart] = useState(null);
  const [error, setError] = useState(null);
  const load = async () => {
    const path = `${sessionPath(app.value, user.value, sessionId.value)}/artifacts/${encodeURIComponent(name)}/versions/${version}`;
    try {
      setPart(await api.get(path));
    } catch (problem) {
      setError(problem);
    }
  };
  if (part?.inlineData) return html`<${File} blob=${part.inlineData} name=${name} />`;
  if (part) return html`<div class="file-text"><p class="label">${name}</p><${Text} text=${part.text ?? writeJson(part)} plain /></div>`;
  return html`
    <button type="button" class="file" data-testid="artifact" onClick=${load}>
      <${Icon} name="file" />${name} <span class="muted">version ${version}${error && ` · ${error.detail}`}</span>
    </button>
  `;
}

function Sources({ sources, id }) {
  return html`
    <ol class="sources" aria-label="Sources">
      ${sources.map(
        ({ url, title }, index) => html`<li id=${`source-${id}-${index + 1}`} data-testid="source"><${Link} href=${url}><bdi>${short(title)}</bdi></${Link}></li>`,
      )}
    </ol>
  `;
}

/** What went wrong, and what one can do about it. */
function Failure({ entry, asked, last }) {
  const { event } = entry;
  const stopped = event.errorCode === "INVOCATION_ABORTED";
  const again = () => {
    change((log) => log.dismiss(entry.key));
    send(asked.content.parts);
  };
  return html`
    <div class=${classes("problem", stopped && "stopped")} data-testid="error">
      <${Icon} name=${stopped ? "stop" : "warn"} />
      <div class="problem-text">
        ${event.errorCode && html`<code>${short(event.errorCode)}</code> `}<span dir="auto"><${Long} text=${event.errorMessage || (stopped ? "The run was stopped." : "")} most=${2000} /></span>
        ${last &&
        !running.value &&
        html`
          <div class="problem-actions">
            ${asked && html`<button type="button" data-testid="try-again" onClick=${again}>Try again</button>`}
            <button type="button" data-testid="continue" onClick=${() => send(null)}>Continue</button>
          </div>
        `}
      </div>
    </div>
  `;
}

/** Parts of the same kind as one: `{kind: "text"|"thought"|…, …}`. */
function pieces(parts) {
  const found = [];
  parts.forEach((part, index) => {
    const last = found.at(-1);
    const kind = part.thought && part.text !== undefined ? "thought" : part.text !== undefined ? "text" : "other";
    if (kind === "other") found.push({ kind, part, index });
    else if (!part.text) return;
    else if (last?.kind === kind) last.text += part.text;
    else found.push({ kind, text: part.text, index });
  });
  return found;
}

function Piece({ piece, row, at, cited, streaming, isLast }) {
  const { event } = row.entry;
  const { kind, part, text } = piece;
  if (kind === "thought") return html`<${Thought} text=${text} streaming=${streaming && isLast} />`;
  if (kind === "text") return html`<${Text} text=${cited.length ? withCitations(text, cited) : text} plain=${event.author === "user"} at=${at} />`;
  if (part.functionCall) {
    const found = row.calls.find(({ call }) => call.id === part.functionCall.id) ?? { call: part.functionCall, status: "running" };
    if (isRequest(part.functionCall) && found.request) return html`<${Approval} request=${found.request} />`;
    return html`<${ToolCall} ...${found} event=${event} />`;
  }
  if (part.inlineData) return html`<${File} blob=${part.inlineData} />`;
  if (part.fileData) return html`<p class="file"><${Icon} name="file" /><${Link} href=${part.fileData.fileUri}>${part.fileData.displayName || part.fileData.fileUri}</${Link}></p>`;
  if (part.executableCode) return html`<pre class="code" tabindex="0" dir="ltr"><code><${Long} text=${part.executableCode.code ?? ""} /></code></pre>`;
  if (part.codeExecutionResult) return html`<pre class="code output" tabindex="0" dir="ltr"><${Long} text=${part.codeExecutionResult.output ?? ""} /></pre>`;
  return null;
}

function Message({ row, hue }) {
  const { entry, first, asked, last } = row;
  const { event, state } = entry;
  const own = event.author === "user";
  const list = pieces(event.content?.parts ?? []);
  const { sources, cited } = sourcesOf(event);
  const texts = list.filter((each) => each.kind === "text");
  const at = {
    note: (number) => {
      const { url, title } = sources[number - 1] ?? {};
      return html`<sup><${Link} href=${url} class="note" title=${short(title)} aria-label=${`Source ${number}: ${short(title)}`}>${number}</${Link}></sup>`;
    },
  };
  const author = own ? "You" : event.author || "Server";
  const failed = Boolean(event.errorCode || event.errorMessage);
  const cut = state === "cut" || (event.interrupted && list.length > 0);
  return html`
    <article
      class=${classes("message", own ? "own" : "theirs", first && "first", state)}
      data-testid="message"
      data-author=${event.author}
      data-event=${event.id}
      data-state=${state}
      data-focus
      data-hue=${hue}
      tabindex="-1"
      aria-label=${`${author}, ${time(event.timestamp)}`}
    >
      ${first &&
      html`<header class="message-head"><span class="author"><bdi>${author}</bdi></span><time title=${exact(event.timestamp)}>${time(event.timestamp)}</time></header>`}
      <div class="message-body">
        ${list.map((piece, index) => {
          const mine = piece.kind === "text" && texts.length ? cited.filter((each) => (each.part ?? 0) === (texts.length > 1 ? piece.index : (each.part ?? 0))) : [];
          return html`<${Piece} key=${`${piece.kind}${piece.index}`} ...${{ piece, row, at }} cited=${mine} streaming=${state === "live"} isLast=${index === list.length - 1} />`;
        })}
        ${state === "live" && list.at(-1)?.kind !== "thought" && html`<span class="caret" aria-hidden="true" />`}
        ${sources.length > 0 && html`<${Sources} sources=${sources} id=${entry.key} />`}
        ${cut && html`<p class="cut" data-testid="cut-off">Cut off here.</p>`}
        ${failed && html`<${Failure} entry=${entry} asked=${asked} last=${last} />`}
        ${cut && !failed && last && html`<${Failure} entry=${{ ...entry, event: { errorMessage: "The answer broke off." } }} asked=${asked} last=${last} />`}
      </div>
      ${state === "stored" &&
      html`
        <div class="message-tools">
          <${IconButton} name="link" label="Link to this event" onClick=${() => link(event.id)} />
          <${IconButton} name="search" label="Show in the timeline" onClick=${() => { select(event.id); openTab("timeline"); }} />
          ${texts.length > 0 && html`<${Copy} text=${() => texts.map((each) => each.text).join("")} />`}
        </div>
      `}
    </article>
  `;
}

function link(id) {
  select(id);
  navigator.clipboard?.writeText(location.origin + addressOf({ event: id })).catch(() => {});
}

/** A row of the chat, drawn anew only when it changed. */
export function ChatRow({ row, chosen }) {
  const busy = row.last && running.value;
  const [hue, hueTo] = row.kind === "transfer" ? [hueOf(row.from), hueOf(row.to)] : [hueOf(row.entry.event.author)];
  return useMemo(() => {
    if (row.kind === "transfer") {
      return html`
        <div class="transfer" data-testid="transfer" role="note">
          <span class="author" data-hue=${hue}>${row.from}</span> → <span class="author" data-hue=${hueTo}>${row.to}</span>
        </div>
      `;
    }
    if (row.kind === "files") {
      return html`<div class="files">${row.files.map(([name, version]) => html`<${Artifact} key=${name} name=${name} version=${version} />`)}</div>`;
    }
    return html`<div class=${classes("chosen-frame", chosen && "chosen")}><${Held} what="This event"><${Message} row=${row} hue=${hue} /></${Held}></div>`;
  }, [row.key, row.stamp, row.last, chosen, busy, hue, hueTo]);
}
