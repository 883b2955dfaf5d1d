// What is different between two requests, section by section, and line by line in what has changed.

import { sectionText } from "./panel_sections.js";

const MAX_CELLS = 4_000_000;
const LISTS = ["config.system_instruction", "contents"];

/**
 * The differences of two assemblies: `{differences: [{path, by, kind, before, after}], same, broken, kept, contents}`.
 *
 * `kind` is added, removed or changed. `broken` is the first difference that makes a provider's cache of the older
 * request useless (null if its prefix is the same still); `kept` of the older request's `contents` are.
 */
export function differenceOf(older, newer) {
  const found = [...named(older.sections, newer.sections),
    ...LISTS.flatMap((list) => placed(older.sections, newer.sections, list))];
  const places = [...older.sections, ...newer.sections].map(({ path }) => path);
  const at = new Map(places.map((path, index) => [path, index]));
  found.sort((one, other) => at.get(one.path) - at.get(other.path));
  const changed = new Set(found.filter(({ kind }) => kind !== "removed").map(({ path }) => path));
  const [before, after] = [older, newer].map((each) => contentsOf(each).map(mark));
  let kept = 0;
  while (kept < Math.min(before.length, after.length) && before[kept] === after[kept]) kept++;
  return { differences: found, same: newer.sections.length - changed.size, kept, contents: before.length,
    broken: firstBreak(found, older, kept) };
}

/** The lines of two texts: `[{kind: "same" | "added" | "removed", text}]`. */
export function linesOf(before, after) {
  const [old, fresh] = [before, after].map((text) => (text === "" ? [] : text.split("\n")));
  const textOf = (kind, left, right) => (kind === "added" ? fresh[right] : old[left]);
  return aligned(old, fresh).map(([kind, left, right]) => ({ kind, text: textOf(kind, left, right) }));
}

/** The text before and after of a difference, for `linesOf`. */
export function textsOf({ before, after }) {
  return [before, after].map((value) => (value === undefined ? "" : sectionText({ value })));
}

// -- by name and by place -------------------------------------------------------------------------------------------

const mark = ({ value }) => JSON.stringify(value);
const contentsOf = ({ sections }) => sections.filter(({ path }) => listOf(path) === "contents");

/** The list that a section is an entry of, if its place in it means nothing more than its order. */
function listOf(path) {
  const list = path.split("[", 1)[0];
  return path.includes("[") && LISTS.includes(list) ? list : null;
}

function named(older, newer) {
  const [old, fresh] = [older, newer].map((sections) =>
    new Map(sections.filter(({ path }) => listOf(path) === null).map((each) => [each.path, each])));
  const gone = [...old.values()].filter(({ path }) => !fresh.has(path));
  const found = gone.map(({ path, by, value }) => ({ path, by, kind: "removed", before: value }));
  for (const [path, section] of fresh) {
    const known = old.get(path);
    if (!known) found.push({ path, by: section.by, kind: "added", after: section.value });
    else if (mark(known) !== mark(section)) {
      found.push({ path, by: section.by, kind: "changed", before: known.value, after: section.value });
    }
  }
  return found;
}

function placed(older, newer, list) {
  const [old, fresh] = [older, newer].map((sections) => sections.filter(({ path }) => listOf(path) === list));
  const found = [];
  let [gone, come] = [[], []];
  const flush = () => {
    const pairs = Math.min(gone.length, come.length);
    come.forEach((section, index) => found.push(index < pairs
      ? { path: section.path, by: section.by, kind: "changed", before: gone[index].value, after: section.value }
      : { path: section.path, by: section.by, kind: "added", after: section.value }));
    gone.slice(pairs).forEach(({ path, by, value }) => found.push({ path, by, kind: "removed", before: value }));
    [gone, come] = [[], []];
  };
  for (const [kind, left, right] of aligned(old.map(mark), fresh.map(mark))) {
    if (kind === "same") flush();
    else if (kind === "removed") gone.push(old[left]);
    else come.push(fresh[right]);
  }
  flush();
  return found;
}

function firstBreak(found, older, kept) {
  const prefix = ["config.system_instruction", "config.tools", "config.tool_config"];
  const early = found.find(({ path }) => path === "model" || prefix.some((name) => path.startsWith(name)));
  if (early) return early;
  const contents = contentsOf(older).map(({ value }) => value);
  let input = contents.length;  // what the user said last is not part of what is cached
  const answers = (content) => (content.parts ?? []).some((part) => "function_response" in part);
  while (input && contents[input - 1].role === "user" && !answers(contents[input - 1])) input--;
  return kept >= input ? null : (found.find(({ path }) => listOf(path) === "contents") ?? null);
}

/** Two lists side by side: `[kind, index in the old, index in the new]`, by their longest common part. */
function aligned(old, fresh) {
  let ahead = 0;
  while (ahead < Math.min(old.length, fresh.length) && old[ahead] === fresh[ahead]) ahead++;
  let behind = 0;
  while (behind < Math.min(old.length, fresh.length) - ahead && old.at(-1 - behind) === fresh.at(-1 - behind)) behind++;
  const [height, width] = [old.length - ahead - behind, fresh.length - ahead - behind];
  const [left, right] = [old.slice(ahead, ahead + height), fresh.slice(ahead, ahead + width)];
  const middle = height * width > MAX_CELLS ? replaced(height, width) : common(left, right);
  return [
    ...Array.from({ length: ahead }, (_, index) => ["same", index, index]),
    ...middle.map(([kind, left, right]) => [kind, left + ahead, right + ahead]),
    ...Array.from({ length: behind }, (_, index) => ["same", ahead + height + index, ahead + width + index]),
  ];
}

function replaced(height, width) {
  return [...Array.from({ length: height }, (_, index) => ["removed", index, 0]),
    ...Array.from({ length: width }, (_, index) => ["added", height, index])];
}

function common(old, fresh) {
  const row = fresh.length + 1;
  const longest = new Uint32Array((old.length + 1) * row);  // of what follows a place in both
  for (let left = old.length - 1; left >= 0; left--) {
    for (let right = fresh.length - 1; right >= 0; right--) {
      const at = left * row + right;
      const [apart, together] = [Math.max(longest[at + row], longest[at + 1]), longest[at + row + 1] + 1];
      longest[at] = old[left] === fresh[right] ? together : apart;
    }
  }
  const found = [];
  let [left, right] = [0, 0];
  while (left < old.length && right < fresh.length) {
    const at = left * row + right;
    if (old[left] === fresh[right]) found.push(["same", left++, right++]);
    else if (longest[at + row] >= longest[at + 1]) found.push(["removed", left++, right]);
    else found.push(["added", left, right++]);
  }
  while (left < old.length) found.push(["removed", left++, right]);
  while (right < fresh.length) found.push(["added", left, right++]);
  return found;
}
