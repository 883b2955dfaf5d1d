// Where one writes: the draft, files, sending and stopping.

import { classes, html, signal, useEffect, useLayoutEffect, useRef } from "./html.js";
import { size } from "./numbers.js";
import { Icon, IconButton, Problem } from "./parts.js";
import { prefs, setPref } from "./prefs.js";
import { send, stop } from "./runs.js";
import { app, run, sessionId, user } from "./store.js";

const draft = signal("");
const files = signal([]);
const refused = signal(null);
const MOST = 20 * 1024 * 1024; // bytes of one file: more than a body may have when it is base64

let beginning = false; // whether a message is on its way for which a session is made

const keyOf = () => `flowloom.draft:${app.value}/${user.value}/${sessionId.value}`;

/** Write down the draft, so that it is there after a reload. */
function write(text, key = keyOf()) {
  draft.value = text;
  try {
    if (text) localStorage.setItem(key, text);
    else localStorage.removeItem(key);
  } catch {
    // no room: it stands in the field at least
  }
}

const base64 = (file) =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });

async function attach(list) {
  for (const file of list) {
    if (file.size > MOST) {
      refused.value = { detail: `${file.name} has ${size(file.size)}; a file may have ${size(MOST)}.` };
      continue;
    }
    const data = await base64(file);
    files.value = [...files.value, { displayName: file.name || "pasted", mimeType: file.type || "application/octet-stream", data, size: file.size }];
  }
}

async function submit() {
  const text = draft.value;
  if (run.value || !app.value || (!text.trim() && files.value.length === 0)) return;
  const parts = [
    ...(text.trim() ? [{ text }] : []),
    ...files.value.map(({ displayName, mimeType, data }) => ({ inlineData: { displayName, mimeType, data } })),
  ];
  const sentFiles = files.value;
  write("");
  files.value = [];
  refused.value = null;
  beginning = !sessionId.value;
  try {
    await send(parts);
  } catch (error) {
    refused.value = error; // before anything was sent: it stands here again
    if (!draft.value) write(text);
    files.value = [...sentFiles, ...files.value];
  }
}

/** The field where one writes, for the key that leads there. */
export const focusComposer = () => document.getElementById("composer")?.focus();

export function Composer() {
  const field = useRef();
  const picker = useRef();
  const where = keyOf();
  const before = useRef(where);
  useEffect(() => {
    const left = before.current;
    before.current = where;
    if (beginning && sessionId.value) {
      beginning = false;
      const meanwhile = draft.value;
      write("", left);
      return write(meanwhile);
    }
    try {
      draft.value = localStorage.getItem(where) ?? "";
    } catch {
      draft.value = "";
    }
    return undefined;
  }, [where]);
  useLayoutEffect(() => {
    const { current } = field;
    current.style.height = "auto";
    current.style.height = `${Math.min(current.scrollHeight + 2, 240)}px`;
  }, [draft.value]);
  const pressed = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      submit();
    }
  };
  const pasted = (event) => {
    if (event.clipboardData.files.length) {
      event.preventDefault();
      attach(event.clipboardData.files);
    }
  };
  const going = run.value;
  const { streaming } = prefs.value;
  return html`
    <form
      class="composer"
      onSubmit=${(event) => { event.preventDefault(); submit(); }}
      onDragOver=${(event) => event.preventDefault()}
      onDrop=${(event) => { event.preventDefault(); attach(event.dataTransfer.files); }}
    >
      ${refused.value && html`<${Problem} error=${refused.value} />`}
      ${files.value.length > 0 &&
      html`
        <ul class="attached" aria-label="Attached files">
          ${files.value.map(
            (file) => html`<li class="file" key=${file}><${Icon} name="file" /><span>${file.displayName}</span> <span class="muted">${size(file.size)}</span><${IconButton} name="close" label=${`Take ${file.displayName} away`} onClick=${() => (files.value = files.value.filter((each) => each !== file))} /></li>`,
          )}
        </ul>
      `}
      <div class="writing">
        <textarea
          id="composer"
          ref=${field}
          rows="1"
          dir="auto"
          data-testid="composer"
          aria-label="Message"
          aria-describedby="composer-keys"
          placeholder=${app.value ? `Message ${app.value}` : "Choose an app first"}
          disabled=${!app.value}
          value=${draft.value}
          onInput=${(event) => write(event.target.value)}
          onKeyDown=${pressed}
          onPaste=${pasted}
        />
        <div class="composer-row">
          <input type="file" multiple hidden ref=${picker} data-testid="attach-files" aria-label="Files" tabindex="-1" onChange=${(event) => { attach([...event.target.files]); event.target.value = ""; }} />
          <${IconButton} name="attach" label="Attach files" data-testid="attach" disabled=${!app.value} onClick=${() => picker.current.click()} />
          <label class="switch" title="Answers come word by word">
            <input type="checkbox" role="switch" data-testid="stream-toggle" checked=${streaming} onChange=${(event) => setPref("streaming", event.target.checked)} />
            <span>Streaming</span>
          </label>
          <span class="composer-keys muted" id="composer-keys">Enter sends, Shift+Enter makes a line</span>
          ${going
            ? html`<button type="button" class=${classes("round", "stop")} data-testid="stop" aria-label="Stop" title="Stop (Esc)" disabled=${going.state === "stopping"} onClick=${stop}><${Icon} name="stop" /></button>`
            : html`<button type="submit" class="round primary" data-testid="send" aria-label="Send" title="Send (Enter)" disabled=${!app.value || (!draft.value.trim() && files.value.length === 0)}><${Icon} name="send" /></button>`}
        </div>
      </div>
    </form>
  `;
}
