// The colour of each author: the same in every panel, and after every reload.

import { computed } from "./html.js";
import { appInfo } from "./store.js";

const HUES = 8;
const agents = computed(() => Object.keys(appInfo.value?.agents ?? {}));
const others = new Set(); // who spoke and is none of them, in the order in which they were first seen

/** Which of the hues (1 to 8) an author has: `var(--hue-N)`. The agents of the app have them in the order of its tree,
 * the user has none. */
export function hueOf(name) {
  if (name === "user") return undefined;
  const known = agents.value;
  let at = known.indexOf(name);
  if (at < 0) at = known.length + [...others.add(name)].filter((each) => !known.includes(each)).indexOf(name);
  return (at % HUES) + 1;
}
