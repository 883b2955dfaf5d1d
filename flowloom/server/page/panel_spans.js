// The spans of a session as rows of a tree with bars, the critical path through them, and what was used, by agent.

/**
 * The runs of a session, oldest first: `[{id, start, length, rows, usage}]`, times in milliseconds since the run's
 * start. `spans` are those of the server, each with `microseconds`, and its `startTime` in epoch seconds.
 */
export function runsOf(spans) {
  const known = new Map(spans.map((span) => [span.spanId, spanOf(span)]));
  const roots = [];
  for (const span of known.values()) {
    const parent = known.get(span.parent);
    if (parent && parent !== span) parent.children.push(span);
    else roots.push(span);
  }
  const runs = new Map();
  for (const root of roots) {
    const id = runIdOf(root) ?? root.traceId;
    if (!runs.has(id)) runs.set(id, []);
    runs.get(id).push(root);
  }
  return [...runs].map(([id, tops]) => runOf(id, tops)).sort((one, other) => one.start - other.start);
}

/** The rows below those that are closed (a set of span ids) are left out. */
export function visibleRows(rows, closed) {
  const shown = [];
  let hidden = Infinity;
  for (const row of rows) {
    if (row.depth > hidden) continue;
    hidden = closed.has(row.span.id) ? row.depth : Infinity;
    shown.push(row);
  }
  return shown;
}

/** Tokens, calls and time of a list of usages together. */
export function totalOf(usages) {
  const total = { agent: "", models: [], modelCalls: 0, toolCalls: 0, input: 0, output: 0, cached: 0, reasoning: 0,
    modelTime: 0, toolTime: 0, failures: 0 };
  for (const usage of usages) {
    for (const name of Object.keys(total)) if (typeof total[name] === "number") total[name] += usage[name];
    total.models.push(...usage.models);
  }
  return total;
}

/**
 * What a usage costs, by `prices` of a model: `{MODEL: {input, output, cached}}` per million tokens. Null if a price
 * that it takes is not known.
 */
export function costOf(usage, prices) {
  let cost = 0;
  for (const { model, input, output, cached } of usage.models) {
    const price = priceOf(model, prices);
    if (!price) return null;
    cost += ((input - cached) * price.input + cached * (price.cached ?? price.input) + output * price.output) / 1e6;
  }
  return usage.models.length ? cost : null;
}

/** The price of a model: that of its name, else of the longest name that it begins with. */
export function priceOf(model, prices) {
  const names = Object.keys(prices).filter((name) => model.startsWith(name));
  names.sort((one, other) => other.length - one.length);
  return names.length ? prices[names[0]] : null;
}

// -- spans ----------------------------------------------------------------------------------------------------------

function spanOf({ startTime, microseconds, spanId, parentSpanId, ...span }) {
  const start = startTime * 1000;
  return { ...span, id: spanId, parent: parentSpanId, start, end: start + microseconds / 1000, children: [] };
}

function runIdOf(span) {
  return span.invocationId ?? span.children.map(runIdOf).find(Boolean);
}

function runOf(id, roots) {
  roots.sort(byStart);
  const start = Math.min(...roots.map((each) => each.start));
  const end = Math.max(...roots.map(endBelow));
  const critical = new Set();
  walkBack(roots, end, critical);
  const rows = [];
  const usages = new Map();
  const put = (span, depth, agent) => {
    const owner = span.agent ?? agent;
    const bar = { from: span.start - start, to: span.end - start };
    rows.push({ span, depth, agent: owner, critical: critical.has(span.id), ...bar, parent: span.children.length > 0 });
    count(usages, span, owner ?? "");
    for (const child of span.children.sort(byStart)) put(child, depth + 1, owner);
  };
  for (const root of roots) put(root, 0, null);
  return { id, start, length: end - start, rows, usage: [...usages.values()] };
}

const byStart = (one, other) => one.start - other.start || other.end - one.end;

function endBelow(span) {
  return span.children.reduce((latest, child) => Math.max(latest, endBelow(child)), span.end);
}

/** Marks what an end had to wait for: the span that ended last, what ended last before that one began, and so on. */
function walkBack(spans, end, critical) {
  let moment = end;
  for (const span of [...spans].sort((one, other) => other.end - one.end || other.start - one.start)) {
    if (moment < end && span.end > moment) continue;
    critical.add(span.id);
    walkBack(span.children, span.end, critical);
    moment = Math.min(moment, span.start);
  }
}

function count(usages, span, agent) {
  if (span.kind !== "model" && span.kind !== "tool") return;
  if (!usages.has(agent)) usages.set(agent, { ...totalOf([]), agent });
  const usage = usages.get(agent);
  if (span.error) usage.failures++;
  if (span.kind === "tool") {
    usage.toolCalls++;
    usage.toolTime += span.end - span.start;
    return;
  }
  const tokens = (name) => Number(span.attributes[`gen_ai.usage.${name}`] ?? 0);
  const [input, output, cached] = ["input_tokens", "output_tokens", "cache_read.input_tokens"].map(tokens);
  usage.modelCalls++;
  usage.modelTime += span.end - span.start;
  usage.input += input;
  usage.output += output;
  usage.cached += cached;
  usage.reasoning += tokens("reasoning.output_tokens");
  const model = span.attributes["gen_ai.response.model"] ?? span.attributes["gen_ai.request.model"] ?? "";
  usage.models.push({ model, input, output, cached });
}
