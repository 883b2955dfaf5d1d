// A list of which only the rows near the view are in the document. Rows may have any height, and may change it: what
// one looks at stays where it is.

import { classes, html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { Icon } from "./parts.js";

const BEYOND = 600; // px above and below the view in which rows are drawn
const SEEKING = 5; // frames in which a row that is looked for settles
const SETTLING = 3; // how often the rows are chosen anew before the browser may tell how high they are
const NEAR = 48; // px from the end within which the list follows it

/** The index of the first row that ends after `y`. */
function rowAt(tops, y) {
  let low = 0;
  let high = tops.length - 2;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tops[middle + 1] > y) high = middle;
    else low = middle + 1;
  }
  return Math.max(0, low);
}

/**
 * `rows` are objects with a `key`; `draw(row, index)` gives what stands in a row; `estimate` its height in px before it was
 * drawn. `follow`: whether the end is kept in view. `goal` is a row to scroll to: `{key, focus}`, where `focus()` says
 * whether it gets the focus; a new object is a new goal. `onStart` is called when the first rows come into view. `header`
 * stands above the rows.
 */
export function Windowed({ rows, draw, estimate = 64, follow = false, goal, onStart, label, role = "list", itemRole = "listitem", testid, class: extra, header }) {
  const box = useRef();
  const state = useRef(null);
  state.current ??= { heights: new Map(), tops: [0], end: follow, seen: 0, top: 0, drawn: 0, frame: 0 };
  const now = state.current;
  const [range, setRange] = useState([0, 0]);
  const [away, setAway] = useState(false);
  const [watcher] = useState(() => new ResizeObserver((changes) => measured.current(changes)));
  const measured = useRef();

  const tops = [0];
  for (const row of rows) tops.push(tops.at(-1) + (now.heights.get(row.key) ?? estimate));
  const earlier = now.rows;
  now.tops = tops;
  now.rows = rows;
  if (earlier && earlier[0]?.key !== rows[0]?.key) now.anchor ??= anchorOf(earlier, now, box.current);

  const place = () => {
    const element = box.current;
    if (!element) return;
    const list = element.querySelector(".rows");
    const from = element.scrollTop - list.offsetTop;
    const first = rowAt(now.tops, from - BEYOND);
    const last = Math.min(now.rows.length, rowAt(now.tops, from + element.clientHeight + BEYOND) + 1);
    setRange((before) => (before[0] === first && before[1] === last ? before : [first, last]));
  };

  /**
   * Choose the rows for what has just been drawn. Rows that were never drawn have other heights than was thought, so that
   * one choice can lead to another and that one back: after some the next frame is waited for, when they are measured.
   */
  const settle = () => {
    now.drawn += 1;
    if (now.drawn <= SETTLING) place();
    now.frame ||= requestAnimationFrame(() => {
      const more = now.drawn > SETTLING;
      now.frame = now.drawn = 0;
      if (more) place();
    });
  };

  /** Whether one has scrolled up since the list was last placed: a list that shrank stands at its end all the same. */
  const hasLeft = (element) =>
    element.scrollTop < now.top - 1 && element.scrollHeight - element.scrollTop - element.clientHeight > 2;

  const keepEnd = () => {
    if (box.current && hasLeft(box.current)) now.end = false;
    if (follow && now.end && box.current) {
      box.current.scrollTop = box.current.scrollHeight;
      now.top = box.current.scrollTop;
    }
  };

  measured.current = (changes) => {
    const element = box.current;
    if (!element) return;
    let above = 0;
    let changed = false;
    const listTop = element.querySelector(".rows").offsetTop;
    for (const { target } of changes) {
      const key = target.dataset.key;
      const height = target.offsetHeight;
      const known = now.heights.get(key);
      if (!height || known === height) continue;
      changed = true;
      const at = now.rows.findIndex((row) => row.key === key);
      if (at >= 0 && listTop + now.tops[at] + (known ?? estimate) <= element.scrollTop + 1) above += height - (known ?? estimate);
      now.heights.set(key, height);
    }
    if (!changed) return;
    const fresh = [0];
    for (const row of now.rows) fresh.push(fresh.at(-1) + (now.heights.get(row.key) ?? estimate));
    now.tops = fresh;
    now.shift = (now.shift ?? 0) + above;
    setRange((before) => [...before]);
  };

  useLayoutEffect(() => {
    const element = box.current;
    if (now.anchor) {
      const at = rows.findIndex((row) => row.key === now.anchor.key);
      if (at >= 0) element.scrollTop = tops[at] + now.anchor.offset;
      now.anchor = null;
    } else if (now.shift && !now.end) {
      element.scrollTop += now.shift;
    }
    now.shift = 0;
    keepEnd();
    now.top = element.scrollTop;
    settle();
  });

  useEffect(() => {
    const element = box.current;
    const seen = new ResizeObserver(() => {
      keepEnd();
      place();
    });
    seen.observe(element);
    return () => {
      cancelAnimationFrame(now.frame);
      seen.disconnect();
      watcher.disconnect();
    };
  }, []);

  useEffect(() => {
    if (!goal) return undefined;
    const at = rows.findIndex((row) => row.key === goal.key);
    if (at < 0) return undefined;
    now.end = false;
    now.seeking = true;
    let tries = 0;
    let frame = 0;
    const seek = () => {
      const element = box.current;
      if (!element) return; // the list has gone: Preact cancels this frame only after the next one is drawn
      const row = element.querySelector(`[data-key="${CSS.escape(goal.key)}"]`);
      if (row) row.scrollIntoView({ block: "nearest" });
      else element.scrollTop = now.tops[at] - element.clientHeight / 3;
      place();
      tries += 1;
      if (tries < SEEKING) {
        frame = requestAnimationFrame(seek); // rows that were never drawn have other heights than was thought
        if (row && tries === 2) focus(row);
      } else {
        now.seeking = false;
        if (row) focus(row);
      }
    };
    const focus = (row) => goal.focus() && !row.contains(document.activeElement) && row.querySelector("[data-focus]")?.focus({ preventScroll: true });
    frame = requestAnimationFrame(seek);
    return () => {
      now.seeking = false;
      cancelAnimationFrame(frame);
    };
  }, [goal, goal && rows.some((row) => row.key === goal.key)]);

  const scrolled = () => {
    const element = box.current;
    if (!element) return; // a list that has gone is still told that it was scrolled before
    const atEnd = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR;
    if (now.seeking || hasLeft(element)) now.end = false;
    else if (atEnd) now.end = follow;
    now.top = element.scrollTop;
    if (now.end) now.seen = rows.length;
    setAway(follow && !now.end);
    place();
    if (element.scrollTop < BEYOND && onStart) onStart();
  };

  const toEnd = () => {
    now.end = true;
    now.seen = rows.length;
    setAway(false);
    keepEnd();
    place();
  };

  if (now.end) now.seen = rows.length;
  const [first, last] = [Math.min(range[0], rows.length), Math.min(range[1], rows.length)];
  const fresh = Math.max(0, rows.length - now.seen);
  return html`
    <div class=${classes("windowed", extra)}>
      <div class="scroller" ref=${box} onScroll=${scrolled} data-testid=${testid}>
        ${header}
        <div class="rows" role=${role} aria-label=${label}>
          <div style=${{ height: `${tops[first]}px` }} aria-hidden="true" />
          ${rows.slice(first, last).map(
            (row, index) => html`
              <${Row} key=${row.key} id=${row.key} watcher=${watcher} role=${itemRole} at=${first + index + 1} of=${rows.length}>
                ${draw(row, first + index)}
              </${Row}>
            `,
          )}
          <div style=${{ height: `${tops.at(-1) - tops[last]}px` }} aria-hidden="true" />
        </div>
      </div>
      ${away &&
      html`<button type="button" class="to-end" data-testid="to-end" onClick=${toEnd}>
        <${Icon} name="down" />${fresh > 0 ? `${fresh} new` : "Newest"}
      </button>`}
    </div>
  `;
}

/** The row that stands at the top of the view, and how far the view is into it. */
function anchorOf(rows, now, element) {
  if (!element || !rows.length || now.end) return null;
  const tops = [0];
  for (const row of rows) tops.push(tops.at(-1) + (now.heights.get(row.key) ?? 64));
  const at = rowAt(tops, element.scrollTop);
  return { key: rows[at].key, offset: element.scrollTop - tops[at] };
}

function Row({ id, watcher, role, at, of, children }) {
  const element = useRef();
  useLayoutEffect(() => {
    const observed = element.current;
    watcher.observe(observed);
    return () => watcher.unobserve(observed);
  }, []);
  return html`<div class="row" ref=${element} data-key=${id} role=${role} aria-posinset=${at} aria-setsize=${of}>${children}</div>`;
}
