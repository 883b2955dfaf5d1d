// The legacy form of a stream, `{type, data}` for each thing that an event holds, read as the events it was made of.

const BARE = { message: "text", delta: "text", thought: "text", error: "message" };
const NEEDED = {
  message: "text",
  delta: "text",
  thought: "text",
  tool_call: null,
  tool_result: null,
  transfer: "agent",
  sources: "sources",
  error: null,
  done: null,
  metadata: "fields",
  part: "part",
};
const picked = (data, ...names) => Object.fromEntries(names.filter((name) => name in data).map((name) => [name, data[name]]));
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

function known({ type, data }) {
  if (typeof data === "string" && type in BARE) return [type, { [BARE[type]]: data }];
  const fields = isObject(data) ? { ...data } : {};
  const needed = NEEDED[type];
  return [type in NEEDED && (needed === null || needed in fields) ? type : "", fields];
}

function partOf(kind, data) {
  if (kind === "part") return data.part;
  const signed = "signature" in data ? { thoughtSignature: data.signature } : {};
  if (kind === "tool_call") return { ...signed, functionCall: picked(data, "id", "name", "args") };
  if (kind === "tool_result") {
    const { result } = data;
    const response = "result" in data ? { response: isObject(result) ? result : { result } } : {};
    return { ...signed, functionResponse: { ...picked(data, "id", "name"), ...response } };
  }
  return { ...signed, text: data.text, ...(kind === "thought" ? { thought: true } : {}) };
}

const grounding = (sources) => ({
  groundingChunks: (Array.isArray(sources) ? sources : [])
    .filter((each) => typeof each?.url === "string")
    .map((each) => ({ web: { title: typeof each.title === "string" ? each.title : each.url, uri: each.url } })),
});

function canonical(objects, envelope) {
  const { more: _more, role = "model", ...event } = envelope;
  const parts = [];
  let fields = {};
  let transfer;
  for (const [kind, data] of objects) {
    if (kind === "transfer") transfer = data.agent;
    else if (kind === "sources") event.groundingMetadata = grounding(data.sources);
    else if (kind === "metadata") fields = isObject(data.fields) ? data.fields : {};
    else if (kind === "error") {
      if ("code" in data) event.errorCode = data.code;
      if ("message" in data) event.errorMessage = data.message;
    } else parts.push(partOf(kind, data));
  }
  if ("urlContextMetadata" in fields) delete event.groundingMetadata;
  Object.assign(event, fields);
  if (transfer !== undefined) event.actions = { ...event.actions, transferToAgent: transfer };
  if (parts.length) event.content = { ...(event.content ?? { role }), parts };
  return event;
}

/** Puts events together from legacy objects. `feed` and `close` give what is complete: events, or `{error, …}`. */
export class LegacyReader {
  constructor() {
    this._pending = [];
    this._envelope = {};
    this._streaming = ""; // the made-up id of an answer whose pieces have none
    this._made = 0;
  }

  feed(given) {
    const [kind, data] = known(given);
    const envelope = isObject(data.event) && kind && kind !== "done" ? data.event : null;
    if (envelope) delete data.event;
    const complete = !envelope || envelope.id !== this._envelope.id ? this.close() : [];
    if (!envelope) return [...complete, ...this._alone(kind, data, given)];
    this._pending.push([kind, data]);
    this._envelope = envelope;
    return envelope.more === true ? complete : [...complete, ...this.close()];
  }

  close() {
    const pending = this._pending;
    this._pending = [];
    return pending.length ? [canonical(pending, this._envelope)] : [];
  }

  _alone(kind, data, given) {
    if (kind === "done") return [];
    if (kind === "error") return [{ error: data.message ?? "", code: data.code, error_details: data.details }];
    const { author = "agent", ...rest } = data;
    const envelope = { author, timestamp: Date.now() / 1000 };
    if (!kind) return [{ ...envelope, customMetadata: { legacy: { type: given.type, data: given.data ?? null } } }];
    if (kind === "delta" || kind === "message") envelope.id = this._streaming || `legacy-${(this._made += 1)}`;
    if (kind === "delta") Object.assign(envelope, { partial: true, id: (this._streaming = envelope.id) });
    else if (kind === "message") this._streaming = "";
    if (kind === "tool_result") envelope.role = "user";
    return [canonical([[kind, rest]], envelope)];
  }
}
