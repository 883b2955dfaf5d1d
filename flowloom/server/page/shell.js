// The frame of the page: the bar, the sessions, the chat, and the panels.

import { classes, effect, html, useEffect, useRef } from "./html.js";
import { giveToken, online, tokenWanted } from "./api.js";
import { Chat } from "./chat.js";
import { Help, helpOpen } from "./keys.js";
import { Live } from "./live.js";
import { badge } from "./model_store.js";
import { panelOf, panels } from "./panels.js";
import { Held, Icon, IconButton } from "./parts.js";
import { prefs, setPref } from "./prefs.js";
import { go, openTab, route, tab } from "./router.js";
import { drawer, nameOf, Sessions } from "./sessions.js";
import { app, apps, session, sessionId, user } from "./store.js";

effect(() => {
  if (route.value) drawer.value = false; // going somewhere closes it
});

effect(() => {
  const name = session.value ? nameOf(session.value) : "";
  document.title = badge.value + [name, app.value, "flowloom"].filter(Boolean).join(" · ");
});

effect(() => {
  if (apps.value?.length === 1 && !route.value.app) go({ app: apps.value[0].name }, { replace: true });
});

const NO_USER = "No address has a user named . or .., or with a slash in the name."; // browsers and proxies take these for folders

const THEMES = { system: ["system", "dark", "Theme: the system's"], dark: ["moon", "light", "Theme: dark"], light: ["sun", "system", "Theme: light"] };

function Bar() {
  const [icon, next, label] = THEMES[prefs.value.theme];
  const known = apps.value ?? [];
  const listed = known.some((each) => each.name === app.value) || !app.value ? known : [{ name: app.value }, ...known];
  const changeUser = ({ target }) => {
    const id = target.value.trim() || "user";
    target.setCustomValidity(["", "."].includes(id.replace(".", "")) || id.includes("/") ? NO_USER : "");
    if (target.reportValidity()) go({ user: id, session: "" });
  };
  return html`
    <header class="bar">
      <${IconButton} name="menu" label="Sessions" class="to-sessions" aria-expanded=${String(drawer.value)} onClick=${() => (drawer.value = !drawer.value)} />
      <a class="brand" href="#chat-title" onClick=${(event) => { event.preventDefault(); go({ session: "", query: { tab: undefined } }); }}>
        <svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true"><rect width="32" height="32" rx="7" /><path d="M7 10h18M7 16h18M7 22h18" class="weft" /><path d="M12 6v7c0 3 8 3 8 6v7" class="warp" /></svg>
        <span>flowloom</span>
      </a>
      <label class="bar-field"><span>App</span>
        <select data-testid="app-select" value=${app.value} onChange=${(event) => go({ app: event.target.value, session: "" })}>
          ${!app.value && html`<option value="">choose…</option>`}
          ${listed.map((each) => html`<option key=${each.name} value=${each.name} selected=${each.name === app.value}>${each.name}${each.broken ? " (does not load)" : ""}</option>`)}
        </select>
      </label>
      <label class="bar-field"><span>User</span>
        <input type="text" data-testid="user-id" value=${user.value} spellcheck="false" autocomplete="off" onInput=${({ target }) => target.setCustomValidity("")} onChange=${changeUser} />
      </label>
      <p class="bar-session" title=${sessionId.value}><bdi>${session.value ? nameOf(session.value) : ""}</bdi></p>
      ${!online.value && html`<p class="offline" role="status">Offline</p>`}
      <${IconButton} name=${icon} label=${label} data-testid="theme" onClick=${() => setPref("theme", next)} />
      <${IconButton} name="keys" label="Keys (?)" data-testid="keys-open" onClick=${() => (helpOpen.value = true)} />
    </header>
  `;
}

function Panels() {
  const open = panelOf(tab.value);
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const to = { Home: 0, End: panels.length - 1 }[event.key] ?? panels.indexOf(open) + step;
    if (Number.isNaN(to)) return;
    event.preventDefault();
    const next = panels[(to + panels.length) % panels.length];
    openTab(next.id);
    requestAnimationFrame(() => document.getElementById(`tab-${next.id}`)?.focus());
  };
  const draw = (panel) => html`
    <button
      type="button"
      role="tab"
      key=${panel.id}
      id=${`tab-${panel.id}`}
      class=${classes("tab", panel === open && "open")}
      title=${panel.hint}
      aria-selected=${String(panel === open)}
      aria-controls="panel"
      tabindex=${panel === open ? 0 : -1}
      onClick=${() => openTab(panel.id)}
    >
      ${panel.title}
    </button>
  `;
  return html`
    <aside class="panels" aria-label="Panels" data-testid="panels">
      <div class="tabs" role="tablist" aria-label="Panels" onKeyDown=${move}>${panels.map(draw)}</div>
      <section class="panel" role="tabpanel" id="panel" aria-labelledby=${`tab-${open.id}`}><${Held} key=${open.id} what="This panel"><${open.component} /></${Held}></section>
    </aside>
  `;
}

/** Where there is room for one thing only: what it is. */
function Places() {
  const place = tab.value ? "panels" : drawer.value ? "sessions" : "chat";
  const to = (name, act) => html`
    <button type="button" class=${classes("place", place === name && "open")} aria-current=${place === name ? "page" : undefined} onClick=${act}>
      <${Icon} name=${{ sessions: "menu", chat: "bot", panels: "search" }[name]} />${{ sessions: "Sessions", chat: "Chat", panels: "Panels" }[name]}
    </button>
  `;
  return html`
    <nav class="places" aria-label="Places">
      ${to("sessions", () => { go({ query: { tab: undefined } }); drawer.value = true; })}
      ${to("chat", () => { go({ query: { tab: undefined } }); drawer.value = false; })}
      ${to("panels", () => openTab(panels[0].id))}
    </nav>
  `;
}

/** The server wants a token: it is asked for once, and kept for this tab. */
function Token() {
  const dialog = useRef();
  const wanted = tokenWanted.value;
  useEffect(() => {
    if (wanted && !dialog.current.open) dialog.current.showModal();
  }, [wanted]);
  if (!wanted) return null;
  const submit = (event) => {
    event.preventDefault();
    giveToken(new FormData(event.target).get("token"));
  };
  return html`
    <dialog ref=${dialog} class="dialog" aria-labelledby="token-title" onCancel=${(event) => event.preventDefault()}>
      <form onSubmit=${submit}>
        <h2 id="token-title">This server wants a token</h2>
        <p>${wanted.wrong ? "That one is not right." : "It was set with --token or FLOWLOOM_TOKEN when the server was started."} It is kept until you close this tab.</p>
        <div class="field"><label for="token">Token</label><input id="token" name="token" type="password" required autocomplete="off" data-testid="token" autofocus /></div>
        <button type="submit" class="primary">Go on</button>
      </form>
    </dialog>
  `;
}

export const Shell = () => html`
  <div class=${classes("shell", tab.value ? "show-panels" : "show-chat", drawer.value && "show-sessions")}>
    <${Bar} />
    <${Sessions} />
    <${Chat} />
    <${Panels} />
    <${Places} />
    <${Help} />
    <${Token} />
    <${Live} />
  </div>
`;
