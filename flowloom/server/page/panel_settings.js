// What is remembered in this browser, and how to change it.

import { html, useState } from "./html.js";
import { prefs, setPref } from "./prefs.js";

const Choice = ({ name, label, options, hint }) => html`
  <fieldset class="setting">
    <legend>${label}</legend>
    <div class="segments">${options.map(([value, text]) => html`
      <label key=${value}><input type="radio" name=${name} value=${value} checked=${prefs.value[name] === value}
        onChange=${() => setPref(name, value)} /><span>${text}</span></label>`)}</div>
    ${hint && html`<p class="muted">${hint}</p>`}
  </fieldset>`;

const Switch = ({ name, label, hint }) => html`
  <div class="setting">
    <label class="check"><input type="checkbox" checked=${Boolean(prefs.value[name])} onChange=${(change) => setPref(name, change.target.checked)} /> ${label}</label>
    ${hint && html`<p class="muted">${hint}</p>`}
  </div>`;

function Amount({ name, label, hint, least, most }) {
  const [text, setText] = useState(String(prefs.value[name]));
  const value = Number(text);
  const wrong = text.trim() === "" || !Number.isInteger(value) || value < least || value > most;
  return html`
    <div class="setting">
      <label>${label} <input type="number" min=${least} max=${most} step="1" value=${text} aria-invalid=${String(wrong)}
        onInput=${(typing) => {
          setText(typing.target.value);
          const typed = Number(typing.target.value);
          if (typing.target.value.trim() && Number.isInteger(typed) && typed >= least && typed <= most) setPref(name, typed);
        }} /></label>
      ${wrong && html`<p class="form-error" role="alert">A whole number from ${least} to ${most}.</p>`}
      <p class="muted">${hint}</p>
    </div>`;
}

/** Prices by model, in dollars for a million tokens. */
function Prices() {
  const { prices } = prefs.value;
  const [fresh, setFresh] = useState("");
  const put = (model, change) => setPref("prices", { ...prices, [model]: { input: 0, output: 0, ...prices[model], ...change } });
  const cell = (model, kind, label) => html`<td><input type="number" min="0" step="any" value=${prices[model][kind] ?? ""}
    aria-label=${`${label} of ${model}`} onChange=${(change) => put(model, { [kind]: change.target.value === "" ? undefined : Math.max(0, Number(change.target.value)) || 0 })} /></td>`;
  const remove = (model) => setPref("prices", Object.fromEntries(Object.entries(prices).filter(([name]) => name !== model)));
  const add = (submitted) => {
    submitted.preventDefault();
    if (fresh.trim()) put(fresh.trim(), {});
    setFresh("");
  };
  return html`
    <section class="setting" aria-labelledby="prices-title">
      <h3 id="prices-title">Prices</h3>
      <p class="muted">Dollars for a million tokens; a name stands for all models that begin with it. The run panel sums what each agent costs.</p>
      ${Object.keys(prices).length > 0 && html`<table class="prices"><thead><tr><th scope="col">Model</th><th scope="col">In</th><th scope="col">Cached</th><th scope="col">Out</th><td></td></tr></thead>
        <tbody>${Object.keys(prices).map((model) => html`<tr key=${model}><th scope="row" class="mono">${model}</th>
          ${cell(model, "input", "Price in")}${cell(model, "cached", "Price of cached tokens")}${cell(model, "output", "Price out")}
          <td><button type="button" class="quiet" aria-label=${`Forget the price of ${model}`} onClick=${() => remove(model)}>Remove</button></td></tr>`)}</tbody></table>`}
      <form class="tools" onSubmit=${add}>
        <input type="text" class="mono" aria-label="Model" placeholder="gemini-2.5-flash" value=${fresh} onInput=${(typing) => setFresh(typing.target.value)} />
        <button type="submit" class="quiet">Add a model</button>
      </form>
    </section>`;
}

export const SettingsPanel = () => html`
  <div class="settings pad">
    <${Choice} name="theme" label="Theme" options=${[["system", "As the system"], ["light", "Light"], ["dark", "Dark"]]} />
    <${Switch} name="streaming" label="Answers come word by word" />
    <${Choice} name="events" label="Endpoint of runs" options=${[["canonical", "Canonical"], ["legacy", "Legacy"]]}
      hint="Canonical is /run_sse with whole events; legacy is /apps/APP/run with the flat form. Both show the same messages." />
    <${Amount} name="retained" label="Events kept in memory" least=${100} most=${20000} hint="Of a session; older ones are loaded when one scrolls to them. It holds from the next session on that is opened." />
    <${Amount} name="resumeGrace" label="Seconds that a run goes on without us" least=${0} most=${60} hint="When the connection is lost, the run goes on for so long, so that nothing is lost if it comes back." />
    <${Switch} name="sound" label="A sound when something waits for a person" hint="An approval, or a request to be answered as the model." />
    <${Switch} name="badge" label="A number in the window's title" hint="How many requests wait to be answered as the model." />
    <${Prices} />
  </div>`;
