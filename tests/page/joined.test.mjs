// The events of a session as they are joined: what streamed is kept, whatever became of the run.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Joined } from "../../flowloom/server/page/joined.js";

const words = (id, text, more) => ({ id, author: "desk", invocationId: "i", content: { parts: [{ text }] }, ...more });
const asked = { id: "u", author: "user", invocationId: "i", content: { parts: [{ text: "Hi." }] } };
const failed = { id: "e", author: "desk", invocationId: "i", errorCode: "RuntimeError", errorMessage: "exploded" };
const shown = (log) => log.entries.map(({ key, state, event }) => [key, state, event.content?.parts[0].text ?? event.errorCode]);

/** A log of a run that streamed two pieces and then failed, by a server that does not store pieces: google-adk's. */
function broken() {
  const log = new Joined();
  log.push(asked);
  log.push(words("p", "half an ", { partial: true }));
  log.push(words("p", "answer", { partial: true }));
  log.push(failed);
  log.failed({ code: "RuntimeError", message: "exploded", invocationId: "i" });
  log.ended("i");
  return log;
}

const KEPT = [["u", "stored", "Hi."], ["p", "cut", "half an answer"], ["e", "stored", "RuntimeError"]];

test("what streamed before an error that does not tell it stays, marked as cut off, above the error", () => {
  assert.deepEqual(shown(broken()), KEPT);
});

test("and it stays there when the session is read again", () => {
  const log = broken();
  log.stored([asked, failed]);
  assert.deepEqual(shown(log), KEPT);
});

test("an error that tells what streamed stands in its place", () => {
  const log = new Joined();
  log.push(asked);
  log.push(words("p", "half an ", { partial: true }));
  log.push({ ...failed, ...words("e", "half an "), interrupted: true });
  assert.deepEqual(shown(log), [["u", "stored", "Hi."], ["e", "stored", "half an "]]);
});
