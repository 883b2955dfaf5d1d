// Calls of the server: below the prefix that the page itself was loaded from, with the token if there is one.

import { readJson, writeJson } from "./json.js";
import { signal } from "./vendor/signals.js";

/** The path of the page, `/ui/` or `/prefix/ui/`, and what stands before it. */
export const PAGE = new URL(".", import.meta.url).pathname;
export const PREFIX = PAGE.replace(/ui\/$/, "").replace(/\/$/, "");

const TOKEN = "flowloom.token";

/** Whether the server wants a token that the page does not have, or one that it has is wrong. */
export const tokenWanted = signal(null);
/** Whether the last call reached the server. */
export const online = signal(true);

let waiting = [];

/** Keep a token for this tab, and make the calls that waited for it; one that no header carries is wrong. */
export function giveToken(typed) {
  const token = typed.trim();
  if (!/^[ -~]+$/.test(token)) {
    tokenWanted.value = { wrong: true };
    return;
  }
  sessionStorage.setItem(TOKEN, token);
  tokenWanted.value = null;
  const calls = waiting;
  waiting = [];
  for (const go of calls) go();
}

/** A request that was not answered as it should be: HTTP `status` (0: no server answered), `code`, `detail`. */
export class ApiError extends Error {
  constructor(status, code, detail, { errorId = "", retryAfter = 0, body = null } = {}) {
    super(detail);
    this.name = "ApiError";
    Object.assign(this, { status, code, detail, errorId, retryAfter, body });
  }
}

async function errorOf(response) {
  let body = null;
  let detail = `${response.status} ${response.statusText}`.trim();
  try {
    const text = await response.text();
    detail = text.slice(0, 2000) || detail;
    body = JSON.parse(text);
  } catch {
    // not JSON: its text says what there is to say
  }
  const said = body?.detail;
  if (typeof said === "string") detail = said;
  else if (Array.isArray(said)) detail = said.map((each) => `${(each.loc ?? []).join(".")}: ${each.msg}`).join("; ");
  const retryAfter = Number(response.headers.get("retry-after")) || 0;
  return new ApiError(response.status, body?.code ?? "", detail, { errorId: body?.errorId, retryAfter, body });
}

function query(params) {
  const given = Object.entries(params ?? {}).filter(([, value]) => value !== undefined && value !== null);
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

/** The `Response` to a call of `path` (from `/`); raises `ApiError`, also when no server answers. */
export async function call(method, path, { body, params, headers, signal: aborted, keepalive } = {}) {
  const sent = { ...headers };
  const token = sessionStorage.getItem(TOKEN);
  if (token) sent.Authorization = `Bearer ${token}`;
  if (body !== undefined) sent["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(PREFIX + path + query(params), {
      method,
      headers: sent,
      body: body === undefined ? undefined : writeJson(body),
      signal: aborted,
      keepalive,
      cache: "no-store",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    online.value = false;
    throw new ApiError(0, "unreachable", "The server does not answer.");
  }
  online.value = true;
  if (response.status === 401) {
    const error = await errorOf(response);
    if (token === sessionStorage.getItem(TOKEN)) {
      tokenWanted.value = { wrong: Boolean(token) };
      await new Promise((go) => waiting.push(go));
    }
    if (aborted?.aborted) throw error;
    return call(method, path, { body, params, headers, signal: aborted, keepalive });
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

const json = async (method, path, options) => readJson(await (await call(method, path, options)).text());

/** The calls by method; each answers the JSON. `options`: `params`, `headers`, `signal`. */
export const api = {
  get: (path, options) => json("GET", path, options),
  post: (path, body, options) => json("POST", path, { ...options, body }),
  patch: (path, body, options) => json("PATCH", path, { ...options, body }),
  delete: (path, options) => json("DELETE", path, options),
  /** The `Response` itself, for streams and files. */
  raw: call,
};

const e = encodeURIComponent;
export const appPath = (app) => `/apps/${e(app)}`;
export const sessionsPath = (app, user) => `${appPath(app)}/users/${e(user)}/sessions`;
export const sessionPath = (app, user, session) => `${sessionsPath(app, user)}/${e(session)}`;
export const devPath = (app) => `/dev/apps/${e(app)}`;
export const devSessionPath = (app, user, session) => `${devPath(app)}/users/${e(user)}/sessions/${e(session)}`;
