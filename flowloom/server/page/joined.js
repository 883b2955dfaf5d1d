// The events of one session as they are shown: partial ones joined by id, each complete event once, in the session's
// order, and no more of them in memory than `retained`. It draws nothing and calls nothing.
//
// An entry is `{key, event, state, version}`. `state`: `stored` (the server has it), `live` (it streams), `cut` (it
// streamed and broke off), `sent` (the user's message, on its way), `failed` (an error frame). `event` is a new object
// whenever it changed, and `version` counts the changes.

const done = (entry) => entry.state === "stored";

/** The text of an event, without thoughts. */
export const textOf = (event) =>
  (event.content?.parts ?? []).map((part) => (part.thought ? "" : (part.text ?? ""))).join("");

const isError = (event) => Boolean(event.errorCode || event.errorMessage);

/** `parts` with those of a further partial event: text goes on where it stopped, a call replaces its earlier state. */
function joinedParts(parts, more) {
  const joined = [...parts];
  for (const part of more) {
    const last = joined.at(-1);
    const plain = part.text !== undefined && !part.functionCall;
    if (plain && last?.text !== undefined && Boolean(last.thought) === Boolean(part.thought)) {
      joined[joined.length - 1] = { ...last, ...part, text: last.text + part.text };
    } else if (part.functionCall) {
      const at = joined.findIndex((each) => each.functionCall && each.functionCall.id === part.functionCall.id);
      if (at < 0) joined.push(part);
      else joined[at] = { ...part, functionCall: { ...joined[at].functionCall, ...part.functionCall } };
    } else {
      joined.push(part);
    }
  }
  return joined;
}

export class Joined {
  constructor(retained = 1000) {
    this.retained = retained;
    this.entries = [];
    this.ids = []; // of all events of the session, also those not in memory
    this.atEnd = true; // whether the newest event is in memory
    this.totals = { events: 0, tokens: 0, inputTokens: 0, outputTokens: 0, calls: 0, errors: 0 };
    this._byKey = new Map();
    this._known = new Set();
    this.lastStored = ""; // the last event that the server was seen to have, with all before it
    this._locals = 0;
  }

  get(key) {
    return this._byKey.get(key);
  }

  /** How many events of the session stand before the first in memory. */
  get before() {
    const first = this.entries.find(done);
    return first ? Math.max(0, this.ids.indexOf(first.key)) : 0;
  }

  /** Take what a stream brought: a partial event, or a complete one. */
  push(event) {
    if (!event.id) event = { ...event, id: `local-${(this._locals += 1)}` };
    if (event.partial) this._partial(event);
    else this._complete(event);
  }

  /** Show the user's message before the server has it. Returns its entry. */
  sent(event) {
    const entry = this._add({ ...event, id: `sent-${(this._locals += 1)}` }, "sent");
    return entry;
  }

  /** Take away an error that is no event, with the message that was not answered: it is sent anew. */
  dismiss(key) {
    const at = this.entries.findIndex((entry) => entry.key === key);
    if (this.entries[at]?.state !== "failed") return;
    const unsent = this.entries[at - 1]?.state === "sent" ? this.entries[at - 1] : null;
    this._remove((entry) => entry === this.entries[at] || entry === unsent);
  }

  /** A run has begun that answers the message which was sent last. */
  begun(invocationId) {
    const entry = this.entries.findLast((each) => each.state === "sent" && !each.event.invocationId);
    if (entry) this._change(entry, { ...entry.event, invocationId }, "sent");
  }

  /** An error that is no event of the session: a frame of the stream, or a refused request. */
  failed({ code, message, invocationId }) {
    const told = this.entries.findLast((entry) => entry.event.invocationId === invocationId && isError(entry.event));
    if (told && invocationId) return told;
    const error = { author: "", invocationId, errorCode: code, errorMessage: message, timestamp: Date.now() / 1000 };
    return this._add({ ...error, id: `failed-${(this._locals += 1)}` }, "failed");
  }

  /** A run is over: what still streams is cut off. `sent` messages that got no further keep standing. */
  ended(invocationId) {
    for (const entry of this.entries) {
      if (entry.state === "live" && (!invocationId || entry.event.invocationId === invocationId)) {
        this._change(entry, { ...entry.event, partial: false, interrupted: true }, "cut");
      }
    }
  }

  /** Forget the pieces of a run that streams, because they will come again from its beginning. */
  restarted(invocationId) {
    this._remove((entry) => entry.state === "live" && entry.event.invocationId === invocationId);
  }

  /** Take the session's events as the server has them, oldest first: all of them, or those after `after`. */
  stored(events, after = "") {
    for (const event of events) this._count(event);
    const ids = events.map((event) => event.id);
    this.ids = after ? [...this.ids.slice(0, this.ids.lastIndexOf(after) + 1), ...ids] : ids;
    const kept = events.slice(-this.retained);
    const fresh = new Map(kept.map((event) => [event.id, event]));
    for (const event of kept) this._replaceLocal(event);
    const order = after ? this.entries.filter((entry) => done(entry) && !fresh.has(entry.key)) : [];
    for (const event of kept) {
      const known = this._byKey.get(event.id);
      if (known) this._change(known, event, "stored");
      order.push(known ?? this._make(event, "stored"));
    }
    const inOrder = new Set(order);
    const locals = this.entries.filter((entry) => !done(entry) && !inOrder.has(entry));
    for (const entry of locals) {
      const error = isError(entry.event); // what broke off stands above the error that ended it
      const at = order.findLastIndex(({ event }) => event.invocationId === entry.event.invocationId && (error || !isError(event)));
      order.splice(at < 0 ? order.length : at + 1, 0, entry);
    }
    this.lastStored = events.at(-1)?.id ?? this.lastStored;
    this._set(order);
    this.atEnd = true;
    this._trim();
  }

  /** Keep that many events in memory. */
  retain(retained) {
    this.retained = retained;
    this._trim();
  }

  /** Put older events before those in memory; the newest go, if they are too many. */
  older(events) {
    const more = events.filter((event) => !this._byKey.has(event.id)).map((event) => this._make(event, "stored"));
    this._set([...more, ...this.entries]);
    if (this.entries.length > this.retained) {
      this._set(this.entries.slice(0, this.retained));
      this.atEnd = false;
    }
    return more.length;
  }

  _partial(event) {
    const known = this._byKey.get(event.id);
    if (known && known.state !== "live") return; // a piece of what is here as a whole
    const parts = event.content?.parts ?? [];
    if (!known) {
      this._broken(event);
      this._add({ ...event, content: { ...event.content, parts: joinedParts([], parts) } }, "live");
      return;
    }
    const joined = joinedParts(known.event.content.parts, parts);
    this._change(known, { ...known.event, ...event, content: { ...known.event.content, parts: joined } }, "live");
  }

  _complete(event) {
    this._replaceLocal(event);
    const known = this._byKey.get(event.id);
    this._broken(event);
    if (!this._known.has(event.id)) {
      this._count(event);
      this.ids.push(event.id);
    }
    if (!known) {
      if (this.atEnd) this._add(event, "stored");
      return;
    }
    // An event with artifacts comes twice: with its content, and with what it saved.
    const twice = done(known) && known.event.content && !event.content;
    const actions = { ...known.event.actions, ...event.actions };
    this._change(known, twice ? { ...known.event, actions } : event, "stored");
  }

  /** Take away what an agent was saying when another worker went on with its run: it says it anew, under another id. */
  _broken(event) {
    if (event.author === "user" || isError(event)) return;
    const same = (other) => ["invocationId", "author", "branch"].every((name) => other[name] === event[name]);
    this._remove((entry) => entry.state === "live" && entry.key !== event.id && same(entry.event));
  }

  /** Take away what stood for an event until it came: the user's message, and the pieces of an answer that broke off. */
  _replaceLocal(event) {
    const of = (entry) => entry.event.invocationId === event.invocationId;
    if (event.author === "user") {
      this._remove((entry) => entry.state === "sent" && of(entry));
    } else if (isError(event)) {
      const cut = (entry) => (entry.state === "cut" || entry.state === "live") && of(entry) && entry.key !== event.id;
      if (event.content?.parts?.length) this._remove(cut);
      this._remove((entry) => entry.state === "failed" && of(entry));
    }
  }

  _count(event) {
    if (this._known.has(event.id)) return;
    this._known.add(event.id);
    const usage = event.usageMetadata ?? {};
    const { totals } = this;
    const read = usage.promptTokenCount ?? 0;
    const written = (usage.candidatesTokenCount ?? 0) + (usage.thoughtsTokenCount ?? 0);
    this.totals = {
      events: totals.events + 1,
      inputTokens: totals.inputTokens + read,
      outputTokens: totals.outputTokens + written,
      tokens: totals.tokens + (usage.totalTokenCount ?? read + written),
      calls: totals.calls + (event.content?.parts ?? []).filter((part) => part.functionCall).length,
      errors: totals.errors + (isError(event) ? 1 : 0),
    };
  }

  _make(event, state) {
    return { key: event.id, event, state, version: 0 };
  }

  _add(event, state) {
    const entry = this._make(event, state);
    this.entries.push(entry);
    this._byKey.set(entry.key, entry);
    this._trim();
    return entry;
  }

  _change(entry, event, state) {
    entry.event = event;
    entry.state = state;
    entry.version += 1;
  }

  _remove(unwanted) {
    if (this.entries.some(unwanted)) this._set(this.entries.filter((entry) => !unwanted(entry)));
  }

  _set(entries) {
    this.entries = entries;
    this._byKey = new Map(entries.map((entry) => [entry.key, entry]));
  }

  _trim() {
    const over = this.entries.length - this.retained;
    if (over > Math.max(0, this.retained / 10) || (over > 0 && over > 50)) this._set(this.entries.slice(over));
  }
}
