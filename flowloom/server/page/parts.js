// The pieces that all panels share.

import { classes, html, useErrorBoundary, useState } from "./html.js";
import { writeJson } from "./json.js";
import { size } from "./numbers.js";

const PATHS = {
  add: "M8 3v10M3 8h10",
  attach: "M13 7 8 12a3 3 0 0 1-4.3-4.3l5.2-5.2a2 2 0 0 1 2.9 2.9l-5.2 5.1a1 1 0 0 1-1.4-1.4L9.6 4.8",
  bot: "M3 6.5h10v6H3zM8 6.5V4M6 9.5h.01M10 9.5h.01M8 3.5h.01",
  check: "m3 8.5 3.5 3.5L13 4.5",
  chevron: "m6 4 4 4-4 4",
  close: "m4 4 8 8M12 4l-8 8",
  copy: "M6 6h7v7H6zM10 6V3H3v7h3",
  down: "M8 3v10M4 9l4 4 4-4",
  download: "M8 2v8M5 7l3 3 3-3M3 13h10",
  edit: "m3 13 .6-2.8L10.8 3 13 5.2l-7.2 7.2L3 13Z",
  file: "M4 2h5l3 3v9H4zM9 2v3h3",
  fork: "M5 3v10M5 8h3a3 3 0 0 0 3-3V3",
  keys: "M2 4.5h12v7H2zM4.5 7h.01M7 7h.01M9.5 7h.01M11.8 7h.01M5 9.3h6",
  link: "M7 9a2.5 2.5 0 0 0 3.5 0l2-2A2.5 2.5 0 0 0 9 3.5l-.7.7M9 7a2.5 2.5 0 0 0-3.5 0l-2 2A2.5 2.5 0 0 0 7 12.5l.7-.7",
  menu: "M3 4.5h10M3 8h10M3 11.5h10",
  moon: "M12.5 9.8A5 5 0 0 1 6.2 3.5a5 5 0 1 0 6.3 6.3Z",
  retry: "M13 8a5 5 0 1 1-1.5-3.5M13 2v3h-3",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM11 11l3 3",
  send: "M8 13V3M4 7l4-4 4 4",
  stop: "M4.5 4.5h7v7h-7z",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1",
  system: "M2 3h12v8H2zM6 14h4M8 11v3",
  trash: "M3 4.5h10M6.5 4V2.5h3V4M4.5 4.5l.6 9h5.8l.6-9",
  upload: "M8 10V2M5 5l3-3 3 3M3 13h10",
  user: "M8 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM3 13.5a5 5 0 0 1 10 0",
  warn: "M8 2.5 14.5 13.5h-13zM8 6.5v3.5M8 11.8h.01",
};

/** A drawing of 16 by 16 that says nothing by itself: the control around it has the name. */
export const Icon = ({ name }) => html`
  <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
    <path d=${PATHS[name]} fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" />
  </svg>
`;

/** A button that shows only an icon: `label` is its name and its tooltip. */
export const IconButton = ({ name, label, class: extra, ...rest }) => html`
  <button type="button" class=${classes("icon-button", extra)} aria-label=${label} title=${label} ...${rest}>
    <${Icon} name=${name} />
  </button>
`;

/** What stands where there is nothing: what it would be, and what to do to have it. */
export const Empty = ({ title, children }) => html`
  <div class="empty">
    <p class="empty-title">${title}</p>
    ${children && html`<p>${children}</p>`}
  </div>
`;

/** Something that went wrong, where it went wrong: an `ApiError` or a text, and perhaps what to do (`children`). */
export const Problem = ({ error, children }) => html`
  <div class="problem" role="alert" data-testid="error">
    <${Icon} name="warn" />
    <div class="problem-text">
      ${error.code && html`<code>${short(String(error.code))}</code> `}<span><${Long} text=${error.detail ?? error.message ?? String(error)} most=${2000} /></span>
      ${error.errorId && html` <span class="muted">(in the log: ${error.errorId})</span>`}
      ${children && html`<div class="problem-actions">${children}</div>`}
    </div>
  </div>
`;

/** What is drawn inside it; if that breaks it says so (`what` broke), and takes nothing else with it. */
export function Held({ what, children }) {
  const [error, reset] = useErrorBoundary((problem) => console.error(problem));
  if (error) return html`<div class="held"><${Problem} error=${{ detail: `${what} broke: ${error.message}` }}><button type="button" onClick=${reset}>Try again</button></${Problem}></div>`;
  return children;
}

/** A button that copies `text` (or what the function `text` gives), and says that it did. */
export function Copy({ text, label = "Copy" }) {
  const [done, setDone] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
      setDone("Copied");
    } catch {
      setDone("Not allowed");
    }
    setTimeout(() => setDone(""), 1500);
  };
  return html`<button type="button" class="quiet" onClick=${copy}><${Icon} name=${done === "Copied" ? "check" : "copy"} />${done || label}</button>`;
}

/** Longest text that is shown before one asks for the rest, in characters. */
export const LONG = 10000;

/** The beginning of a name or a title that goes on without end. */
export function short(text, most = 200) {
  const said = String(text ?? "");
  return said.length > most ? `${said.slice(0, most)}…` : said;
}

const BLOCK = 2000;

/**
 * A text in blocks, each ended by a line where there is one: a browser lays out many short ones in no time, and one of
 * a million characters in half a minute.
 */
export function blocksOf(text, most = BLOCK) {
  const blocks = [];
  let from = 0;
  while (text.length - from > most) {
    const line = text.lastIndexOf("\n", from + most);
    const end = line > from ? line + 1 : from + most - (/[\ud800-\udbff]/.test(text[from + most - 1]) ? 1 : 0);
    blocks.push(text.slice(from, end));
    from = end;
  }
  return [...blocks, text.slice(from)];
}

/** A text as it is, of which only the blocks near the view are laid out. */
export function Blocks({ text }) {
  const blocks = blocksOf(text);
  return blocks.length === 1 ? text : blocks.map((block, index) => html`<span class="block" key=${index}>${block}</span>`);
}

/** A text of any length as it is: the beginning of a long one, until all is asked for. `lines`: how many may be shown. */
export function Long({ text, most = LONG, lines = Infinity }) {
  const [all, setAll] = useState(false);
  const long = text.length > 2 * most || (lines < Infinity && text.split("\n", 2 * lines + 1).length > 2 * lines);
  if (!long) return text;
  const start = text.slice(0, most).split("\n").slice(0, lines).join("\n");
  return html`<${Blocks} text=${all ? text : `${start}…`} /> <button type="button" class="link" aria-expanded=${String(all)} onClick=${() => setAll(!all)}>${all ? "Show less" : `Show all ${size(text.length)}`}</button>`;
}

/** JSON as text, in full width of its place; long ones are shown on demand. */
export const Json = ({ value, testid }) =>
  html`<pre class="json" data-testid=${testid} tabindex="0" dir="ltr"><${Long} text=${writeJson(value, 2) ?? ""} /></pre>`;
