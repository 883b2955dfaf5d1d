// Times, durations, sizes and counts as people read them.

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dated = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** A time (epoch seconds) of today as a clock's, another with its day; `exact` for the tooltip. */
export function time(seconds) {
  if (!seconds) return "";
  const at = new Date(seconds * 1000);
  return (at.toDateString() === new Date().toDateString() ? clock : dated).format(at);
}
export const exact = (seconds) => (seconds ? whole.format(seconds * 1000) : "");
export function ago(seconds) {
  if (!seconds) return "";
  const passed = Date.now() / 1000 - seconds;
  if (passed < 60) return "now";
  if (passed < 3600) return `${Math.floor(passed / 60)} min`;
  if (passed < 86400) return `${Math.floor(passed / 3600)} h`;
  return day.format(seconds * 1000);
}

/** Seconds for people: `420 ms`, `1.2 s`, `2 min 5 s`, `3 h 20 min`. */
export function duration(seconds) {
  if (seconds === undefined || seconds === null || Number.isNaN(seconds)) return "";
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  const minutes = Math.round(seconds / 60);
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A number of bytes or characters for people. */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 999_950 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** A count with thin separators. */
export const count = (number) => new Intl.NumberFormat().format(number);

/** `3 items`, `1 item`. */
export const counted = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
