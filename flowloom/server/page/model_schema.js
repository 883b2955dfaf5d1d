// A JSON schema as a field of a form: which control it needs, and what may stand in it. No part of this knows a page.

import { writeJson } from "./json.js";
import { counted } from "./numbers.js";

const MAX_REFERENCES = 20;

/**
 * The field of a schema. `kind` is text, integer, number, boolean, choice, list, object, union, or any (JSON as it is);
 * `root` is the schema whose definitions `$ref` means. Members and items are made when they are asked for, since a
 * schema may contain itself.
 */
export function fieldOf(schema, root = schema) {
  const held = resolved(schema, root);
  const field = { schema: held, root, nullable: held.nullable === true, title: held.title ?? "",
    description: held.description ?? "" };
  const several = held.anyOf ?? held.oneOf;
  if (Array.isArray(several)) return unionOf(field, held, several);
  if ("const" in held) return choiceOf(field, [held.const]);
  if (Array.isArray(held.enum)) return choiceOf(field, held.enum);
  if (Array.isArray(held.type)) {
    const { type: types, ...beside } = held;
    return unionOf(field, beside, types.map((type) => ({ type })));
  }
  return { ...field, kind: kindOf(held) };
}

/** The field of a member of an object; undefined if the schema does not name it. */
export function memberOf(field, name) {
  const members = field.schema.properties ?? {};
  return Object.hasOwn(members, name) ? fieldOf(members[name], field.root) : undefined;
}

/** The names of the members that an object's schema names, in its order. */
export function memberNames(field) {
  return Object.keys(field.schema.properties ?? {});
}

/** Whether a member must be there. */
export function isRequired(field, name) {
  return (field.schema.required ?? []).includes(name);
}

/** The field of members that have no name in the schema; null if there may be none. */
export function otherMembers(field) {
  const others = field.schema.additionalProperties;
  if (others === false) return null;
  if (others === undefined || others === true) {
    const named = "properties" in field.schema;
    return others === undefined && named ? null : fieldOf({}, field.root);
  }
  return fieldOf(others, field.root);
}

/** The field of the item at `index` of a list. */
export function itemOf(field, index) {
  const places = field.schema.prefixItems ?? [];
  return fieldOf(index < places.length ? places[index] : (field.schema.items ?? {}), field.root);
}

/** A field as a reader names its type: `text`, `list of number`, `"red" | "blue"`. */
export function typeText(field, depth = 0) {
  const named = {
    choice: () => field.values.map((value) => writeJson(value)).join(" | "),
    union: () => [...new Set(field.options.map((option) => typeText(option, depth + 1)))].join(" | "),
    list: () => (field.schema.items && depth < 3 ? `list of ${typeText(itemOf(field, 0), depth + 1)}` : "list"),
    boolean: () => "yes or no",
    any: () => "any JSON",
  };
  const text = (named[field.kind] ?? (() => field.kind))();
  return field.nullable ? `${text} | null` : text;
}

/** What a schema demands beyond its type, in words; empty if that is nothing. */
export function limitsText(field) {
  const { schema } = field;
  const said = [];
  const say = (name, write) => schema[name] !== undefined && said.push(write(schema[name]));
  say("minimum", (value) => `from ${value}`);
  say("exclusiveMinimum", (value) => `above ${value}`);
  say("maximum", (value) => `up to ${value}`);
  say("exclusiveMaximum", (value) => `below ${value}`);
  say("multipleOf", (value) => `a multiple of ${value}`);
  say("minLength", (value) => `at least ${counted(value, "character")}`);
  say("maxLength", (value) => `at most ${counted(value, "character")}`);
  say("pattern", (value) => `like ${value}`);
  say("minItems", (value) => `at least ${counted(value, "item")}`);
  say("maxItems", (value) => `at most ${counted(value, "item")}`);
  say("uniqueItems", (value) => (value ? "no item twice" : "items may be the same"));
  say("format", (value) => value);
  return said.join(", ");
}

/** Whether two JSON values are the same; the order of members does not matter. */
export function same(one, other) {
  if (one === other) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false;
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const [mine, theirs] = [Object.keys(one), Object.keys(other)];
  return mine.length === theirs.length && mine.every((key) => Object.hasOwn(other, key) && same(one[key], other[key]));
}

// -- reading schemas ------------------------------------------------------------------------------------------------

function kindOf(schema) {
  const type = String(schema.type ?? "").toLowerCase();
  const kinds = { string: "text", integer: "integer", number: "number", boolean: "boolean", array: "list",
    object: "object", null: "nothing" };
  if (Object.hasOwn(kinds, type)) return kinds[type];
  if ("properties" in schema) return "object";
  return "items" in schema || "prefixItems" in schema ? "list" : "any";
}

function unionOf(field, held, several) {
  const { anyOf, oneOf, default: usual, title: _title, description: _description, ...beside } = held;
  const fields = several.map((each) => fieldOf(combined([beside, resolved(each, field.root)]), field.root));
  const options = fields.filter((each) => each.kind !== "nothing");
  const nullable = field.nullable || options.length < fields.length || options.some((each) => each.nullable);
  if (options.length === 0) return { ...field, kind: "nothing", nullable: true };
  if (options.length === 1) {
    const [only] = options;
    const schema = usual === undefined ? only.schema : { ...only.schema, default: usual };
    const [title, description] = [field.title || only.title, field.description || only.description];
    return { ...only, schema, title, description, nullable };
  }
  if (options.every((each) => each.kind === "choice")) {
    return { ...field, kind: "choice", values: options.flatMap((each) => each.values), nullable };
  }
  return { ...field, kind: "union", options: options.map((each) => ({ ...each, nullable: false })), nullable };
}

function choiceOf(field, values) {
  const kept = values.filter((value) => value !== null);
  const nullable = field.nullable || kept.length < values.length;
  if (!kept.length) return { ...field, kind: "nothing", nullable: true };
  return { ...field, kind: "choice", values: kept, nullable };
}

/** A schema with its references followed and its `allOf` put together. */
function resolved(schema, root) {
  let held = typeof schema === "object" && schema !== null ? schema : schema === false ? { not: {} } : {};
  for (let turn = 0; typeof held.$ref === "string"; turn++) {
    const { $ref, ...beside } = held;
    held = turn < MAX_REFERENCES ? { ...pointed($ref, root), ...beside } : beside;
  }
  if (!Array.isArray(held.allOf)) return held;
  const { allOf, ...beside } = held;
  return combined([...allOf.map((each) => resolved(each, root)), beside]);
}

function combined(schemas) {
  const whole = Object.assign({}, ...schemas);
  const properties = Object.assign({}, ...schemas.map((each) => each.properties));
  const required = schemas.flatMap((each) => each.required ?? []);
  if (Object.keys(properties).length) whole.properties = properties;
  if (required.length) whole.required = [...new Set(required)];
  for (const name of Object.keys(whole)) if (whole[name] === undefined) delete whole[name];
  return whole;
}

/** What a JSON pointer such as `#/$defs/Place` names in `root`; nothing if there is no such place. */
function pointed(reference, root) {
  let held = root;
  for (const step of reference.replace(/^#\/?/, "").split("/").filter(Boolean)) {
    const name = decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~");
    held = held && Object.hasOwn(held, name) ? held[name] : undefined;
  }
  return typeof held === "object" && held !== null ? held : {};
}
