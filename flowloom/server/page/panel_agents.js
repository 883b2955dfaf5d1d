// The agents of the app as a tree, the active one lit.

import { classes, html, useState } from "./html.js";
import { hueOf } from "./hues.js";
import { counted } from "./numbers.js";
import { Empty, Problem, short } from "./parts.js";
import { LongText } from "./panel_pieces.js";
import { app, appError, appInfo, events, running, sessionId } from "./store.js";

/** The agent that has the conversation: who spoke last, or whom they handed over to. */
export function activeAgent(events) {
  for (const event of events.toReversed()) {
    if (event.actions?.transferToAgent) return event.actions.transferToAgent;
    if (event.author !== "user") return event.author;
  }
  return "";
}

export function AgentsPanel() {
  const info = appInfo.value;
  if (appError.value) return html`<div class="pad"><${Problem} error=${appError.value} /></div>`;
  if (!app.value) return html`<${Empty} title="No app is chosen">Choose an app: here stand its agents, with their instructions and tools.</${Empty}>`;
  if (!info) return html`<p class="muted pad" role="status">Loading the agents…</p>`;
  const active = sessionId.value ? activeAgent(events.value) : "";
  const names = new Set(Object.keys(info.agents ?? {}));
  const shown = new Set();
  const branch = (name) => {
    const agent = info.agents?.[name];
    if (!agent || shown.has(name)) return null;
    shown.add(name);
    const below = agent.sub_agents ?? [];
    return html`<li key=${name}><${Agent} agent=${agent} active=${name === active} />
      ${below.length > 0 && html`<ul>${below.map(branch)}</ul>`}</li>`;
  };
  const tree = branch(info.rootAgentName);
  const rest = [...names].filter((name) => !shown.has(name));
  return html`
    <div class="agents pad" data-testid="agent-tree">
      <p class="muted" role="status">${active ? html`${running.value ? "Works now" : "Has the conversation"}: <b>${active}</b>` : "No agent has spoken yet."}</p>
      <ul class="tree">${tree}${rest.map(branch)}</ul>
    </div>`;
}

function Agent({ agent, active }) {
  const [open, setOpen] = useState(false);
  const tools = (agent.tools ?? []).flatMap((tool) => tool.functionDeclarations ?? [tool]);
  return html`
    <details class=${classes("agent", `hue-${hueOf(agent.name)}`, active && "active")} data-agent=${agent.name} open=${open} onToggle=${(change) => setOpen(change.target.open)}>
      <summary aria-current=${active ? "true" : undefined}>
        <i class="dot" aria-hidden="true"></i><b>${agent.name}</b>
        ${active && html`<span class="now">${running.value ? "working" : "active"}</span>`}
        ${tools.length > 0 && html`<span class="muted amount">${counted(tools.length, "tool")}</span>`}
        ${agent.description && html`<span class="muted about">${short(agent.description)}</span>`}
      </summary>
      ${open && html`
        ${agent.description?.length > 200 && html`<h4>Description</h4><p class="instruction"><${LongText} text=${agent.description} /></p>`}
        ${agent.instruction && html`<h4>Instruction</h4><p class="instruction"><${LongText} text=${agent.instruction} /></p>`}
        ${tools.length > 0 && html`<h4>Tools</h4><dl class="arguments">${tools.map((tool) => html`
          <dt class="mono">${tool.name ?? Object.keys(tool)[0] ?? "tool"}</dt><dd><${LongText} text=${tool.description ?? ""} /></dd>`)}</dl>`}
        ${!agent.instruction && !tools.length && html`<p class="muted">It has neither an instruction nor tools of its own.</p>`}`}
    </details>`;
}
