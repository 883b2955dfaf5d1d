// A form made from a JSON schema: one control for each kind of field, with what is wrong beside it.

import { classes, html, useId, useState } from "./html.js";
import { readJson, writeJson } from "./json.js";
import { blank, checked, draftOf, opened, shows, typed } from "./model_draft.js";
import { problemsOf, stepped } from "./model_check.js";
import { fieldOf, isRequired, itemOf, limitsText, memberNames, memberOf, otherMembers, typeText } from "./model_schema.js";

/** What a form begins with: `{draft, json}`; `json` is the text of the JSON view, null while the form is shown. */
export const formOf = (field, value) => ({ draft: value === undefined ? blank(field) : draftOf(field, value), json: null });

/** The value of a form and what is wrong with it: `{value, problems: [{path, message}]}`. */
export function read(field, form) {
  if (form.json === null) return checked(field, form.draft);
  try {
    const value = readJson(form.json);
    return { value, problems: problemsOf(field, value) };
  } catch (error) {
    return { value: undefined, problems: [{ path: "", message: `is no JSON: ${error.message}` }] };
  }
}

/**
 * A form, or its JSON view. `problems` are shown beside their fields: all that are given here, so a caller gives none
 * before a person has tried to send it.
 */
export function SchemaForm({ field, form, onChange, problems, testid }) {
  const [refused, setRefused] = useState("");
  const toJson = () => {
    const { value } = checked(field, form.draft);
    onChange({ ...form, json: writeJson(value ?? {}, 2) });
  };
  const toForm = () => {
    let value;
    try {
      value = readJson(form.json);
    } catch (error) {
      return setRefused(`That is no JSON: ${error.message}.`);
    }
    if (!shows(field, value)) return setRefused("The form cannot hold this value: see what is wrong with it, or send it as it is.");
    setRefused("");
    return onChange({ draft: draftOf(field, value), json: null });
  };
  const shown = new Map(problems.map(({ path, message }) => [path, message]));
  const inJson = form.json !== null;
  return html`
    <div class="schema-form" data-testid=${testid}>
      <div class="segments" role="group" aria-label="View">
        <button type="button" aria-pressed=${String(!inJson)} onClick=${() => inJson && toForm()}>Form</button>
        <button type="button" aria-pressed=${String(inJson)} onClick=${() => inJson || toJson()}>JSON</button>
      </div>
      ${inJson
        ? html`<textarea class="mono json-view" aria-label="As JSON" spellcheck="false" rows=${Math.min(16, form.json.split("\n").length + 1)}
            value=${form.json} onInput=${(typing) => { setRefused(""); onChange({ ...form, json: typing.target.value }); }}></textarea>
          ${refused && html`<p class="form-error" role="alert">${refused}</p>`}
          ${problems.map(({ path, message }) => html`<p class="form-error" key=${path + message}><code>${path || "the whole"}</code> ${message}</p>`)}`
        : html`<${Field} field=${field} draft=${form.draft} path="" required top problems=${shown} onChange=${(draft) => onChange({ ...form, draft })} />`}
    </div>`;
}

/** One field: its name, its control, what it is for, and what is wrong. */
function Field({ field, name, draft, path, required, top, problems, onChange, onRemove }) {
  const id = useId();
  const problem = problems.get(path);
  const control = { field, draft, path, id, required, problems, onChange, wrong: Boolean(problem) };
  const grouped = ["object", "list", "union"].includes(field.kind) || field.kind === "boolean";
  const about = [field.description, limitsText(field)].filter(Boolean);
  const said = html`
    ${about.length > 0 && html`<p class="form-about" id=${`${id}-about`}>${about.join(" · ")}</p>`}
    ${problem && html`<p class="form-error" id=${`${id}-problem`} data-testid="field-error">${problem}</p>`}`;
  const inner = draft.given && draft.isNull ? html`<span class="null">null</span>` : html`<${CONTROLS[field.kind] ?? Words} ...${control} />`;
  if (top && field.kind === "object") return html`<div class="form-fields">${inner}${said}</div>`;
  const label = html`<span class="form-name">${name ?? (field.title || "value")}</span>`;
  const kind = html`<span class="form-kind" id=${`${id}-kind`}>${required && html`<span class="form-required">required</span> `}<span class="form-type">${typeText(field)}</span></span>`;
  const tools = html`
    ${field.nullable && html`<label class="check"><input type="checkbox" checked=${draft.given && draft.isNull}
      onChange=${(change) => onChange(change.target.checked ? { ...draft, given: true, isNull: true } : { ...blankAgain(field, required), isNull: false })} /> null</label>`}
    ${onRemove && html`<button type="button" class="quiet" aria-label=${`Remove ${name}`} onClick=${onRemove}>Remove</button>`}`;
  const attributes = { class: classes("form-field", `form-field-${field.kind}`, problem && "wrong"), "data-testid": "tool-field", "data-path": path || undefined };
  return grouped
    ? html`<fieldset ...${attributes} aria-describedby=${describedBy(id, problem)}><legend>${label}</legend> ${kind}<div class="form-tools">${tools}</div>${inner}${said}</fieldset>`
    : html`<div ...${attributes}><div class="form-head"><label for=${id}>${label}</label>${kind}<div class="form-tools">${tools}</div></div>${inner}${said}</div>`;
}

/** A draft of a field that was null until now: what must be there is, and nothing of it is null. */
function blankAgain(field, required) {
  const bare = { ...field, schema: { ...field.schema, default: undefined } };
  return required ? opened(bare) : blank(bare, false);
}

const describedBy = (id, wrong) => `${id}-kind ${id}-about${wrong ? ` ${id}-problem` : ""}`;

// -- controls -------------------------------------------------------------------------------------------------------

function Words({ field, draft, id, wrong, required, onChange }) {
  const [long, setLong] = useState(field.kind === "any" || (draft.text ?? "").includes("\n") || (draft.text ?? "").length > 80);
  const numeric = field.kind === "integer" || field.kind === "number";
  const shared = {
    id,
    value: draft.text ?? "",
    "aria-invalid": String(wrong),
    "aria-describedby": describedBy(id, wrong),
    "aria-required": String(Boolean(required)),
    onInput: (typing) => onChange(typed(draft, typing.target.value)),
  };
  if (long) return html`<textarea rows="3" class=${field.kind === "any" ? "mono" : ""} placeholder=${field.kind === "any" ? "JSON" : ""} ...${shared}></textarea>`;
  return html`<span class="with-button"><input type="text" inputmode=${numeric ? "decimal" : "text"} autocomplete="off" ...${shared} />
    ${!numeric && html`<button type="button" class="quiet" aria-label="More room" title="More room" onClick=${() => setLong(true)}>⤢</button>`}</span>`;
}

const Choice = ({ field, draft, id, wrong, required, onChange }) => html`
  <select id=${id} aria-invalid=${String(wrong)} aria-describedby=${describedBy(id, wrong)} aria-required=${String(Boolean(required))}
    value=${String(draft.given ? draft.choice : -1)}
    onChange=${(change) => onChange({ given: change.target.value !== "-1", isNull: false, choice: Number(change.target.value) })}>
    <option value="-1">${required ? "choose…" : "leave out"}</option>
    ${field.values.map((value, index) => html`<option key=${index} value=${String(index)}>${typeof value === "string" ? value : writeJson(value)}</option>`)}
  </select>`;

const Truth = ({ draft, id, required, onChange }) => html`
  <div class="segments" id=${id}>
    ${[[0, "yes"], [1, "no"], ...(required ? [] : [[-1, "leave out"]])].map(([choice, text]) => html`
      <label key=${choice}><input type="radio" name=${`${id}-truth`} checked=${(draft.given ? draft.choice : -1) === choice}
        onChange=${() => onChange({ given: choice >= 0, isNull: false, choice })} /><span>${text}</span></label>`)}
  </div>`;

function Items({ field, draft, path, problems, onChange }) {
  const items = draft.given ? draft.items : [];
  const put = (next, given = true) => onChange({ given, isNull: false, items: next });
  const add = () => put([...items, opened(itemOf(field, items.length))]);
  const full = field.schema.maxItems !== undefined && items.length >= field.schema.maxItems;
  return html`
    <div class="items">
      ${items.map((item, index) => html`<${Field} key=${index} field=${itemOf(field, index)} name=${String(index + 1)} draft=${item} required
        path=${stepped(path, index)} problems=${problems}
        onChange=${(changed) => put(items.with(index, changed))} onRemove=${() => put(items.toSpliced(index, 1))} />`)}
      <div class="tools">
        <button type="button" class="quiet" disabled=${full} onClick=${add}>Add ${items.length ? "another" : "an item"}</button>
        ${draft.given && !items.length && html`<span class="muted">an empty list</span>`}
        ${draft.given && !items.length && html`<button type="button" class="quiet" onClick=${() => put([], false)}>Leave out</button>`}
        ${!draft.given && html`<button type="button" class="quiet" onClick=${() => put([])}>Empty list</button>`}
      </div>
    </div>`;
}

function Members({ field, draft, path, required, problems, onChange }) {
  if (!draft.given) return html`<button type="button" class="quiet" onClick=${() => onChange(opened(field))}>Fill in</button>`;
  const free = otherMembers(field);
  const put = (members, others = draft.others) => onChange({ ...draft, members, others });
  const names = memberNames(field);
  return html`
    <div class="form-fields">
      ${names.map((name) => html`<${Field} key=${name} field=${memberOf(field, name)} name=${name} draft=${draft.members[name]}
        required=${isRequired(field, name)} path=${stepped(path, name)} problems=${problems}
        onChange=${(changed) => put({ ...draft.members, [name]: changed })} />`)}
      ${!names.length && !free && html`<p class="muted">It takes no arguments.</p>`}
      ${draft.others.map((other, index) => html`
        <div class="other" key=${index}>
          <input type="text" class="mono" aria-label="Name" placeholder="name" value=${other.name}
            onInput=${(typing) => put(draft.members, draft.others.with(index, { ...other, name: typing.target.value }))} />
          <${Field} field=${free ?? fieldOf({})} name=${other.name || "value"} draft=${other.draft} required path=${stepped(path, other.name)} problems=${problems}
            onChange=${(changed) => put(draft.members, draft.others.with(index, { ...other, draft: changed }))}
            onRemove=${() => put(draft.members, draft.others.toSpliced(index, 1))} />
        </div>`)}
      ${free && html`<button type="button" class="quiet" onClick=${() => put(draft.members, [...draft.others, { name: "", draft: opened(free) }])}>Add a member</button>`}
      ${path && !required && html`<button type="button" class="quiet" onClick=${() => onChange(blankAgain(field, false))}>Leave out</button>`}
    </div>`;
}

function Union({ field, draft, path, id, required, problems, onChange }) {
  const which = draft.given ? draft.which : -1;
  const choose = (at) => onChange(at < 0 ? { ...draft, given: false } : { given: true, isNull: false, which: at, inner: opened(field.options[at]) });
  return html`
    <div class="union">
      <select id=${id} aria-label="Kind of value" value=${String(which)} onChange=${(change) => choose(Number(change.target.value))}>
        ${(!required || which < 0) && html`<option value="-1">${required ? "choose…" : "leave out"}</option>`}
        ${field.options.map((option, index) => html`<option key=${index} value=${String(index)}>${option.title || typeText(option)}</option>`)}
      </select>
      ${which >= 0 && html`<${Inner} key=${which} field=${field.options[which]} draft=${draft.inner} path=${path} problems=${problems}
        onChange=${(inner) => onChange({ ...draft, inner, given: true })} />`}
    </div>`;
}

/** The control of a union's option: its head stands above already. */
function Inner({ field, draft, path, problems, onChange }) {
  const id = useId();
  const Control = CONTROLS[field.kind] ?? Words;
  return html`<${Control} field=${field} draft=${draft} path=${path} id=${id} required problems=${problems} onChange=${onChange} wrong=${problems.has(path)} />`;
}

const CONTROLS = {
  choice: Choice,
  boolean: Truth,
  list: Items,
  object: Members,
  union: Union,
  nothing: ({ draft, onChange }) => html`<label class="check"><input type="checkbox" checked=${draft.given} onChange=${(change) => onChange({ given: change.target.checked, isNull: true })} /> null</label>`,
};
