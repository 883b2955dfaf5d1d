// Times, durations, sizes and counts as people read them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { counted, duration, size, time } from "../../flowloom/server/page/numbers.js";

test("what is rounded up is carried over", () => {
  assert.deepEqual([59.4, 59.6, 119.7, 125].map(duration), ["59 s", "1 min 0 s", "2 min 0 s", "2 min 5 s"]);
  assert.deepEqual([3599.4, 3599.6, 12_000, 7199].map(duration), ["59 min 59 s", "1 h 0 min", "3 h 20 min", "2 h 0 min"]);
  assert.deepEqual([0.9994, 0.9996, 9.96].map(duration), ["999 ms", "1.0 s", "10 s"]);
  assert.deepEqual([999, 999_949, 999_951].map(size), ["999 B", "999.9 kB", "1.0 MB"]);
});

test("one thing is told in the singular", () => {
  assert.deepEqual([0, 1, 2].map((number) => counted(number, "error")), ["0 errors", "1 error", "2 errors"]);
});

test("the time of another day tells which day it was", () => {
  assert.match(time(Date.now() / 1000), /^\d+:\d+:\d+/);
  assert.match(time(1_700_000_000), /Nov/);
});
