// What waits for a person: approvals, questions, credentials. Each is a card in the chat, where it was asked.

import { classes, html, useState } from "./html.js";
import { CONFIRMATION, CREDENTIAL, waitingRequests } from "./chat_rows.js";
import { isNumber, readJson, readNumber, writeJson } from "./json.js";
import { Icon, Json, LONG, Long, short } from "./parts.js";
import { Link, markdown } from "./markdown.js";
import { problemsOf } from "./model_check.js";
import { SchemaForm, formOf, read } from "./model_form.js";
import { fieldOf } from "./model_schema.js";
import { prefs } from "./prefs.js";
import { send } from "./runs.js";
import { reveal, running } from "./store.js";

/** Answer a request: the run that asked goes on. */
function answer({ call, event }, response) {
  const part = { functionResponse: { id: call.id, name: call.name, response } };
  return send([part], { functionCallEventId: event.id });
}

const MOST = 2000; // characters of a question, and of what was answered
const FOR_PROGRAMS = "Answer with `confirmed`"; // how the part of a hint begins that the buttons stand for

const isPlain = (value) => ["string", "number", "bigint", "boolean"].includes(typeof value);

/** One argument as a field: text, a number, yes or no; anything else as JSON. `edit(value, problem)`. */
function Field({ id, name, value, edit, disabled }) {
  const [text, setText] = useState(isPlain(value) ? String(value) : writeJson(value, 2));
  const [problem, setProblem] = useState("");
  const change = (typed) => {
    setText(typed);
    let said = "";
    let read = typed;
    if (isNumber(value)) {
      read = readNumber(typed);
      if (Number.isNaN(read)) said = "A number is expected.";
    }
    else if (!isPlain(value)) {
      try {
        read = readJson(typed);
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
  if (text.length > LONG) return html`<div class="field"><span class="field-name">${name}, too long to be changed here</span><div class="json" dir="auto"><${Long} text=${text} most=${MOST} /></div></div>`;
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
  const edited = writeJson(args) !== writeJson(subject.args ?? {});
  const wrong = Object.values(problems).some(Boolean);
  const hint = asked.hint?.split(FOR_PROGRAMS)[0].trim();
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
    <h2 class="card-title"><${Icon} name="warn" /><span><bdi>${event.author}</bdi> wants to run <code>${short(subject.name, 80)}</code></span></h2>
    ${hint && html`<div class="card-hint" dir="auto">${markdown(short(hint, LONG))}</div>`}
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

const SIMPLE = ["text", "integer", "number", "boolean", "choice"];

/** A question of a tool or a model: answered by what its schema asks for, in one field or in a form. */
function Question({ request, disabled }) {
  const { call, event } = request;
  const field = fieldOf(call.args?.response_schema ?? call.args?.responseSchema ?? { type: "string" });
  const simple = !field.nullable && SIMPLE.includes(field.kind);
  const options = field.kind === "boolean" ? [["Yes", true], ["No", false]] : (field.values ?? []).map((each) => [typeof each === "string" ? each : writeJson(each), each]);
  const [text, setText] = useState(options.length ? "0" : "");
  const [form, setForm] = useState(() => formOf(field));
  const [problems, setProblems] = useState([]);
  const typed = () => {
    if (options.length) return { value: options[Number(text)][1], problems: [] };
    if (field.kind === "text") return { value: text, problems: problemsOf(field, text) };
    const value = readNumber(text);
    if (Number.isNaN(value)) return { value, problems: [{ path: "", message: "A number is expected." }] };
    return { value, problems: problemsOf(field, value) };
  };
  const reply = (submit) => {
    submit.preventDefault();
    const given = simple ? typed() : read(field, form);
    if (given.problems.length) return setProblems(given.problems);
    return answer(request, { result: given.value });
  };
  const id = `input-${call.id}`;
  const type = (change) => { setText(change.target.value); setProblems([]); };
  const title = html`<bdi>${event.author}</bdi> asks: <span dir="auto">${short(call.args?.message || "What shall it be?", MOST)}</span>`;
  return html`
    <form onSubmit=${reply}>
      <h2 class="card-title"><${Icon} name="user" />${simple ? html`<label for=${id}>${title}</label>` : html`<span>${title}</span>`}</h2>
      ${call.args?.payload && html`<${Json} value=${call.args.payload} />`}
      <fieldset class="fields" disabled=${disabled}>
        ${!simple
          ? html`<${SchemaForm} field=${field} form=${form} problems=${problems} testid="input-form" onChange=${(changed) => { setForm(changed); setProblems([]); }} />`
          : options.length
            ? html`<select id=${id} value=${text} onChange=${type}>${options.map(([name], index) => html`<option value=${String(index)}>${name}</option>`)}</select>`
            : html`<textarea id=${id} rows="1" dir="auto" value=${text} aria-invalid=${String(problems.length > 0)} aria-describedby=${`${id}-why`} onInput=${type} />`}
        ${simple && html`<p class="field-problem" id=${`${id}-why`} role="alert">${problems.map(({ message }) => message).join(", ")}</p>`}
      </fieldset>
      <div class="card-actions"><button type="submit" class="primary" data-testid="reply" disabled=${disabled}>Answer</button></div>
    </form>
  `;
}

/** What one gives for a credential: `{label, name, type}` for each field, and the credential that they make. */
function fieldsOf(config) {
  const scheme = config.authScheme ?? config.auth_scheme ?? {};
  const known = config.exchangedAuthCredential ?? config.rawAuthCredential ?? {};
  if (known.oauth2?.authUri) {
    const fields = [{ label: "The address that you were led to", name: "address", type: "url" }];
    return { fields, made: ({ address }) => ({ ...known, oauth2: { ...known.oauth2, authResponseUri: address } }) };
  }
  if (scheme.type === "http") {
    const name = (scheme.scheme ?? "bearer").toLowerCase();
    const made = (credentials) => ({ ...known, authType: "http", http: { scheme: name, credentials } });
    if (name !== "basic") return { fields: [{ label: "The token", name: "token", type: "password" }], made };
    return { fields: [{ label: "User name", name: "username", type: "text" }, { label: "Password", name: "password", type: "password" }], made };
  }
  const made = ({ key }) => ({ ...known, authType: known.authType ?? "apiKey", apiKey: key });
  return { fields: [{ label: scheme.name ? `The key (${scheme.name})` : "The key", name: "key", type: "password" }], made };
}

/** A credential that a tool needs: one signs in elsewhere, and brings back the address one was led to; or a key, or a password. */
function Credential({ request, disabled }) {
  const { call, event } = request;
  const config = call.args?.authConfig ?? call.args?.auth_config ?? {};
  const address = config.exchangedAuthCredential?.oauth2?.authUri ?? "";
  const { fields, made } = fieldsOf(config);
  const [given, setGiven] = useState({});
  const reply = (submit) => {
    submit.preventDefault();
    const credential = made(Object.fromEntries(fields.map(({ name }) => [name, (given[name] ?? "").trim()])));
    answer(request, { ...config, exchangedAuthCredential: credential });
  };
  return html`
    <form onSubmit=${reply}>
      <h2 class="card-title"><${Icon} name="user" /><span><bdi>${event.author}</bdi> needs you to sign in</span></h2>
      ${address && html`<p><${Link} href=${address}>Sign in (opens beside this page)</${Link}></p>`}
      ${fields.map(({ label, name, type }) => html`
        <div class="field" key=${name}>
          <label for=${`auth-${call.id}-${name}`}>${label}</label>
          <input id=${`auth-${call.id}-${name}`} type=${type} autocomplete="off" required disabled=${disabled} value=${given[name] ?? ""} onInput=${(typing) => setGiven((now) => ({ ...now, [name]: typing.target.value }))} />
        </div>`)}
      <div class="card-actions"><button type="submit" class="primary" data-testid="consent" disabled=${disabled}>Go on</button></div>
    </form>
  `;
}

const said = (answer) => {
  const response = answer.response ?? {};
  if ("confirmed" in response) return response.confirmed ? (response.editedArgs ? "Approved with changes." : "Approved.") : `Rejected${response.reason ? `: ${response.reason}` : "."}`;
  if ("result" in response) return `Answered: ${typeof response.result === "string" ? response.result : writeJson(response.result)}`;
  return "Answered.";
};

/** The card of a request; what was answered, once it is. */
export function Approval({ request }) {
  const { call, answer: given, subject } = request;
  const [testid, Card] = { [CONFIRMATION]: ["approval", Confirmation], [CREDENTIAL]: ["auth-request", Credential] }[call.name] ?? ["input-request", Question];
  if (given) {
    return html`<p class="answered" data-testid=${`${testid}-answered`}><${Icon} name="check" /><span>${subject.name && html`<code>${short(subject.name, 80)}</code> `}<span dir="auto">${short(said(given), MOST)}</span></span></p>`;
  }
  const readOnly = prefs.value.events === "legacy" && !call.id;
  return html`<div role="group" class=${classes("card", testid)} data-testid=${testid} data-request=${call.id} tabindex="-1" aria-label="Waits for you"><${Card} request=${request} disabled=${running.value || readOnly} /></div>`;
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
        ({ call, event, subject }) => html`<button type="button" class="quiet" key=${call.id} onClick=${() => reveal(event.id)}>${short(subject.name ?? call.args?.message ?? "sign in", 40)}</button>`,
      )}
    </div>
  `;
}
