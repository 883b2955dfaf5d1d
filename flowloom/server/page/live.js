// What a screen reader is told: finished messages politely, errors and what waits for a person at once.

import { html, signal } from "./html.js";

const polite = signal("");
const assertive = signal("");

/** Say something to whoever does not see the page. */
export function announce(text, urgent = false) {
  const region = urgent ? assertive : polite;
  region.value = "";
  requestAnimationFrame(() => (region.value = text));
}

export const Live = () => html`
  <div class="unseen" aria-live="polite" aria-atomic="true" data-testid="live">${polite.value}</div>
  <div class="unseen" aria-live="assertive" aria-atomic="true" data-testid="live-urgent">${assertive.value}</div>
`;
