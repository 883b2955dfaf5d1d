// What is remembered in this browser: the theme, and how things are shown.

import { effect, signal } from "./vendor/signals.js";

const KEY = "flowloom.prefs";
export const DEFAULTS = {
  theme: "system", // light | dark | system
  streaming: true, // whether answers come word by word
  events: "canonical", // canonical | legacy: the endpoint that runs go through
  retained: 1000, // events of a session that are kept in memory
  resumeGrace: 30, // seconds for which a run goes on when the connection is lost
  sound: false, // for what waits for a person
  badge: true, // in the window's title, of requests that wait to be answered as the model
  prices: {}, // {MODEL: {input, output, cached}}, dollars for a million tokens
  width: 0, // of the panel at the side, in px; 0 for the default
};

const CHOICES = { theme: ["light", "dark", "system"], events: ["canonical", "legacy"] };

/** Whether a setting can have a value: another release may have kept one that it cannot have here. */
function fits(name, value) {
  if (name in CHOICES) return CHOICES[name].includes(value);
  if (typeof value === "number" && !(Number.isFinite(value) && value >= 0)) return false;
  return value !== null && typeof value === typeof DEFAULTS[name];
}

function stored() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY)) ?? {};
    return Object.fromEntries(Object.entries(kept).filter(([name, value]) => fits(name, value)));
  } catch {
    return {};
  }
}

export const prefs = signal({ ...DEFAULTS, ...stored() });

/** Remember a setting. */
export function setPref(name, value) {
  prefs.value = { ...prefs.value, [name]: value };
}

const flag = new URLSearchParams(location.search).get("events");
if (flag === "legacy" || flag === "canonical") setPref("events", flag);

effect(() => {
  const { theme } = prefs.value;
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(KEY, JSON.stringify(prefs.value));
  } catch {
    // no room, or none wanted: it holds for this page
  }
});

addEventListener("storage", (change) => {
  if (change.key === KEY) prefs.value = { ...DEFAULTS, ...stored() };
});
