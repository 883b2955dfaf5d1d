// JSON whose whole numbers keep their digits: a number of JavaScript rounds those past 2^53, which are BigInts here.

const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const WHOLE = /^-?\d+$/;
const MARK = "\ud800"; // half of a character: it stands before the digits while `JSON` has them, and in no text of a server
const MARKED = /^\ud800-?\d+$/;
const WRITTEN = /"\\ud800(-?\d+)"/g;

const isRounded = (token) => WHOLE.test(token) && !Number.isSafeInteger(Number(token));

/** The value of a JSON text. Raises what `JSON.parse` raises, also for a number that would be infinite. */
export function readJson(text) {
  const value = JSON.parse(text);
  if (!/\d{16}|[eE]\+?\d{3}/.test(text)) return value;
  const marked = text.replace(TOKENS, (token) => (isRounded(token) ? JSON.stringify(MARK + token) : token));
  return JSON.parse(marked, (_, each) => {
    if (each === Infinity || each === -Infinity) throw new SyntaxError("A number is too large");
    return typeof each === "string" && MARKED.test(each) ? BigInt(each.slice(1)) : each;
  });
}

/** The JSON of a value; undefined for what has none. */
export function writeJson(value, indent) {
  try {
    return JSON.stringify(value, null, indent);
  } catch {
    // a BigInt is in it; what cannot be written for another reason raises again
    const mark = (_, each) => (typeof each === "bigint" ? MARK + each : each);
    return JSON.stringify(value, mark, indent).replace(WRITTEN, "$1");
  }
}

/** The number that is written in a text; NaN if it is none. */
export function readNumber(text) {
  const written = text.trim();
  if (isRounded(written)) return BigInt(written);
  return written === "" ? Number.NaN : Number(written);
}

/** Whether a value is a number of JSON, and a whole one. */
export const isNumber = (value) => typeof value === "number" || typeof value === "bigint";
export const isWhole = (value) => Number.isInteger(value) || typeof value === "bigint";
