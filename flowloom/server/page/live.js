// What a screen reader is told: finished messages politely, errors and what waits for a person at once.

import { html, signal } from "./html.js";

const polite = signal("");
const assertive = signal("");
const said = new Map(); // what a region is about to say, with the next frame

/** Say something to a reader who does not see the page; what comes in the same frame is said together. */
export function announce(text, urgent = false) {
  const region = urgent ? assertive : polite;
  const texts = said.get(region);
  if (texts) return texts.push(text);
  said.set(region, [text]);
  region.value = ""; // so that a text is heard again that was said last
  return requestAnimationFrame(() => {
    region.value = [...new Set(said.get(region))].join("\n");
    said.delete(region);
  });
}

export const Live = () => html`
  <div class="unseen" aria-live="polite" aria-atomic="true" data-testid="live">${polite.value}</div>
  <div class="unseen" aria-live="assertive" aria-atomic="true" data-testid="live-urgent">${assertive.value}</div>
`;
