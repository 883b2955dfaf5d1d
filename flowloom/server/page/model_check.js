// What is wrong with a JSON value, said beside the field where it is: the same words for the form and the JSON view.

import { isNumber, isWhole, writeJson } from "./json.js";
import { isRequired, itemOf, memberNames, memberOf, otherMembers, same, typeText } from "./model_schema.js";
import { counted } from "./numbers.js";

/**
 * What does not fit in `value`, as `{path, message}`; `path` is written as the server writes it, `stops[0].city`.
 * What a browser cannot judge (`not`, `if`, formats) is left to the server.
 */
export function problemsOf(field, value, path = "") {
  if (value === undefined) return [{ path, message: "is missing" }];
  if (value === null && (field.nullable || field.kind === "nothing" || field.kind === "any")) return [];
  if (field.kind === "union") return unionProblems(field, value, path);
  const wrong = kindProblem(field, value);
  if (wrong) return [{ path, message: wrong }];
  if (field.kind === "object") return objectProblems(field, value, path);
  if (field.kind === "list") return listProblems(field, value, path);
  return limitProblems(field, value).map((message) => ({ path, message }));
}

/** The option of a union that a value is meant for: the first that it fits, else the first of its kind. */
export function optionFor(field, value) {
  const fitting = field.options.findIndex((option) => problemsOf(option, value).length === 0);
  if (fitting >= 0) return fitting;
  const alike = field.options.findIndex((option) => option.kind === "union" || kindProblem(option, value) === null);
  return Math.max(alike, 0);
}

/** The path of a member or an item of what stands at `path`. */
export function stepped(path, step) {
  if (typeof step === "number") return `${path}[${step}]`;
  return path ? `${path}.${step}` : step;
}

const EXPECTED = {
  text: ["a text", (value) => typeof value === "string"],
  integer: ["a whole number", isWhole],
  number: ["a number", isNumber],
  boolean: ["yes or no", (value) => typeof value === "boolean"],
  list: ["a list", (value) => Array.isArray(value)],
  object: ["an object", (value) => typeof value === "object" && value !== null && !Array.isArray(value)],
  nothing: ["null", (value) => value === null],
};

function kindProblem(field, value) {
  if (field.kind === "choice") {
    const known = field.values.some((each) => same(each, value));
    return known ? null : `must be one of ${field.values.map((each) => writeJson(each)).join(", ")}`;
  }
  const [name, holds] = EXPECTED[field.kind] ?? ["", () => true];
  return holds(value) ? null : `must be ${name}`;
}

function unionProblems(field, value, path) {
  const option = field.options[optionFor(field, value)];
  if (option.kind !== "union" && kindProblem(option, value)) return [{ path, message: `must be ${typeText(field)}` }];
  return problemsOf(option, value, path);
}

function objectProblems(field, value, path) {
  const names = memberNames(field);
  const others = otherMembers(field);
  const found = [];
  for (const name of new Set([...names, ...(field.schema.required ?? [])])) {
    const member = memberOf(field, name);
    if (!Object.hasOwn(value, name)) {
      if (isRequired(field, name)) found.push({ path: stepped(path, name), message: "is missing" });
    } else if (member) {
      found.push(...problemsOf(member, value[name], stepped(path, name)));
    }
  }
  for (const name of Object.keys(value).filter((each) => !names.includes(each))) {
    const place = stepped(path, name);
    if (others) found.push(...problemsOf(others, value[name], place));
    else if (field.schema.additionalProperties === false) found.push({ path: place, message: "is not allowed here" });
  }
  return found;
}

function listProblems(field, value, path) {
  const { minItems, maxItems, uniqueItems } = field.schema;
  const found = value.flatMap((item, index) => problemsOf(itemOf(field, index), item, stepped(path, index)));
  const say = (message) => found.push({ path, message });
  if (minItems !== undefined && value.length < minItems) say(`must have at least ${counted(minItems, "item")}`);
  if (maxItems !== undefined && value.length > maxItems) say(`must have at most ${counted(maxItems, "item")}`);
  if (uniqueItems && value.some((item, index) => value.slice(0, index).some((each) => same(each, item)))) {
    say("must not have an item twice");
  }
  return found;
}

function limitProblems(field, value) {
  const { schema } = field;
  const found = [];
  const hold = (name, holds, write) => {
    if (schema[name] !== undefined && !holds(schema[name])) found.push(`must ${write(schema[name])}`);
  };
  if (isNumber(value)) {
    hold("minimum", (limit) => value >= limit, (limit) => `be ${limit} or more`);
    hold("maximum", (limit) => value <= limit, (limit) => `be ${limit} or less`);
    hold("exclusiveMinimum", (limit) => value > limit, (limit) => `be more than ${limit}`);
    hold("exclusiveMaximum", (limit) => value < limit, (limit) => `be less than ${limit}`);
    hold("multipleOf", (step) => isMultiple(value, step), (step) => `be a multiple of ${step}`);
  } else if (typeof value === "string") {
    const length = [...value].length;
    hold("minLength", (limit) => length >= limit, (limit) => `have at least ${counted(limit, "character")}`);
    hold("maxLength", (limit) => length <= limit, (limit) => `have at most ${counted(limit, "character")}`);
    hold("pattern", (pattern) => matches(pattern, value), (pattern) => `be like ${pattern}`);
  }
  return found;
}

function isMultiple(value, step) {
  if (typeof value === "bigint" && isWhole(step)) return value % BigInt(step) === 0n;
  const times = Number(value) / Number(step);
  return Math.abs(times - Math.round(times)) < 1e-9 * Math.max(1, Math.abs(times));
}

/** Whether a text matches; a pattern that is none here is left to the server. */
function matches(pattern, text) {
  try {
    return new RegExp(pattern, "u").test(text);
  } catch {
    return true;
  }
}
