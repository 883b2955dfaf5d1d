// The artifacts of the session: their versions, a preview of each, and what can be done with them.

import { api, sessionPath } from "./api.js";
import { classes, html, useEffect, useRef, useState } from "./html.js";
import { Empty, Icon, Problem, exact, size, time } from "./parts.js";
import { LongText } from "./panel_pieces.js";
import { app, events, reload, select, sessionId, settled, user } from "./store.js";

const e = encodeURIComponent;
const root = () => `${sessionPath(app.value, user.value, sessionId.value)}/artifacts`;
const SHOWN_AS_TEXT = /^text\/|[/+](json|xml|yaml|toml|csv|javascript)\b/;
const MAX_TEXT = 2_000_000;

/** The bytes of base64 in either alphabet. */
export function bytesOf(data) {
  const binary = atob(data.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
}

/** What an artifact's part holds: `{bytes, type}`, or `{uri}` of what is kept elsewhere. */
export function contentsOf(part) {
  if (part.text !== undefined) return { bytes: new TextEncoder().encode(part.text), type: "text/plain" };
  if (part.inlineData) return { bytes: bytesOf(part.inlineData.data ?? ""), type: part.inlineData.mimeType ?? "" };
  return { uri: part.fileData?.fileUri ?? "", type: part.fileData?.mimeType ?? "" };
}

export function ArtifactsPanel() {
  const [held, setHeld] = useState({});
  const [turn, setTurn] = useState(0);
  const [failure, setFailure] = useState(null);
  const picker = useRef();
  const again = () => setTurn((before) => before + 1);
  useEffect(() => {
    if (!sessionId.value) return undefined;
    let left = false;
    api.get(root()).then((names) => left || setHeld({ names }), (error) => left || setHeld({ error }));
    return () => (left = true);
  }, [app.value, user.value, sessionId.value, settled.value, turn]);
  if (!sessionId.value) return html`<${Empty} title="No session is open">Open a session: here stand the files that it made, in all their versions.</${Empty}>`;
  const act = async (what) => {
    setFailure(null);
    try {
      await what();
    } catch (error) {
      setFailure(error);
    }
    again();
  };
  const upload = (change) => act(async () => {
    for (const file of change.target.files) {
      const data = await base64Of(file);
      const artifact = { inlineData: { data, mimeType: file.type || "application/octet-stream", displayName: file.name } };
      await api.post(root(), { filename: file.name, artifact });
    }
    change.target.value = "";
    await reload();
  });
  return html`
    <div class="artifacts pad">
      <div class="tools">
        <button type="button" class="quiet" onClick=${() => picker.current.click()}><${Icon} name="upload" />Upload</button>
        <input type="file" multiple hidden ref=${picker} aria-label="Files to upload" onChange=${upload} />
      </div>
      ${failure && html`<${Problem} error=${failure} />`}
      ${held.error && html`<${Problem} error=${held.error} />`}
      ${!held.names && !held.error && html`<p class="muted" role="status">Loading the artifacts…</p>`}
      ${held.names?.map((name) => html`<${Artifact} key=${name} name=${name} turn=${`${settled.value}.${turn}`} onDelete=${() => act(() => api.delete(`${root()}/${e(name)}`))} />`)}
      ${held.names?.length === 0 && html`<${Empty} title="No artifacts yet">Agents and tools save files here; or upload one.</${Empty}>`}
    </div>`;
}

/** An artifact: its versions, who saved them, and a preview of the chosen one. */
function Artifact({ name, turn, onDelete }) {
  const [versions, setVersions] = useState(null);
  const [chosen, setChosen] = useState(null);
  const [open, setOpen] = useState(false);
  const [error, setError] = useState(null);
  const [sure, setSure] = useState(false);
  const path = `${root()}/${e(name)}/versions`;
  useEffect(() => {
    let left = false;
    api.get(path).then((found) => left || setVersions(found), (failure) => left || setError(failure));
    return () => (left = true);
  }, [path, turn]);
  const version = chosen ?? versions?.at(-1);
  const savedBy = (number) => events.value.findLast((event) => event.actions?.artifactDelta?.[name] === number);
  const writer = savedBy(version);
  return html`
    <details class="artifact" data-testid="artifact" data-name=${name} open=${open} onToggle=${(change) => setOpen(change.target.open)}>
      <summary><${Icon} name="file" /><b class="mono">${name}</b>
        <span class="muted">${versions ? `${versions.length} ${versions.length === 1 ? "version" : "versions"}` : ""}${name.startsWith("user:") ? " · of the user" : ""}</span></summary>
      ${error && html`<${Problem} error=${error} />`}
      ${open && versions && html`
        <div class="tools">
          <label>Version <select value=${version} onChange=${(change) => setChosen(Number(change.target.value))}>
            ${versions.toReversed().map((number) => html`<option key=${number} value=${number}>${number}${number === versions.at(-1) ? " (latest)" : ""}</option>`)}
          </select></label>
          ${writer && html`<span class="muted">saved by <button type="button" class="link" title=${exact(writer.timestamp)} onClick=${() => select(writer.id, { replace: false })}>${writer.author} at ${time(writer.timestamp)}</button></span>`}
          ${sure
            ? html`<span role="alertdialog" aria-label="Delete all versions?">Delete all versions? <button type="button" class="danger" onClick=${onDelete}>Delete</button> <button type="button" class="quiet" onClick=${() => setSure(false)}>Keep</button></span>`
            : html`<button type="button" class="icon-button" aria-label=${`Delete ${name}`} title="Delete" onClick=${() => setSure(true)}><${Icon} name="trash" /></button>`}
        </div>
        <${Preview} key=${`${path}/${version}`} path=${`${path}/${version}`} name=${name} />`}
    </details>`;
}

function Preview({ path, name }) {
  const [held, setHeld] = useState({});
  useEffect(() => {
    let left = false;
    let url = "";
    api.get(path).then(
      (part) => {
        if (left) return;
        const found = contentsOf(part);
        // never as HTML from this origin: a preview is an image, a sound, a film or text
        const type = /^(image|audio|video)\//.test(found.type) ? found.type : "application/octet-stream";
        if (found.bytes) url = URL.createObjectURL(new Blob([found.bytes], { type }));
        setHeld({ ...found, url });
      },
      (error) => left || setHeld({ error }),
    );
    return () => {
      left = true;
      if (url) URL.revokeObjectURL(url);
    };
  }, [path]);
  if (held.error) return html`<${Problem} error=${held.error} />`;
  if (held.type === undefined) return html`<p class="muted" role="status">Loading…</p>`;
  if (!held.bytes) return html`<p>It is kept at <code>${held.uri}</code> <span class="muted">${held.type}</span></p>`;
  const facts = html`<p class="muted">${held.type || "no type"} · ${size(held.bytes.length)} · <a href=${held.url} download=${name.split("/").at(-1)}>Download</a></p>`;
  return html`<div class="shown-file">${facts}${shownAs(held, name)}</div>`;
}

function shownAs({ type, url, bytes }, name) {
  if (type.startsWith("image/")) return html`<img src=${url} alt=${`Preview of ${name}`} />`;
  if (type.startsWith("audio/")) return html`<audio controls src=${url}></audio>`;
  if (type.startsWith("video/")) return html`<video controls src=${url}></video>`;
  if (!SHOWN_AS_TEXT.test(type) || bytes.length > MAX_TEXT) return html`<p class="muted">There is no preview of this kind of file.</p>`;
  let text = new TextDecoder().decode(bytes);
  if (/[/+]json/.test(type)) {
    try {
      text = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      // as it is, then
    }
  }
  return html`<div class="says says-data"><${LongText} text=${text} mono /></div>`;
}

function base64Of(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(String(reader.result).split(",", 2)[1] ?? "");
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(file);
  });
}
