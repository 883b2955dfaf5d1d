// The frame of the page: the bar, the sessions, the chat, and the panels.

import { classes, html, useEffect, useRef } from "./html.js";
import { panelOf, panels } from "./panels.js";
import { openTab, tab } from "./router.js";

/** The tabs of the panels, and the one that is open. */
export function Panels() {
  const open = panelOf(tab.value);
  const strip = useRef();
  useEffect(() => strip.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest", inline: "nearest" }), [open.id]);
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const at = panels.indexOf(open);
    const to = event.key === "Home" ? 0 : event.key === "End" ? panels.length - 1 : at + step;
    if (Number.isNaN(to)) return;
    event.preventDefault();
    const next = panels[(to + panels.length) % panels.length];
    openTab(next.id);
    requestAnimationFrame(() => document.getElementById(`tab-${next.id}`)?.focus());
  };
  return html`
    <div class="panels" data-testid="panels">
      <div class="tabs" role="tablist" aria-label="Panels" ref=${strip} onKeyDown=${move}>
        ${panels.map(
          (panel) => html`
            <button
              type="button"
              role="tab"
              key=${panel.id}
              id=${`tab-${panel.id}`}
              class=${classes("tab", panel === open && "open")}
              title=${panel.hint}
              aria-selected=${String(panel === open)}
              aria-controls="panel"
              tabindex=${panel === open ? 0 : -1}
              onClick=${() => openTab(panel.id)}
            >
              ${panel.title}
            </button>
          `,
        )}
      </div>
      <section class="panel" role="tabpanel" id="panel" aria-labelledby=${`tab-${open.id}`} tabindex="0">
        <${open.component} key=${open.id} />
      </section>
    </div>
  `;
}

export const Shell = () => html`<div class="shell"><${Panels} /></div>`;
