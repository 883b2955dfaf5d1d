// JSON with whole numbers past 2^53: no digit is lost on the way through the page.

import assert from "node:assert/strict";
import { test } from "node:test";

import { isWhole, readJson, readNumber, writeJson } from "../../flowloom/server/page/json.js";
import { problemsOf } from "../../flowloom/server/page/model_check.js";
import { checked, draftOf, shows, typed } from "../../flowloom/server/page/model_draft.js";
import { fieldOf } from "../../flowloom/server/page/model_schema.js";
import { readValue } from "../../flowloom/server/page/panel_scopes.js";

const LONG = "9007199254740993";

test("what is read and written again is the same text", () => {
  for (const text of [LONG, `-${LONG}`, `{"a":[${LONG},{"b":18446744073709551615}]}`, `{"a":"${LONG}","b":${LONG}}`,
    String.raw`{"a\"":"\\","${LONG}":[0.1234567890123456,-1e-7,1234567890123456]}`, "[]", "1.5", "null"]) {
    assert.equal(writeJson(readJson(text)), text);
  }
});

test("numbers that are exact stay numbers, and fractions do", () => {
  assert.deepEqual(readJson("[9007199254740991,12345678901234567.5,1e30]"), [9007199254740991, 12345678901234567.5, 1e30]);
});

test("what is no JSON is refused as ever", () => {
  for (const text of [`0${LONG}`, `{${LONG}:1}`, `${LONG} 1`, `${LONG}.`, `-`]) {
    assert.throws(() => readJson(text), SyntaxError);
    assert.match(readValue(text).error, /no JSON/);
  }
  assert.throws(() => { const round = { big: 1n }; round.self = round; writeJson(round); }, TypeError);
});

test("a number that would be infinite is refused, and not written as null", () => {
  for (const text of ["1e400", "[-1E+999]", `{"a":${"9".repeat(400)}.5}`]) {
    assert.match(readValue(text).error, /A number is too large/);
  }
  const digits = "9".repeat(400);
  assert.equal(writeJson(readJson(digits)), digits);
  assert.deepEqual(readJson('["1e400", 1e300, 1e-400]'), ["1e400", 1e300, 0]);
});

test("a long text is read in no time", () => {
  const text = JSON.stringify({ a: `${"\\\"x".repeat(1_000_000)}`, b: 1 }).replace(/1}$/, `${LONG}}`);
  assert.equal(readJson(text).b, BigInt(LONG));
});

test("a typed number is exact, or none", () => {
  assert.equal(readNumber(` ${LONG} `), BigInt(LONG));
  assert.equal(readNumber("4.5"), 4.5);
  for (const text of ["", " ", "ten", "1,5"]) assert.ok(Number.isNaN(readNumber(text)));
  assert.ok(isWhole(BigInt(LONG)) && isWhole(3) && !isWhole(3.5));
});

test("a field of a form takes a whole number of any length", () => {
  for (const type of ["integer", "number"]) {
    const field = fieldOf({ type });
    for (const text of [LONG, `+${LONG}`]) {
      const { value, problems } = checked(field, typed(draftOf(field, 1), text));
      assert.deepEqual([value, problems], [BigInt(LONG), []]);
    }
    assert.ok(shows(field, BigInt(LONG)));
  }
  const { problems } = checked(fieldOf({ type: "number" }), typed(draftOf(fieldOf({ type: "number" }), 1), "1e30"));
  assert.match(problems[0].message, /all its digits/);
});

test("limits hold for long numbers", () => {
  const told = (schema, value) => problemsOf(fieldOf({ type: "integer", ...schema }), value).map(({ message }) => message);
  const big = BigInt(LONG);
  assert.deepEqual(told({ maximum: readJson("9007199254740992") }, big), ["must be 9007199254740992 or less"]);
  assert.deepEqual(told({ minimum: 1, multipleOf: 3 }, big), []);
  assert.deepEqual(told({ multipleOf: 2 }, big), ["must be a multiple of 2"]);
  assert.deepEqual(told({ multipleOf: 0.5 }, big), []);
});

test("a long number among the choices is that choice", () => {
  const field = fieldOf(readJson(`{"enum":[${LONG},1]}`));
  assert.equal(writeJson(checked(field, draftOf(field, BigInt(LONG))).value), LONG);
});
