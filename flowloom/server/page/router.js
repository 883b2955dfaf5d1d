// The address of the page: `/ui/APP/USER/SESSION?tab=…&span=…#e=EVENT`. It is the only place that says what is shown.

import { computed, signal } from "./vendor/signals.js";
import { PAGE } from "./api.js";

const decode = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

function read() {
  const path = location.pathname.startsWith(PAGE) ? location.pathname.slice(PAGE.length) : "";
  const [app = "", user = "", session = ""] = path.split("/").map(decode);
  const hash = new URLSearchParams(location.hash.slice(1));
  return { app, user, session, event: hash.get("e") ?? "", query: Object.fromEntries(new URLSearchParams(location.search)) };
}

/** Where the page is: `app`, `user`, `session`, `event` (empty for none) and `query` (`tab`, `span`, …). */
export const route = signal(read());
export const query = computed(() => route.value.query);
/** The panel at the side; empty for the one that a wide window shows anyway. */
export const tab = computed(() => route.value.query.tab ?? "");

/** The address of a place; what is not given stays as it is, save that another session has neither event nor span. */
export function addressOf(change) {
  const now = route.value;
  const to = { ...now, ...change };
  const moved = ["app", "user", "session"].some((name) => to[name] !== now[name]);
  const event = moved && change.event === undefined ? "" : to.event;
  const params = { ...now.query, ...(moved ? { span: undefined } : {}), ...change.query };
  const search = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== undefined && value !== ""));
  const parts = [to.app, to.user, to.session];
  while (parts.length && !parts.at(-1)) parts.pop();
  const path = PAGE + parts.map(encodeURIComponent).join("/");
  return path + (search.size ? `?${search}` : "") + (event ? `#e=${encodeURIComponent(event)}` : "");
}

/** Go to a place: `{app, user, session, event, query: {tab, span, …}}`; `replace` leaves no step behind for Back. */
export function go(change, { replace = false } = {}) {
  const address = addressOf(change);
  if (address === location.pathname + location.search + location.hash) return;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  route.value = read();
}

/** Show a panel, with further parameters of the address (`{span: id}`). */
export const openTab = (name, params = {}) => go({ query: { tab: name, ...params } });

addEventListener("popstate", () => (route.value = read()));
addEventListener("hashchange", () => (route.value = read()));
