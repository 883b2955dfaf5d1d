// What every module of the page draws with: Preact, htm and signals, from the folder `vendor`.

import { Fragment, h, render } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export const html = htm.bind(h);
export { Fragment, h, render };
export {
  useCallback,
  useEffect,
  useErrorBoundary,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "./vendor/hooks.js";
export { batch, computed, effect, signal, untracked, useComputed, useSignal, useSignalEffect } from "./vendor/signals.js";

/** The class names that are truthy, as one attribute. */
export const classes = (...names) => names.filter(Boolean).join(" ");
