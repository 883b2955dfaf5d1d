// The pieces of a request, coloured and named by the processor that wrote them; the inspector and the inbox share them.

import { classes, html, useState } from "./html.js";
import { Long } from "./parts.js";
import { authorsOf, contentOf, declarationOf, groupsOf, partLines, pretty, speakerOf } from "./panel_sections.js";
import { fieldOf, isRequired, memberNames, memberOf, typeText } from "./model_schema.js";

const LONG_TEXT = 1500;
const LONG_LINES = 24;
const TAGS = { call: "calls", result: "result of", thought: "thinks", file: "file", code: "code", output: "output", data: "data" };
const SPEAKERS = { user: "User", model: "Model", tools: "Tool results" };
/** Characters that would hide, or turn the direction of the text. */
const STEERING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** A text in which nothing is hidden: what steers a text stands as an escape. */
export const visible = (text) =>
  text.replace(STEERING, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** The class of a hue, 1 to 8; 0 for none. */
export const hueClass = (hue) => (hue ? `hue-${hue}` : "hue-none");

/** A text of any length in which nothing is hidden. */
export const LongText = ({ text, mono }) =>
  html`<span class=${classes("says-words", mono && "mono")} dir="auto"><${Long} text=${visible(text)} most=${LONG_TEXT} lines=${LONG_LINES} /></span>`;

/** What the parts of a content say. */
export const Parts = ({ parts }) => parts.flatMap(partLines).map((line) => html`
  <div class=${`says says-${line.kind}`}>
    ${TAGS[line.kind] && html`<span class="tag">${TAGS[line.kind]}${line.name && html` <b>${line.name}</b>`}${line.id && html` <span class="muted mono">${line.id}</span>`}</span>`}
    <${LongText} text=${line.text} mono=${!["text", "thought"].includes(line.kind)} />
  </div>
`);

/** The button that names who wrote a piece, and shows only what they wrote. */
export const Author = ({ name, hue, chosen, onChoose }) => name
  ? html`<button type="button" class=${classes("by", hueClass(hue))} data-testid="section-author"
      aria-pressed=${String(chosen === name)} title=${chosen === name ? "Show all pieces" : `Show only what ${name} wrote`}
      onClick=${() => onChoose(chosen === name ? "" : name)}>${name}</button>`
  : html`<span class="by hue-none" data-testid="section-author">author not known</span>`;

/** A declared function: its signature, what it is for, its arguments, and its declaration as it is. */
function Declaration({ declared }) {
  const schema = declared.parameters_json_schema ?? declared.parameters ?? {};
  const field = fieldOf(schema);
  const names = memberNames(field);
  return html`
    ${declared.description && html`<div class="says"><${LongText} text=${declared.description} /></div>`}
    ${names.length > 0 && html`<dl class="arguments">${names.map((name) => {
      const member = memberOf(field, name);
      return html`<dt class="mono">${name}${isRequired(field, name) ? "" : "?"}: ${typeText(member)}</dt>
        <dd><${LongText} text=${member.description} /></dd>`;
    })}</dl>`}
    <details class="raw"><summary>Declaration</summary><pre class="mono" tabindex="0"><${LongText} text=${pretty(declared)} /></pre></details>
  `;
}

function headOf(section) {
  const declared = declarationOf(section);
  if (declared) return declared.name ?? "function";
  const content = contentOf(section);
  if (content) return SPEAKERS[speakerOf(content)] ?? content.role;
  return section.path.replace(/^config\./, "");
}

function Body({ section }) {
  const declared = declarationOf(section);
  if (declared) return html`<${Declaration} declared=${declared} />`;
  const content = contentOf(section);
  if (content) return html`<${Parts} parts=${content.parts ?? []} />`;
  if (section.path.startsWith("config.system_instruction")) return html`<${Parts} parts=${[section.value]} />`;
  return html`<div class="says says-data"><${LongText} text=${pretty(section.value)} mono /></div>`;
}

/** A piece of a request. */
export const Section = ({ section, hue, chosen, onChoose, testid = "section", lit }) => html`
  <article class=${classes("piece", hueClass(hue), lit && "lit")} data-testid=${testid} data-path=${section.path}>
    <header>
      <h4>${headOf(section)}</h4>
      ${headOf(section) !== section.path.replace(/^config\./, "") && html`<span class="path mono">${section.path}</span>`}
      <${Author} name=${section.by} hue=${hue} chosen=${chosen} onChoose=${onChoose} />
    </header>
    <${Body} section=${section} />
  </article>
`;

/** The hues of an assembly's processors, by name. */
export const huesOf = (assembly) => new Map(authorsOf(assembly).map(({ name, hue }) => [name, hue]));

/** Who wrote the request: one button for each processor, with its pieces and its time. */
export function Legend({ assembly, chosen, onChoose }) {
  const authors = authorsOf(assembly);
  const [writers, idle] = [authors.filter(({ pieces }) => pieces), authors.filter(({ pieces }) => !pieces)];
  const total = authors.reduce((sum, { microseconds }) => sum + microseconds, 0);
  const longest = Math.max(...authors.map(({ microseconds }) => microseconds), 1);
  const row = (author) => html`
    <li key=${author.name}>
      <button type="button" class=${classes("legend-row", hueClass(author.hue))} aria-pressed=${String(chosen === author.name)}
        onClick=${() => onChoose(chosen === author.name ? "" : author.name)}>
        <i class="swatch" aria-hidden="true"></i>
        <span class="legend-name">${author.name}${author.halted && html` <em class="bad">halted</em>`}</span>
        <span class="legend-number">${author.pieces || ""}</span>
        <span class="legend-time mono">${micro(author.microseconds)}</span>
        <span class="legend-bar" aria-hidden="true"><span style=${{ width: `${(100 * author.microseconds) / longest}%` }}></span></span>
      </button>
    </li>`;
  return html`
    <nav class="legend" aria-label="Processors">
      <h4>Processors <span class="muted">${micro(total)}</span></h4>
      <ul>${writers.map(row)}</ul>
      ${idle.length > 0 && html`<details><summary>${idle.length} wrote nothing that is still there</summary><ul>${idle.map(row)}</ul></details>`}
    </nav>`;
}

const micro = (value) => (value >= 1000 ? `${(value / 1000).toFixed(1)} ms` : `${value.toFixed(value < 10 ? 1 : 0)} µs`);

/** All pieces of a request in groups, or those of one processor with what it changed. */
export function Pieces({ assembly, chosen, onChoose }) {
  const hues = huesOf(assembly);
  const groups = groupsOf(assembly)
    .map((group) => ({ ...group, shown: group.sections.filter(({ by }) => !chosen || by === chosen) }))
    .filter(({ shown }) => shown.length || !chosen);
  return html`
    ${chosen && html`<${Changes} author=${authorsOf(assembly).find(({ name }) => name === chosen)} onChoose=${onChoose} />`}
    ${groups.map(({ id, title, sections, shown }) => html`
      <section class="pieces" key=${id} aria-label=${title}>
        <h3>${title} <span class="muted">${shown.length === sections.length ? sections.length : `${shown.length} of ${sections.length}`}</span></h3>
        ${shown.map((section) => html`<${Section} key=${section.path} section=${section} hue=${hues.get(section.by)}
          chosen=${chosen} onChoose=${onChoose} />`)}
        ${!shown.length && html`<p class="muted">None.</p>`}
      </section>`)}
  `;
}

const Changes = ({ author, onChoose }) => author && html`
  <section class=${classes("changes", hueClass(author.hue))} aria-label=${`What ${author.name} did`}>
    <p><b>${author.name}</b> took ${micro(author.microseconds)} and made
      ${author.changes.length === 1 ? " one change" : ` ${author.changes.length || "no"} changes`}.
      <button type="button" class="link" onClick=${() => onChoose("")}>Show all pieces</button></p>
    ${author.changes.length > 0 && html`<details><summary>Its changes, in order</summary><ol>${author.changes.map((change) => html`
      <li><span class=${`diff-kind diff-${change.kind}`}>${change.kind}</span> <code>${change.path}</code></li>`)}</ol></details>`}
  </section>
`;
