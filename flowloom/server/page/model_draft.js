// What a person has typed into a form so far (a draft), and the JSON value that it makes.
//
// A draft is data that is never changed in place. `given` says whether it is part of the value, `isNull` that it is
// null; the rest goes by the kind of its field: `text`, `choice` (an index), `items`, `members` and `others`, `which`
// with `inner`.

import { readJson, readNumber, writeJson } from "./json.js";
import { optionFor, problemsOf, stepped } from "./model_check.js";
import { fieldOf, isRequired, itemOf, memberNames, memberOf, otherMembers, same } from "./model_schema.js";

const MAX_DEPTH = 12;
const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;

/** The draft that a form begins with: the default of the schema, else nothing but what must be there. */
export function blank(field, required = true, depth = 0) {
  if (field.schema.default !== undefined) return draftOf(field, field.schema.default);
  const given = required && depth < MAX_DEPTH;
  if (field.kind === "object") {
    return { given, isNull: false, members: given ? blankMembers(field, depth) : {}, others: [] };
  }
  if (field.kind === "list") return { given, isNull: false, items: given ? blankItems(field, depth) : [] };
  if (field.kind === "union") {
    return { given, isNull: false, which: 0, inner: blank(field.options[0], given, depth + 1) };
  }
  if (field.kind === "choice") {
    const only = given && field.values.length === 1;
    return { given: only, isNull: false, choice: only ? 0 : -1 };
  }
  if (field.kind === "nothing") return { given, isNull: true };
  if (field.kind === "boolean") return { given: false, isNull: false, choice: -1 };
  return { given: false, isNull: false, text: "" };
}

/** The draft that shows a JSON value, as well as the form can (see `shows`). */
export function draftOf(field, value) {
  if (value === null && (field.nullable || field.kind === "nothing")) {
    return { ...blank(bare(field), false), given: true, isNull: true };
  }
  const given = { given: true, isNull: false };
  if (field.kind === "object" && isObject(value)) {
    const names = memberNames(field);
    const others = Object.keys(value).filter((name) => !names.includes(name));
    const members = names.map((name) => {
      const member = memberOf(field, name);
      return [name, Object.hasOwn(value, name) ? draftOf(member, value[name]) : left(member)];
    });
    const free = otherMembers(field) ?? fieldOf({}, field.root);
    return { ...given, members: Object.fromEntries(members),
      others: others.map((name) => ({ name, draft: draftOf(free, value[name]) })) };
  }
  if (field.kind === "list" && Array.isArray(value)) {
    return { ...given, items: value.map((item, index) => draftOf(itemOf(field, index), item)) };
  }
  if (field.kind === "union") {
    const which = optionFor(field, value);
    return { ...given, which, inner: draftOf(field.options[which], value) };
  }
  if (field.kind === "choice") return { ...given, choice: field.values.findIndex((each) => same(each, value)) };
  if (field.kind === "boolean") return { ...given, choice: [true, false].indexOf(value) };
  if (field.kind === "object" || field.kind === "list") return { ...blank(bare(field), true) };
  const raw = field.kind === "text" && typeof value === "string";
  return { ...given, text: raw ? value : field.kind === "any" ? writeJson(value, 2) : String(value) };
}

/** The value of a draft (undefined if nothing is given), and which typed text is no value: `{value, problems}`. */
export function valueOf(field, draft, path = "") {
  if (draft.given && draft.isNull) return { value: null, problems: [] };
  if (!draft.given) return { value: undefined, problems: [] };
  if (field.kind === "object") return objectValue(field, draft, path);
  if (field.kind === "list") return listValue(field, draft, path);
  if (field.kind === "union") return valueOf(field.options[draft.which], draft.inner, path);
  if (field.kind === "choice") return { value: field.values[draft.choice], problems: [] };
  if (field.kind === "boolean") return { value: [true, false][draft.choice], problems: [] };
  if (field.kind === "text") return { value: draft.text, problems: [] };
  return typedValue(field, draft.text, path);
}

/** The value of a whole form, and everything that is wrong with it: `{value, problems}`. */
export function checked(field, draft) {
  const { value, problems } = valueOf(field, draft);
  const told = new Set(problems.map((each) => each.path));
  const unfit = problemsOf(field, value).filter(({ path }) => ![...told].some((known) => within(path, known)));
  return { value, problems: [...problems, ...unfit] };
}

/** Whether the form can show a value without losing any of it. */
export function shows(field, value) {
  const made = valueOf(field, draftOf(field, value));
  return made.problems.length === 0 && same(made.value, value);
}

/** A member or item that is to be filled in now. */
export function opened(field) {
  const draft = blank(field, true);
  return field.kind === "text" || field.kind === "any" ? draft : { ...draft, given: true };
}

/** A draft whose text was typed: an empty one gives nothing. */
export function typed(draft, text) {
  return { ...draft, text, given: text !== "", isNull: false };
}

// -- by kind --------------------------------------------------------------------------------------------------------

function blankMembers(field, depth) {
  const blankOf = (name) => blank(memberOf(field, name), isRequired(field, name), depth + 1);
  return Object.fromEntries(memberNames(field).map((name) => [name, blankOf(name)]));
}

function blankItems(field, depth) {
  const amount = Math.min(field.schema.minItems ?? 0, MAX_DEPTH);
  return Array.from({ length: amount }, (_, index) => blank(itemOf(field, index), true, depth + 1));
}

/** A member that a value does not have; its default is not put in again. */
function left(field) {
  return { ...blank(bare(field), false), given: false, isNull: false };
}

function bare(field) {
  return { ...field, schema: { ...field.schema, default: undefined } };
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function objectValue(field, draft, path) {
  const made = [];
  const problems = [];
  const put = (name, member, held) => {
    const inner = valueOf(member, held, stepped(path, name));
    problems.push(...inner.problems);
    if (inner.value !== undefined) made.push([name, inner.value]);
  };
  const names = memberNames(field).filter((name) => draft.members[name]);
  for (const name of names) put(name, memberOf(field, name), draft.members[name]);
  const free = otherMembers(field) ?? fieldOf({}, field.root);
  for (const { name, draft: held } of draft.others) {
    if (made.some(([known]) => known === name)) problems.push({ path: stepped(path, name), message: "is there twice" });
    else if (name === "") problems.push({ path: stepped(path, name), message: "has no name" });
    else put(name, free, held);
  }
  return { value: Object.fromEntries(made), problems };
}

function listValue(field, draft, path) {
  const made = draft.items.map((item, index) => valueOf(itemOf(field, index), item, stepped(path, index)));
  const problems = made.flatMap((each, index) => {
    const missing = each.value === undefined && !each.problems.length;
    return missing ? [{ path: stepped(path, index), message: "is missing" }] : each.problems;
  });
  return { value: made.map((each) => each.value ?? null), problems };
}

function typedValue(field, text, path) {
  const refuse = (message) => ({ value: undefined, problems: [{ path, message }] });
  if (field.kind === "any") {
    try {
      return { value: readJson(text), problems: [] };
    } catch {
      return refuse("is no JSON; a text stands in double quotes");
    }
  }
  const written = text.trim();
  const whole = field.kind === "integer";
  if (!NUMBER.test(written)) return refuse(whole ? "must be a whole number" : "must be a number");
  const value = readNumber(written.replace(/^\+/, ""));
  if (typeof value === "bigint") return { value, problems: [] };
  if (!Number.isFinite(value)) return refuse("is too large");
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) return refuse("is too large to be exact: write all its digits");
  return { value, problems: [] };
}

/** Whether a path lies at or below another. */
function within(path, outer) {
  return path === outer || path.startsWith(`${outer}.`) || path.startsWith(`${outer}[`);
}
