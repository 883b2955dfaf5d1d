// What is different between two texts, line by line; which pieces of requests differ, the server says.

import { sectionText } from "./panel_sections.js";

const MAX_CELLS = 4_000_000;

/** The lines of two texts: `[{kind: "same" | "added" | "removed", text}]`. */
export function linesOf(before, after) {
  const [old, fresh] = [before, after].map((text) => (text === "" ? [] : text.split("\n")));
  const textOf = (kind, left, right) => (kind === "added" ? fresh[right] : old[left]);
  return aligned(old, fresh).map(([kind, left, right]) => ({ kind, text: textOf(kind, left, right) }));
}

/** The text before and after of a difference, for `linesOf`. */
export function textsOf({ kind, before, after }) {
  return [kind === "added" ? "" : sectionText({ value: before }), kind === "removed" ? "" : sectionText({ value: after })];
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
