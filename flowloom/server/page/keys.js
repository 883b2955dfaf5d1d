// The keyboard. No key acts while one types, save Escape.

import { html, signal, useEffect, useRef } from "./html.js";
import { focusComposer } from "./composer.js";
import { openTab } from "./router.js";
import { go } from "./router.js";
import { stop } from "./runs.js";
import { focusSearch, newSession, step } from "./sessions.js";
import { run, selected } from "./store.js";
import { stepEvent, toggle } from "./timeline.js";

export const helpOpen = signal(false);

const LIST = [
  ["Write", [["Enter", "send"], ["Shift + Enter", "new line"], ["Esc", "stop the run; twice if text is selected"]]],
  ["Events", [["j  k", "next and previous"], ["o  Enter", "open or close"], ["a  r", "approve and reject, on a card that waits"]]],
  ["Sessions", [["/", "search"], ["[  ]", "previous and next"], ["n", "new"]]],
  ["Go to", [["g c", "chat"], ["g t", "timeline"], ["g r", "run"], ["g i", "request inspector"]]],
  ["Help", [["?", "this list"]]],
];

const isTyping = (target) => Boolean(target?.closest?.("input:not([type=checkbox]):not([type=radio]):not([type=button]), textarea, select, [contenteditable]"));

function toChat() {
  go({ query: { tab: undefined } });
  focusComposer();
}

const PLACES = { c: toChat, t: () => openTab("timeline"), r: () => openTab("trace"), i: () => openTab("request") };

/** Press a button of the card that has the focus, or that the focus is in. */
function press(testid) {
  const card = document.activeElement?.closest("[data-request]");
  card?.querySelector(`[data-testid="${testid}"]`)?.click();
}

function openSelected(event) {
  if (!selected.value || document.activeElement?.closest("button, a, summary, [role=tab]")) return;
  event.preventDefault();
  openTab("timeline");
  toggle(selected.value);
}

const KEYS = {
  "/": focusSearch,
  j: () => stepEvent(1),
  k: () => stepEvent(-1),
  o: openSelected,
  Enter: openSelected,
  "[": () => step(-1),
  "]": () => step(1),
  n: newSession,
  a: () => press("approve"),
  r: () => press("reject"),
  "?": () => (helpOpen.value = true),
};

let first = ""; // `g`, until the key after it

function escape(event) {
  if (helpOpen.value || event.defaultPrevented || document.querySelector("dialog[open]")) return;
  const selection = getSelection();
  if (selection && !selection.isCollapsed && !isTyping(event.target)) selection.removeAllRanges();
  else if (run.value) {
    event.preventDefault();
    stop();
  }
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return escape(event);
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || isTyping(event.target)) return undefined;
  if (document.querySelector("dialog[open]")) return undefined;
  const place = first === "g" ? PLACES[event.key] : undefined;
  first = event.key === "g" && !first ? "g" : "";
  if (place || first) {
    event.preventDefault();
    return place?.();
  }
  const act = KEYS[event.key];
  if (!act) return undefined;
  if (event.key !== "Enter" && event.key !== "o") event.preventDefault();
  return act(event);
});

/** The list of keys. */
export function Help() {
  const dialog = useRef();
  const open = helpOpen.value;
  useEffect(() => {
    if (open) dialog.current?.showModal();
  }, [open]);
  if (!open) return null;
  const close = () => (helpOpen.value = false);
  return html`
    <dialog ref=${dialog} class="dialog" aria-labelledby="keys-title" data-testid="keys" onClose=${close} onClick=${(event) => event.target === dialog.current && close()}>
      <h2 id="keys-title">Keys</h2>
      <div class="keys">
        ${LIST.map(
          ([title, keys]) => html`
            <section>
              <h3>${title}</h3>
              <dl>${keys.map(([key, does]) => html`<div><dt>${key.split("  ").map((each) => html`<kbd>${each}</kbd> `)}</dt><dd>${does}</dd></div>`)}</dl>
            </section>
          `,
        )}
      </div>
      <button type="button" onClick=${close}>Close</button>
    </dialog>
  `;
}
