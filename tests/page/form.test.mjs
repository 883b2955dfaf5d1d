// Forms made from JSON schemas: fields, what is typed into them, the value they make, and what is wrong with it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { problemsOf } from "../../flowloom/server/page/model_check.js";
import { blank, checked, draftOf, opened, shows, typed, valueOf } from "../../flowloom/server/page/model_draft.js";
import { fieldOf, itemOf, limitsText, memberOf, otherMembers, typeText } from "../../flowloom/server/page/model_schema.js";

const told = (schema, value) => problemsOf(fieldOf(schema), value).map(({ path, message }) => `${path}: ${message}`);
const object = (properties, more = {}) => ({ type: "object", properties, ...more });

test("the kind of a field is that of its schema", () => {
  const kinds = { string: "text", integer: "integer", number: "number", boolean: "boolean", array: "list", object: "object" };
  for (const [type, kind] of Object.entries(kinds)) assert.equal(fieldOf({ type }).kind, kind);
  assert.equal(fieldOf({}).kind, "any");
  assert.equal(fieldOf(true).kind, "any");
  assert.equal(fieldOf({ enum: ["a", "b"] }).kind, "choice");
  assert.equal(fieldOf({ const: 3 }).kind, "choice");
});

test("anyOf with null, a list of types and `nullable` are the same: a field that may be null", () => {
  for (const schema of [{ anyOf: [{ type: "string" }, { type: "null" }] }, { type: ["string", "null"] },
    { type: "string", nullable: true }]) {
    const field = fieldOf(schema);
    assert.equal(field.kind, "text");
    assert.equal(field.nullable, true);
    assert.equal(typeText(field), "text | null");
  }
});

test("several types are a choice of forms", () => {
  const field = fieldOf({ anyOf: [{ type: "integer" }, { type: "string" }, { type: "null" }] });
  assert.deepEqual([field.kind, field.nullable, typeText(field)], ["union", true, "integer | text | null"]);
});

test("references are followed, also those that a schema makes to itself", () => {
  const tree = { $ref: "#/$defs/Tree", $defs: { Tree: object({ name: { type: "string" },
    below: { type: "array", items: { $ref: "#/$defs/Tree" } } }, { required: ["name"] }) } };
  const field = fieldOf(tree);
  assert.equal(itemOf(memberOf(field, "below"), 0).kind, "object");
  assert.deepEqual(told(tree, { name: "a", below: [{ below: [] }] }), ["below[0].name: is missing"]);
  assert.equal(fieldOf({ $ref: "#/$defs/A", $defs: { A: { $ref: "#/$defs/A" } } }).kind, "any");
  const endless = { $ref: "#/$defs/A", $defs: { A: object({ a: { $ref: "#/$defs/A" } }, { required: ["a"] }) } };
  assert.ok(blank(fieldOf(endless)));
});

test("allOf is put together", () => {
  const field = fieldOf({ allOf: [object({ a: { type: "string" } }, { required: ["a"] }), object({ b: { type: "number" } })] });
  assert.deepEqual([memberOf(field, "a").kind, memberOf(field, "b").kind], ["text", "number"]);
  assert.deepEqual(field.schema.required, ["a"]);
});

test("a form begins with the defaults, and leaves out what is neither given nor required", () => {
  const field = fieldOf(object({ city: { type: "string" }, days: { type: "integer", default: 2 }, note: { type: "string" },
    tags: { type: "array", items: { type: "string" } }, place: object({ x: { type: "number" } }) }, { required: ["city"] }));
  assert.deepEqual(valueOf(field, blank(field)).value, { days: 2 });
  assert.deepEqual(checked(field, blank(field)).problems, [{ path: "city", message: "is missing" }]);
});

test("a default of null is null", () => {
  const field = fieldOf(object({ note: { anyOf: [{ type: "string" }, { type: "null" }], default: null } }));
  assert.deepEqual(valueOf(field, blank(field)).value, { note: null });
});

test("typed text becomes the value of its kind, or a problem beside its field", () => {
  const value = (schema, text) => checked(fieldOf(schema), typed(blank(fieldOf(schema)), text));
  assert.deepEqual(value({ type: "integer" }, " 12 "), { value: 12, problems: [] });
  assert.deepEqual(value({ type: "number" }, "-1.5e3"), { value: -1500, problems: [] });
  assert.deepEqual(value({ type: "integer" }, "two").problems, [{ path: "", message: "must be a whole number" }]);
  assert.deepEqual(value({ type: "integer" }, "1.5").problems, [{ path: "", message: "must be a whole number" }]);
  assert.deepEqual(value({ type: "integer" }, "9007199254740993"), { value: 9007199254740993n, problems: [] });
  assert.deepEqual(value({ type: "number" }, "1e999").problems, [{ path: "", message: "is too large" }]);
  assert.deepEqual(value({}, "[1, {}]").value, [1, {}]);
  assert.equal(value({}, "hello").problems.length, 1);
  assert.deepEqual(value({ type: "string" }, "").value, undefined);
});

test("a member that cannot be read is told of once", () => {
  const field = fieldOf(object({ days: { type: "integer" } }, { required: ["days"] }));
  const draft = { ...blank(field), members: { days: typed(blank(memberOf(field, "days")), "x") } };
  assert.deepEqual(checked(field, draft).problems, [{ path: "days", message: "must be a whole number" }]);
});

test("problems carry the path of what is wrong, as the server writes it", () => {
  const schema = object({ stops: { type: "array", items: object({ city: { type: "string" } }, { required: ["city"] }) },
    cabin: { enum: ["eco", "business"] } }, { required: ["stops"], additionalProperties: false });
  assert.deepEqual(told(schema, { stops: [{ city: "A" }, { city: 3 }, {}], cabin: "first", x: 1 }), [
    "stops[1].city: must be a text", "stops[2].city: is missing",
    'cabin: must be one of "eco", "business"', "x: is not allowed here"]);
});

test("limits of a schema hold", () => {
  assert.deepEqual(told({ type: "integer", minimum: 1, maximum: 5 }, 7), [": must be 5 or less"]);
  assert.deepEqual(told({ type: "number", exclusiveMinimum: 0 }, 0), [": must be more than 0"]);
  assert.deepEqual(told({ type: "number", multipleOf: 0.1 }, 0.3), []);
  assert.deepEqual(told({ type: "string", minLength: 2 }, "😀"), [": must have at least 2 characters"]);
  assert.deepEqual(told({ type: "string", pattern: "^a+$" }, "b"), [": must be like ^a+$"]);
  assert.deepEqual(told({ type: "string", pattern: "(?<" }, "b"), []);
  assert.deepEqual(told({ type: "array", minItems: 1 }, []), [": must have at least 1 item"]);
  assert.deepEqual(told({ type: "array", uniqueItems: true }, [{ a: 1 }, { a: 1 }]), [": must not have an item twice"]);
  assert.equal(limitsText(fieldOf({ type: "integer", minimum: 1, maximum: 5 })), "from 1, up to 5");
});

test("of a union the option counts that the value is meant for", () => {
  const schema = { anyOf: [{ type: "integer", maximum: 3 }, object({ a: { type: "string" } }, { required: ["a"] })] };
  assert.deepEqual(told(schema, 2), []);
  assert.deepEqual(told(schema, 5), [": must be 3 or less"]);
  assert.deepEqual(told(schema, {}), ["a: is missing"]);
  assert.deepEqual(told(schema, "x"), [": must be integer | object"]);
});

test("JSON and form show the same, both ways", () => {
  const field = fieldOf(object({ city: { type: "string" }, days: { type: "integer", default: 2 },
    who: { type: "array", items: object({ name: { type: "string" }, age: { type: ["integer", "null"] } }) },
    budget: { anyOf: [{ type: "integer" }, { type: "string" }] }, free: {}, ok: { type: "boolean" } }));
  for (const value of [{}, { city: "" }, { city: "Rome", days: 3 }, { who: [{ name: "x", age: null }, {}] },
    { budget: "much" }, { budget: 5 }, { free: { a: [1, null] } }, { free: null }, { ok: false }]) {
    assert.ok(shows(field, value), JSON.stringify(value));
    assert.deepEqual(valueOf(field, draftOf(field, value)).value, value);
  }
});

test("what the form cannot hold stays in the JSON view", () => {
  const field = fieldOf(object({ city: { type: "string" }, days: { type: "integer" }, tags: { type: "array" } }));
  for (const value of [3, { city: 3 }, { days: "x" }, { tags: {} }]) assert.ok(!shows(field, value), JSON.stringify(value));
});

test("members without a name in the schema go by the schema of the others", () => {
  const field = fieldOf({ type: "object", additionalProperties: { type: "integer" } });
  assert.equal(otherMembers(field).kind, "integer");
  assert.deepEqual(valueOf(field, draftOf(field, { a: 1, b: 2 })).value, { a: 1, b: 2 });
  const twice = { ...blank(field), others: [{ name: "a", draft: draftOf(otherMembers(field), 1) },
    { name: "a", draft: draftOf(otherMembers(field), 2) }] };
  assert.deepEqual(valueOf(field, twice).problems, [{ path: "a", message: "is there twice" }]);
  assert.equal(otherMembers(fieldOf(object({ a: {} }))), null);
});

test("members named like those of every object are only members", () => {
  const schema = object({ constructor: { type: "string" }, __proto__x: { type: "string" } }, { required: ["toString"] });
  assert.deepEqual(told(schema, { constructor: "a" }), ["toString: is missing"]);
  const free = fieldOf({ type: "object" });
  const hostile = JSON.parse('{"__proto__": {"a": 1}}');
  assert.ok(Object.hasOwn(valueOf(free, draftOf(free, hostile)).value, "__proto__"));
  assert.equal({}.a, undefined);
});

test("an item that is opened is there, with what must be in it", () => {
  const item = fieldOf(object({ name: { type: "string", default: "x" } }));
  assert.deepEqual(valueOf(item, opened(item)).value, { name: "x" });
  const list = fieldOf({ type: "array", items: { type: "string" } });
  const draft = { ...blank(list), given: true, items: [opened(itemOf(list, 0))] };
  assert.deepEqual(checked(list, draft).problems, [{ path: "[0]", message: "is missing" }]);
});
