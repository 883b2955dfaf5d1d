// The panels beside the chat: one line each, in the order of the tabs.
//
// A panel is `{id, title, hint, component}`. `id` is the tab's name in the address (`?tab=ID`); `hint` one sentence for
// the tab's tooltip; `component` a Preact component without properties, drawn only while its tab is open, in a
// `<section role="tabpanel">` that scrolls, has no padding, and is 320 px wide or more. It lives in `panel_ID.js`.
//
// What a panel may read (signals; read `.value` while drawing and the panel is drawn anew when it changes):
//   store.js   app, user, sessionId   names, "" for none         apps      [{name, description, …}]
//              session                {id, state, …} or null     appInfo   GET /apps/APP/app-info or null
//              events                 wire events in memory, oldest first, partial ones joined by id as they stream
//              eventOf(id)            one of them, or undefined  running   whether a run of this session goes on
//              totals                 {events, tokens, …} of the whole session, also of events not in memory
//              selected               id of the selected event   settled   counts up when a run ended: reload what you show
//              select(id)             selects an event: the address, the timeline and the chat follow
//   router.js  query                  the address's parameters   openTab(id, {span})  another tab
//   api.js     api.get/post/patch/delete(path, …), sessionPath(app, user, session), devSessionPath(…), ApiError
//   prefs.js   prefs                  what is remembered in this browser: {theme, streaming, …}, `setPref(name, value)`
//   parts.js   Empty, Json, Copy, Problem, Icon, …: the pieces that all panels share
//   numbers.js time(), duration(), size(), counted(), …: numbers as people read them; hues.js  hueOf(agent)
// What a panel changes on the server (state, artifacts) it says with `reload()` of store.js.
// Styles: `panel_ID.css`, only the custom properties of tokens.css, found by themselves.

import { ModelPanel } from "./model_inbox.js";
import { AgentsPanel } from "./panel_agents.js";
import { ArtifactsPanel } from "./panel_artifacts.js";
import { RequestInspector } from "./panel_request.js";
import { SettingsPanel } from "./panel_settings.js";
import { StatePanel } from "./panel_state.js";
import { RunPanel } from "./panel_trace.js";
import { Timeline } from "./timeline.js";

export const panels = [
  { id: "timeline", title: "Timeline", hint: "One row for each event", component: Timeline },
  { id: "trace", title: "Run", hint: "What ran, for how long, and what it used", component: RunPanel },
  { id: "request", title: "Request", hint: "What the model was asked, and who wrote each piece", component: RequestInspector },
  { id: "state", title: "State", hint: "The session's state, and which event wrote each key", component: StatePanel },
  { id: "artifacts", title: "Artifacts", hint: "Files of the session, in all their versions", component: ArtifactsPanel },
  { id: "agents", title: "Agents", hint: "The tree of agents, the active one lit", component: AgentsPanel },
  { id: "model", title: "Be the model", hint: "Answer requests in the place of a model", component: ModelPanel },
  { id: "settings", title: "Settings", hint: "How this page behaves in this browser", component: SettingsPanel },
];

/** The panel of a tab's name; the first for none, or one that there is not. */
export const panelOf = (id) => panels.find((each) => each.id === id) ?? panels[0];
