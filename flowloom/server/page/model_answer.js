// The answer to a request: thoughts, a text (or a form of the response schema), calls in order; or an error.

import { classes, html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { writeJson } from "./json.js";
import { counted } from "./numbers.js";
import { Icon, Json, Problem } from "./parts.js";
import { SchemaForm, read } from "./model_form.js";
import { fieldOf, isRequired, memberNames } from "./model_schema.js";
import { changeDraft, draftFor, partsOf, say, send, toolForm } from "./model_store.js";

const ERRORS = [
  { name: "Rate limit", code: "RATE_LIMIT", message: "Too many requests: the quota is used up.", retryable: true },
  { name: "Unavailable", code: "UNAVAILABLE", message: "The model is overloaded. Try again later.", retryable: true },
  { name: "Safety", code: "SAFETY", message: "The answer was blocked for safety reasons." },
  { name: "Cut off after the text so far", code: "MAX_TOKENS", message: "The answer was cut off.", keeps: true },
  { name: "Another error", code: "", message: "" },
];

/** The problems of one place, as the form wants them. */
const at = (problems, where) => problems.filter((each) => each.where === where);

export function Answer({ request }) {
  const draft = draftFor(request);
  const [problems, setProblems] = useState([]);
  const [failed, setFailed] = useState(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const [preview, setPreview] = useState(false);
  const box = useRef();
  const change = (what) => {
    setProblems([]);
    setFailed(null);
    changeDraft(request, what);
  };
  const open = (tool, args) => {
    change({ tool: toolForm(tool, args) });
    requestAnimationFrame(() => box.current?.querySelector(".tool-form :is(input, textarea, select):not([type=checkbox])")?.focus());
  };
  const submit = async (body) => {
    setBusy(true);
    setFailed(null);
    try {
      await send(request, body);
    } catch (refusal) {
      setBusy(false);
      refused(request, refusal, open, setProblems, setFailed);
    }
  };
  const answer = () => {
    const { parts, problems: found } = partsOf(request, draftFor(request));
    setProblems(found);
    if (!found.length) submit({ parts });
  };
  const fail = () => {
    const { keeps, name: _name, ...said } = error;
    const parts = keeps ? partsOf(request, draftFor(request)).parts : [];
    submit({ error: said.code ? said : { message: said.message }, ...(parts.length ? { parts } : {}) });
  };
  useKeys({ request, open, answer: error ? fail : answer, onError: () => setError(error ? null : ERRORS[0]),
    onEscape: error ? () => setError(null) : draftFor(request).tool ? () => change({ tool: null }) : null });
  const wrong = at(problems, "answer");
  const amount = draft.calls.length + (draft.tool ? 1 : 0);
  return html`
    <section class="answer" aria-label="Your answer" ref=${box}>
      <h3>You answer as ${request.model}</h3>
      ${error
        ? html`<${Failure} error=${error} onChange=${setError} onCancel=${() => setError(null)} onSend=${fail} busy=${busy} />`
        : html`
          <label class="thought-field">Thought <span class="muted">shown folded; not part of the answer</span>
            <textarea rows="1" data-testid="answer-thought" value=${draft.thought} onInput=${(typing) => change({ thought: typing.target.value })}></textarea></label>
          ${draft.form
            ? html`<div class="response"><h4>Answer <span class="muted">in the form of the response schema${amount ? "; not needed beside a call" : ""}</span></h4>
                <${SchemaForm} field=${fieldOf(request.response_schema)} form=${draft.form} problems=${at(problems, "text")} testid="answer-form" onChange=${(form) => change({ form })} /></div>`
            : html`<${Text} request=${request} draft=${draft} change=${change} onFail=${setFailed} />`}
          <${Calls} request=${request} draft=${draft} change=${change} onEdit=${open} />
          ${draft.tool && html`<${ToolForm} request=${request} draft=${draft} change=${change} problems=${at(problems, "tool")} onProblems=${setProblems} />`}
          <${Catalogue} request=${request} draft=${draft} onOpen=${open} />
          ${preview && html`<${Preview} parts=${partsOf(request, draft).parts} />`}
          ${wrong.map(({ message }) => html`<p class="form-error" role="alert" key=${message}>${message}</p>`)}
          ${failed && html`<${Problem} error=${failed} />`}
          <div class="answer-bar">
            <button type="button" class="primary" data-testid="answer-send" disabled=${busy} onClick=${answer}><${Icon} name="send" />Send${amount ? ` with ${counted(amount, "call")}` : ""}</button>
            <button type="button" class="quiet" aria-pressed=${String(preview)} onClick=${() => setPreview(!preview)}>Preview</button>
            <button type="button" class="quiet" data-testid="answer-error" onClick=${() => setError(ERRORS[0])}><${Icon} name="warn" />Error…</button>
            <span class="muted key-hints"><kbd>1</kbd>–<kbd>9</kbd> tools, <kbd>Ctrl</kbd>+<kbd>Enter</kbd> sends, <kbd>Alt</kbd>+<kbd>E</kbd> error</span>
          </div>`}
    </section>`;
}

/** What the server refused, beside the field that it names. */
function refused(request, error, open, setProblems, setFailed) {
  const { tool, field } = error.body ?? {};
  const draft = draftFor(request);
  const message = error.detail.split("\n").find((line) => line.includes(`\`${field}\``))?.replace(/^- `[^`]*`: /, "") ?? error.detail;
  const index = draft.calls.findIndex(({ name }) => name === tool);
  if (error.status === 422 && tool && index >= 0 && !draft.tool) {
    const { args } = draft.calls[index];
    changeDraft(request, { calls: draft.calls.toSpliced(index, 1) });
    open(request.tools.find(({ name }) => name === tool), args);
  }
  const where = tool ? "tool" : draftFor(request).form ? "text" : "answer";
  const placed = error.status === 422 && field && where !== "answer" && (where !== "tool" || draftFor(request).tool?.name === tool);
  setProblems(placed ? [{ where, path: field, message }] : []);
  setFailed(placed ? null : error);
}

/** Keys of the whole panel: they act wherever one is, but the numbers not while one types. */
function useKeys({ request, open, answer, onError, onEscape }) {
  const acts = useRef();
  acts.current = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) return answer;
    if (event.altKey && event.code === "KeyE") return onError;
    if (event.key === "Escape") return onEscape;
    const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (typing || event.ctrlKey || event.altKey || event.metaKey || !/^[1-9]$/.test(event.key)) return null;
    const tool = request.tools[Number(event.key) - 1];
    return tool ? () => open(tool) : null;
  };
  // in the same task as the panel: keys that follow what one sees are not lost
  useLayoutEffect(() => {
    const listener = (event) => {
      const elsewhere = event.target.closest?.('[data-testid="composer"], dialog');
      const act = elsewhere ? null : acts.current(event);
      if (!act) return;
      event.preventDefault();
      event.stopPropagation();
      act();
    };
    addEventListener("keydown", listener, { capture: true });
    return () => removeEventListener("keydown", listener, { capture: true });
  }, []);
}

/** The text; to a run that streams it may go word by word. */
function Text({ request, draft, change, onFail }) {
  const [live, setLive] = useState(false);
  const type = async (text) => {
    const end = live ? text.search(/\s\S*$/) + 1 : 0;
    if (!end) return change({ text });
    const words = text.slice(0, end);
    change({ text: text.slice(end), said: draft.said + words });
    try {
      await say(request, words);
    } catch (error) {
      onFail(error);
    }
  };
  return html`
    <div class="text-field">
      <label for="answer-text">Text</label>
      ${request.streaming && html`<label class="check"><input type="checkbox" data-testid="answer-live" checked=${live} onChange=${(event) => setLive(event.target.checked)} /> word by word, as I type</label>`}
      ${draft.said && html`<p class="said-so-far" aria-label="Said so far">${draft.said}</p>`}
      <textarea id="answer-text" rows="3" data-testid="answer-text" value=${draft.text} placeholder=${draft.said ? "…and on" : "What the model says"}
        onInput=${(typing) => type(typing.target.value)}></textarea>
    </div>`;
}

/** The calls of the answer, in the order in which they are made. */
function Calls({ request, draft, change, onEdit }) {
  const { calls } = draft;
  if (!calls.length) return null;
  const put = (next) => change({ calls: next });
  const move = (index, to) => put(calls.toSpliced(index, 1).toSpliced(to, 0, calls[index]));
  const edit = (index) => {
    put(calls.toSpliced(index, 1));
    onEdit(request.tools.find(({ name }) => name === calls[index].name), calls[index].args);
  };
  return html`
    <ol class="answer-calls" aria-label="Calls of the answer">${calls.map(({ name, args }, index) => html`
      <li key=${index} data-testid="answer-call">
        <span class="call-text mono"><b>${name}</b>(${writeJson(args).slice(1, -1)})</span>
        <span class="call-tools">
          <button type="button" class="quiet" aria-label=${`Call ${name} earlier`} disabled=${index === 0} onClick=${() => move(index, index - 1)}>↑</button>
          <button type="button" class="quiet" aria-label=${`Call ${name} later`} disabled=${index === calls.length - 1} onClick=${() => move(index, index + 1)}>↓</button>
          <button type="button" class="quiet" aria-label=${`Edit the call of ${name}`} disabled=${Boolean(draft.tool)} onClick=${() => edit(index)}>Edit</button>
          <button type="button" class="quiet" aria-label=${`Remove the call of ${name}`} onClick=${() => put(calls.toSpliced(index, 1))}>Remove</button>
        </span>
      </li>`)}</ol>`;
}

/** The form of the tool that is being called. */
function ToolForm({ request, draft, change, problems, onProblems }) {
  const tool = request.tools.find(({ name }) => name === draft.tool.name);
  const field = fieldOf(tool.schema);
  const add = (submitted) => {
    submitted.preventDefault();
    const { value, problems: found } = read(field, draft.tool.form);
    if (found.length) return onProblems(found.map((each) => ({ where: "tool", ...each })));
    return change({ calls: [...draft.calls, { name: tool.name, args: value ?? {} }], tool: null });
  };
  return html`
    <form class="tool-form" data-testid="tool-form" data-tool=${tool.name} novalidate onSubmit=${add}>
      <header><h4 class="mono">${tool.name}</h4><button type="button" class="icon-button" aria-label="Close the form" title="Close (Esc)" onClick=${() => change({ tool: null })}><${Icon} name="close" /></button></header>
      ${tool.description && html`<p class="form-about">${tool.description}</p>`}
      <${SchemaForm} field=${field} form=${draft.tool.form} problems=${problems} onChange=${(form) => change({ tool: { ...draft.tool, form } })} />
      <div class="tools"><button type="submit" class="quiet strong" data-testid="answer-add-call"><${Icon} name="add" />Add the call</button><span class="muted">or send at once</span></div>
    </form>`;
}

/** The tools that the answer may call, with a search. */
function Catalogue({ request, draft, onOpen }) {
  const [search, setSearch] = useState("");
  const { tools } = request;
  if (!tools.length) return html`<p class="muted">There are no tools to call.</p>`;
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const holds = ({ name, description }) => words.every((word) => `${name} ${description}`.toLowerCase().includes(word));
  const found = tools.filter(holds);
  return html`
    <div class="catalogue" data-testid="tool-catalogue">
      <header><h4>Tools <span class="muted">${tools.length}</span></h4>
        ${tools.length > 4 && html`<input type="search" aria-label="Search the tools" placeholder="Search the tools" value=${search} data-testid="tool-search"
          onInput=${(typing) => setSearch(typing.target.value)} onKeyDown=${(key) => {
            if (key.key !== "Enter" || key.ctrlKey || !found.length) return;
            key.preventDefault();
            onOpen(found[0]);
          }} />`}</header>
      <ul>${found.map((tool) => {
        const number = tools.indexOf(tool) + 1;
        const field = fieldOf(tool.schema);
        const names = memberNames(field).map((name) => (isRequired(field, name) ? name : `${name}?`)).join(", ");
        return html`<li key=${tool.name}><button type="button" class=${classes("tool-choice", draft.tool?.name === tool.name && "chosen")} data-testid="tool-choice" data-tool=${tool.name} onClick=${() => onOpen(tool)}>
          ${number <= 9 && html`<kbd>${number}</kbd>`}<span class="mono"><b>${tool.name}</b>(${names})</span>
          ${tool.description && html`<span class="muted about">${tool.description.split("\n", 1)[0]}</span>`}
        </button></li>`;
      })}</ul>
      ${!found.length && html`<p class="muted">No tool has “${search}” in its name or description.</p>`}
    </div>`;
}

/** The answer as the user will see it, and as it goes out. */
const Preview = ({ parts }) => html`
  <section class="answer-preview" data-testid="answer-preview" aria-label="Preview">
    ${parts.map((part, index) => part.functionCall
      ? html`<p key=${index} class="says says-call"><span class="tag">calls <b>${part.functionCall.name}</b></span><span class="mono">${writeJson(part.functionCall.args)}</span></p>`
      : html`<p key=${index} class=${classes("says", part.thought ? "says-thought" : "says-words")}>${part.thought && html`<span class="tag">thinks</span>`}${part.text}</p>`)}
    ${!parts.length && html`<p class="muted">Nothing is written yet.</p>`}
    <details class="raw"><summary>As JSON</summary><${Json} value=${{ parts }} /></details>
  </section>`;

/** The model fails: with one of the usual errors, or one of one's own. */
function Failure({ error, onChange, onCancel, onSend, busy }) {
  const form = useRef();
  useEffect(() => form.current.querySelector("input:checked").focus(), []);
  return html`
    <form class="failing" data-testid="answer-failure" ref=${form} onSubmit=${(submitted) => { submitted.preventDefault(); onSend(); }}>
      <h4>Let the model fail</h4>
      <div class="segments wrap" role="radiogroup" aria-label="Kind of error">${ERRORS.map((each) => html`
        <label key=${each.name}><input type="radio" name="failure" checked=${each.name === error.name} onChange=${() => onChange(each)} /><span>${each.name}</span></label>`)}</div>
      ${error.keeps && html`<p class="muted">What you have written so far is said first.</p>`}
      <label>Code <input type="text" class="mono" value=${error.code} data-testid="answer-error-code" onInput=${(typing) => onChange({ ...error, code: typing.target.value })} /></label>
      <label>Message <textarea rows="2" required value=${error.message} data-testid="answer-error-message" onInput=${(typing) => onChange({ ...error, message: typing.target.value })}></textarea></label>
      <div class="tools"><button type="submit" class="danger" data-testid="answer-send" disabled=${busy || !error.message.trim()}>Send the error</button>
        <button type="button" class="quiet" onClick=${onCancel}>Back to the answer</button></div>
    </form>`;
}
