// A request as the model is given it: the system instruction folded, contents by role with the newest lit, the rest.

import { classes, html, useState } from "./html.js";
import { Json } from "./parts.js";
import { counted } from "./numbers.js";
import { Legend, Pieces, Section, huesOf } from "./panel_pieces.js";
import { groupsOf, speakerOf } from "./panel_sections.js";

/** How many of the contents are news for the model: those after what it said last. */
export function newsOf(contents) {
  const last = contents.findLastIndex(({ value }) => speakerOf(value) === "model");
  return contents.length - 1 - last || Math.min(1, contents.length);
}

export function RequestBlocks({ request }) {
  const [chosen, setChosen] = useState("");
  const [older, setOlder] = useState(false);
  const { assembly } = request;
  const hues = huesOf(assembly);
  const groups = Object.fromEntries(groupsOf(assembly).map(({ id, sections }) => [id, sections]));
  const news = groups.contents.length - newsOf(groups.contents);
  const block = (section, more) => html`<${Section} key=${section.path} section=${section} hue=${hues.get(section.by)}
    chosen=${chosen} onChoose=${setChosen} ...${more} />`;
  const words = groups.system.map(({ value }) => (typeof value === "string" ? value : (value?.text ?? ""))).join(" ");
  return html`
    <article class="model-request" data-testid="model-request" aria-label="The request">
      <header><h3>${request.agent ?? "An agent"} <span class="muted">asks</span> ${request.model}</h3>
        ${assembly.step > 0 && html`<span class="muted">step ${assembly.step + 1}</span>`}</header>
      <details class="system" data-testid="model-system">
        <summary>System instruction <span class="muted">${words.trim().slice(0, 90) || "none"}${words.trim().length > 90 ? "…" : ""}</span></summary>
        ${groups.system.map((section) => block(section))}
      </details>
      ${news > 0 && html`<details class="older" open=${older} onToggle=${(change) => setOlder(change.target.open)}>
        <summary>${counted(news, "earlier content")}</summary>
        ${older && groups.contents.slice(0, news).map((section) => block(section, { testid: "model-content" }))}
      </details>`}
      ${groups.contents.slice(news).map((section) => block(section, { testid: "model-content", lit: true }))}
      ${!groups.contents.length && html`<p class="muted">There are no contents.</p>`}
      <${Debug} request=${request} chosen=${chosen} onChoose=${setChosen} />
    </article>`;
}

const SAFETY = "safety_settings";

/** What else the model is given, and how the request came about. */
function Debug({ request, chosen, onChoose }) {
  const [open, setOpen] = useState(false);
  const { system_instruction: _system, tools: _tools, [SAFETY]: safety, ...config } = request.assembly.request.config ?? {};
  const amount = Object.keys(config).length;
  return html`
    <details class="debug" data-testid="model-config" open=${open} onToggle=${(change) => setOpen(change.target.open)}>
      <summary>Debug <span class="muted">${amount ? Object.keys(config).join(", ") : "no generation config"}</span></summary>
      ${open && html`
        <h4>Generation config</h4>${amount ? html`<${Json} value=${config} />` : html`<p class="muted">Nothing is set.</p>`}
        <h4>Safety settings</h4>${safety?.length ? html`<${Json} value=${safety} />` : html`<p class="muted">Nothing is set.</p>`}
        <h4>All pieces, by who wrote them</h4>
        <div class=${classes("inspector-body")}>
          ${request.assembly.steps.length > 0 && html`<${Legend} assembly=${request.assembly} chosen=${chosen} onChoose=${onChoose} />`}
          <div class="inspector-pieces"><${Pieces} assembly=${request.assembly} chosen=${chosen} onChoose=${onChoose} /></div>
        </div>
        <details class="raw"><summary>The request as JSON</summary><${Json} value=${request.assembly.request} /></details>`}
    </details>`;
}
