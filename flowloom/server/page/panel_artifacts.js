// The artifacts of the session: their versions, a preview of each, and what can be done with them.

import { useAnswer } from "./answer.js";
import { api, sessionPath } from "./api.js";
import { classes, html, useEffect, useRef, useState } from "./html.js";
import { readJson, writeJson } from "./json.js";
import { counted, exact, size, time } from "./numbers.js";
import { Empty, Icon, Problem, short } from "./parts.js";
import { LongText } from "./panel_pieces.js";
import { app, events, openedId, reload, select, settled, user } from "./store.js";

const e = encodeURIComponent;
const root = () => `${sessionPath(app.value, user.value, openedId.value)}/artifacts`;
/** The address of a version of an artifact; null for a version that there is not. */
export const versionPath = (path, version) => (Number.isInteger(version) ? `${path}/${version}` : null);
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
  const [turn, setTurn] = useState(0);
  const [failure, setFailure] = useState(null);
  const picker = useRef();
  const again = () => setTurn((before) => before + 1);
  const { value: names, error } = useAnswer(openedId.value && root(), [settled.value, turn]);
  if (!openedId.value) return html`<${Empty} title="No session is open">Open a session: here stand the files that it made, in all their versions.</${Empty}>`;
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
      ${error && html`<${Problem} error=${error} />`}
      ${!names && !error && html`<p class="muted" role="status">Loading the artifacts…</p>`}
      ${names?.map((name) => html`<${Artifact} key=${`${root()}/${name}`} name=${name} turn=${`${settled.value}.${turn}`} onDelete=${() => act(() => api.delete(`${root()}/${e(name)}`))} />`)}
      ${names?.length === 0 && html`<${Empty} title="No artifacts yet">Agents and tools save files here; or upload one.</${Empty}>`}
    </div>`;
}

/** An artifact: its versions, who saved them, and a preview of the chosen one. */
function Artifact({ name, turn, onDelete }) {
  const [chosen, setChosen] = useState(null);
  const [open, setOpen] = useState(false);
  const [sure, setSure] = useState(false);
  const path = `${root()}/${e(name)}/versions`;
  const { value: versions, error } = useAnswer(path, [turn]);
  const version = versions?.includes(chosen) ? chosen : versions?.at(-1);
  const shown = versionPath(path, version);
  const savedBy = (number) => events.value.findLast((event) => event.actions?.artifactDelta?.[name] === number);
  const writer = savedBy(version);
  return html`
    <details class="artifact" data-testid="artifact" data-name=${name} open=${open} onToggle=${(change) => setOpen(change.target.open)}>
      <summary><${Icon} name="file" /><b class="mono">${short(name)}</b>
        <span class="muted">${versions ? counted(versions.length, "version") : ""}${name.startsWith("user:") ? " · of the user" : ""}</span></summary>
      ${error && html`<${Problem} error=${error} />`}
      ${open && versions?.length === 0 && html`<p class="muted">It is deleted.</p>`}
      ${open && shown && html`
        <div class="tools">
          <label>Version <select value=${version} onChange=${(change) => setChosen(Number(change.target.value))}>
            ${versions.toReversed().map((number) => html`<option key=${number} value=${number}>${number}${number === versions.at(-1) ? " (latest)" : ""}</option>`)}
          </select></label>
          ${writer && html`<span class="muted">saved by <button type="button" class="link" title=${exact(writer.timestamp)} onClick=${() => select(writer.id, { replace: false })}>${writer.author} at ${time(writer.timestamp)}</button></span>`}
          ${sure
            ? html`<span role="alertdialog" aria-label="Delete all versions?">Delete all versions? <button type="button" class="danger" onClick=${onDelete}>Delete</button> <button type="button" class="quiet" onClick=${() => setSure(false)}>Keep</button></span>`
            : html`<button type="button" class="icon-button" aria-label=${`Delete ${name}`} title="Delete" onClick=${() => setSure(true)}><${Icon} name="trash" /></button>`}
        </div>
        <${Preview} path=${shown} name=${name} />`}
    </details>`;
}

function Preview({ path, name }) {
  const { value: found, error } = useAnswer(path, [], contentsOf);
  const [url, setUrl] = useState("");
  useEffect(() => {
    if (!found?.bytes) return undefined;
    // never as HTML from this origin: a preview is an image, a sound, a film or text
    const type = /^(image|audio|video)\//.test(found.type) ? found.type : "application/octet-stream";
    const made = URL.createObjectURL(new Blob([found.bytes], { type }));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [found]);
  if (error) return html`<${Problem} error=${error} />`;
  if (found && !found.bytes) return html`<p>It is kept at <code>${found.uri}</code> <span class="muted">${found.type}</span></p>`;
  if (!found || !url) return html`<p class="muted" role="status">Loading…</p>`;
  const facts = html`<p class="muted">${found.type || "no type"} · ${size(found.bytes.length)} · <a href=${url} download=${name.split("/").at(-1)}>Download</a></p>`;
  return html`<div class="shown-file">${facts}${shownAs({ ...found, url }, name)}</div>`;
}

function shownAs({ type, url, bytes }, name) {
  if (type.startsWith("image/")) return html`<img src=${url} alt=${`Preview of ${name}`} />`;
  if (type.startsWith("audio/")) return html`<audio controls src=${url}></audio>`;
  if (type.startsWith("video/")) return html`<video controls src=${url}></video>`;
  if (!SHOWN_AS_TEXT.test(type) || bytes.length > MAX_TEXT) return html`<p class="muted">There is no preview of this kind of file.</p>`;
  let text = new TextDecoder().decode(bytes);
  if (/[/+]json/.test(type)) {
    try {
      text = writeJson(readJson(text), 2);
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
