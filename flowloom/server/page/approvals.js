// What waits for a person: approvals, questions, credentials. Each is a card in the chat, where it was asked.

import { classes, html, useState } from "./html.js";
import { CONFIRMATION, CREDENTIAL, waitingRequests } from "./chat_rows.js";
import { Icon, Json } from "./parts.js";
import { Link, markdown } from "./markdown.js";
import { prefs } from "./prefs.js";
import { send } from "./runs.js";
import { reveal, running } from "./store.js";

/** Answer a request: the run that asked goes on. */
function answer({ call, event }, response) {
  const part = { functionResponse: { id: call.id, name: call.name, response } };
  return send([part], { functionCallEventId: event.id });
}

const isPlain = (value) => ["string", "number", "boolean"].includes(typeof value);

/** One argument as a field: text, a number, yes or no; anything else as JSON. `edit(value, problem)`. */
function Field({ id, name, value, edit, disabled }) {
  const [text, setText] = useState(isPlain(value) ? String(value) : JSON.stringify(value, null, 2));
  const [problem, setProblem] = useState("");
  const change = (typed) => {
    setText(typed);
    let said = "";
    let read = typed;
    if (typeof value === "number" && (typed.trim() === "" || Number.isNaN(Number(typed)))) said = "A number is expected.";
    else if (typeof value === "number") read = Number(typed);
    else if (!isPlain(value)) {
      try {
        read = JSON.parse(typed);
      } catch (error) {
        said = `Not JSON: ${error.message}`;
      }
    }
    setProblem(said);
    edit(read, said);
  };
  if (typeof value === "boolean") {
    return html`<label class="field check"><input type="checkbox" data-arg=${name} checked=${value} disabled=${disabled} onChange=${(event) => edit(event.target.checked, "")} /> ${name}</label>`;
  }
  const rows = Math.min(12, text.split("\n").length + Math.floor(text.length / 60));
  return html`
    <div class="field">
      <label for=${id}>${name}</label>
      <textarea id=${id} data-arg=${name} rows=${rows} dir="auto" value=${text} disabled=${disabled} aria-invalid=${String(Boolean(problem))} aria-describedby=${`${id}-why`} onInput=${(event) => change(event.target.value)} />
      <p class="field-problem" id=${`${id}-why`}>${problem}</p>
    </div>
  `;
}

/** A call to be approved: its arguments may be changed, a refusal may have a reason. */
function Confirmation({ request, disabled }) {
  const { call, event, subject } = request;
  const asked = call.args?.toolConfirmation ?? {};
  const [args, setArgs] = useState(subject.args ?? {});
  const [payload, setPayload] = useState(asked.payload);
  const [problems, setProblems] = useState({});
  const [reason, setReason] = useState("");
  const edited = JSON.stringify(args) !== JSON.stringify(subject.args ?? {});
  const wrong = Object.values(problems).some(Boolean);
  const approve = () => {
    const more = { ...(edited ? { editedArgs: args } : {}), ...(payload === undefined || payload === null ? {} : { payload }) };
    if (!wrong) answer(request, { confirmed: true, ...more });
  };
  const reject = () => answer(request, { confirmed: false, ...(reason.trim() ? { reason: reason.trim() } : {}) });
  const edit = (name) => (value, problem) => {
    setArgs((now) => ({ ...now, [name]: value }));
    setProblems((now) => ({ ...now, [name]: problem }));
  };
  return html`
    <h3 class="card-title"><${Icon} name="warn" /><span><bdi>${event.author}</bdi> wants to run <code>${subject.name}</code></span></h3>
    ${asked.hint && html`<div class="card-hint" dir="auto">${markdown(asked.hint)}</div>`}
    <div class="fields">
      ${Object.entries(subject.args ?? {}).map(([name, value]) => html`<${Field} key=${name} id=${`arg-${call.id}-${name}`} ...${{ name, value, disabled }} edit=${edit(name)} />`)}
      ${Object.keys(subject.args ?? {}).length === 0 && html`<p class="muted">It takes no arguments.</p>`}
      ${asked.payload !== undefined &&
      asked.payload !== null &&
      html`<${Field} id=${`payload-${call.id}`} name="payload" value=${asked.payload} disabled=${disabled} edit=${(value, problem) => { setPayload(value); setProblems((now) => ({ ...now, "": problem })); }} />`}
    </div>
    <div class="card-actions">
      <button type="button" class="primary" data-testid="approve" disabled=${disabled || wrong} onClick=${approve}>${edited ? "Approve with changes" : "Approve"}</button>
      <button type="button" class="danger" data-testid="reject" disabled=${disabled} onClick=${reject}>Reject</button>
      <input type="text" class="reason" data-testid="reject-reason" aria-label="Reason for rejecting" placeholder="Reason for rejecting (if you like)" value=${reason} disabled=${disabled} onInput=${(event) => setReason(event.target.value)} />
    </div>
  `;
}

/** A question of a tool or a model: answered by what its schema asks for. */
function Question({ request, disabled }) {
  const { call, event } = request;
  const schema = call.args?.response_schema ?? call.args?.responseSchema ?? null;
  const kind = schema?.enum ? "enum" : (schema?.type ?? "string").toLowerCase();
  const simple = ["string", "enum", "number", "integer", "boolean"].includes(kind);
  const [text, setText] = useState(kind === "boolean" ? "true" : "");
  const [problem, setProblem] = useState("");
  const reply = (submit) => {
    submit.preventDefault();
    let value = text;
    if (kind === "number" || kind === "integer") value = Number(text);
    if (kind === "boolean") value = text === "true";
    if (kind === "enum") value = schema.enum[text === "" ? 0 : Number(text)];
    if ((kind === "number" || kind === "integer") && (text.trim() === "" || Number.isNaN(value))) return setProblem("A number is expected.");
    if (!simple) {
      try {
        value = JSON.parse(text);
      } catch (error) {
        return setProblem(`Not JSON: ${error.message}`);
      }
    }
    return answer(request, { result: value });
  };
  const id = `input-${call.id}`;
  const type = (change) => { setText(change.target.value); setProblem(""); };
  return html`
    <form onSubmit=${reply}>
      <h3 class="card-title"><${Icon} name="user" /><label for=${id}><bdi>${event.author}</bdi> asks: <span dir="auto">${call.args?.message || "What shall it be?"}</span></label></h3>
      ${call.args?.payload && html`<${Json} value=${call.args.payload} />`}
      <div class="fields">
        ${kind === "enum"
          ? html`<select id=${id} disabled=${disabled} onChange=${type}>${schema.enum.map((each, index) => html`<option value=${index}>${String(each)}</option>`)}</select>`
          : kind === "boolean"
            ? html`<select id=${id} disabled=${disabled} onChange=${type}><option value="true">Yes</option><option value="false">No</option></select>`
            : html`<textarea id=${id} rows=${simple ? 1 : 4} dir="auto" disabled=${disabled} value=${text} aria-invalid=${String(Boolean(problem))} aria-describedby=${`${id}-why`} onInput=${type} />`}
        <p class="field-problem" id=${`${id}-why`} role="alert">${problem}</p>
        ${!simple && html`<details><summary>What it has to look like</summary><${Json} value=${schema} /></details>`}
      </div>
      <div class="card-actions"><button type="submit" class="primary" data-testid="reply" disabled=${disabled}>Answer</button></div>
    </form>
  `;
}

/** A credential that a tool needs: one signs in elsewhere, and brings back the address one was led to; or a key. */
function Credential({ request, disabled }) {
  const { call, event } = request;
  const config = call.args?.authConfig ?? call.args?.auth_config ?? {};
  const exchanged = config.exchangedAuthCredential ?? config.rawAuthCredential ?? {};
  const address = exchanged.oauth2?.authUri ?? "";
  const [text, setText] = useState("");
  const reply = (submit) => {
    submit.preventDefault();
    const given = address
      ? { ...exchanged, oauth2: { ...exchanged.oauth2, authResponseUri: text.trim() } }
      : { ...exchanged, authType: exchanged.authType ?? "apiKey", apiKey: text.trim() };
    answer(request, { ...config, exchangedAuthCredential: given });
  };
  const id = `auth-${call.id}`;
  return html`
    <form onSubmit=${reply}>
      <h3 class="card-title"><${Icon} name="user" /><span><bdi>${event.author}</bdi> needs you to sign in</span></h3>
      ${address && html`<p><${Link} href=${address}>Sign in (opens beside this page)</${Link}></p>`}
      <div class="field">
        <label for=${id}>${address ? "The address that you were led to" : "The key"}</label>
        <input id=${id} type=${address ? "url" : "password"} autocomplete="off" required disabled=${disabled} value=${text} onInput=${(change) => setText(change.target.value)} />
      </div>
      <div class="card-actions"><button type="submit" class="primary" data-testid="consent" disabled=${disabled}>Go on</button></div>
    </form>
  `;
}

const said = (answer) => {
  const response = answer.response ?? {};
  if ("confirmed" in response) return response.confirmed ? (response.editedArgs ? "Approved with changes." : "Approved.") : `Rejected${response.reason ? `: ${response.reason}` : "."}`;
  if ("result" in response) return `Answered: ${typeof response.result === "string" ? response.result : JSON.stringify(response.result)}`;
  return "Answered.";
};

/** The card of a request; what was answered, once it is. */
export function Approval({ request }) {
  const { call, answer: given, subject } = request;
  const [testid, Card] = { [CONFIRMATION]: ["approval", Confirmation], [CREDENTIAL]: ["auth-request", Credential] }[call.name] ?? ["input-request", Question];
  if (given) {
    return html`<p class="answered" data-testid=${`${testid}-answered`}><${Icon} name="check" /><span>${subject.name && html`<code>${subject.name}</code> `}<span dir="auto">${said(given)}</span></span></p>`;
  }
  const readOnly = prefs.value.events === "legacy" && !call.id;
  return html`<section class=${classes("card", testid)} data-testid=${testid} data-request=${call.id} tabindex="-1" aria-label="Waits for you"><${Card} request=${request} disabled=${running.value || readOnly} /></section>`;
}

/** How many requests wait, above the composer: each leads to its card. */
export function Waiting() {
  const list = waitingRequests.value;
  if (list.length === 0) return null;
  return html`
    <div class="waiting-bar" role="status" data-testid="waiting">
      <${Icon} name="user" />
      <span>${list.length === 1 ? "One request waits for you:" : `${list.length} requests wait for you:`}</span>
      ${list.map(
        ({ call, event, subject }) => html`<button type="button" class="quiet" key=${call.id} onClick=${() => reveal(event.id)}>${subject.name ?? (call.args?.message ?? "sign in").slice(0, 40)}</button>`,
      )}
    </div>
  `;
}
