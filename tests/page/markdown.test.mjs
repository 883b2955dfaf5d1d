// What a model writes, as elements: which blocks a text has, and that nothing of it is lost.

import assert from "node:assert/strict";
import { test } from "node:test";

import { markdown } from "../../flowloom/server/page/markdown.js";

/** Elements as `tag(children)`, texts as they are. */
function outline(drawn) {
  if (Array.isArray(drawn)) return drawn.map(outline).join("");
  if (typeof drawn !== "object" || drawn === null) return drawn === false || drawn === null || drawn === undefined ? "" : String(drawn);
  const { type, props } = drawn;
  return `${typeof type === "function" ? "a" : type}(${outline(props.children)})`;
}

const drawn = (text) => outline(markdown(text));

test("three backticks around words on one line are code in the line, and begin no block", () => {
  assert.equal(drawn("```ls -l``` lists files.\nThat is **all**."), "p(code(ls -l) lists files.br()That is strong(all).)");
});

test("a block of code stands where it is, also below an item of a list, without the item's indentation", () => {
  assert.equal(drawn("1. Say:\n   ```python\n   if a:\n       b()\n   ```\n2. Done."),
    "ol(li(Say:))pre(code(if a:\n    b()))ol(li(Done.))");
  assert.equal(drawn("- a\n    - b\n      ~~~\n      x\n      ~~~"), "ul(li(aul(li(b))))pre(code(x))");
});

test("a block of code ends at its fence alone, or at the end of the text", () => {
  assert.equal(drawn("```\n```python is a fence\n```\nafter"), "pre(code(```python is a fence))p(after)");
  assert.equal(drawn("````\n```\n````"), "pre(code(```))");
  assert.equal(drawn("```js\nlet a;"), "pre(code(let a;))");
});

test("a bar with a backslash before it is part of its cell", () => {
  assert.equal(drawn("| a | b |\n|---|---|\n| x \\| y | z |").replace(/^.*tbody/, ""), "(tr(td(x | y)td(z)))))");
});
