// The state of a session by scope, with the event that wrote each key last.

import { readJson } from "./json.js";

/** The scopes, in the order in which they are shown; `prefix` is what a key of that scope begins with. */
export const SCOPES = [
  { id: "session", prefix: "", title: "Session", hint: "this conversation" },
  { id: "user", prefix: "user:", title: "User", hint: "all sessions of this user in this app" },
  { id: "app", prefix: "app:", title: "App", hint: "all users of this app" },
  { id: "temp", prefix: "temp:", title: "Run", hint: "one run; not stored" },
];

/** The scope of a key, by its prefix. */
export function scopeOf(key) {
  return SCOPES.find(({ prefix }) => prefix && key.startsWith(prefix)) ?? SCOPES[0];
}

/**
 * The keys of a state by scope: `[{scope, entries: [{key, name, value, writer, earlier}]}]`, without scopes that have
 * none. `writer` is the event that wrote the key last (null: none of these events, so it was there before, or another
 * session wrote it), `earlier` those that wrote it before, the latest first.
 */
export function scopesOf(state, events) {
  const writers = new Map();
  for (const event of events) {
    for (const key of Object.keys(event.actions?.stateDelta ?? {})) {
      if (!writers.has(key)) writers.set(key, []);
      writers.get(key).unshift(event);
    }
  }
  return SCOPES.map((scope) => ({
    scope,
    entries: Object.keys(state)
      .filter((key) => scopeOf(key) === scope)
      .sort()
      .map((key) => {
        const [writer = null, ...earlier] = writers.get(key) ?? [];
        return { key, name: key.slice(scope.prefix.length), value: state[key], writer, earlier };
      }),
  })).filter(({ entries }) => entries.length);
}

/** The value of a typed text: JSON if it is JSON, else `{error}`. */
export function readValue(text) {
  try {
    return { value: readJson(text) };
  } catch (error) {
    return { error: `That is no JSON (${error.message}). A text stands in double quotes.` };
  }
}

/** What is wrong with the name of a new key; empty if nothing is. */
export function keyProblem(name, state) {
  if (!name.trim()) return "Give the key a name.";
  if (Object.hasOwn(state, name)) return "There is a key of that name.";
  if (SCOPES.some(({ prefix }) => prefix === name)) return "Only the scope is there; a name goes after it.";
  if (name.startsWith("temp:")) return "What begins with temp: is not stored.";
  return "";
}
