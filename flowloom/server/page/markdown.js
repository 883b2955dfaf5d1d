// What a model writes, as elements: a part of Markdown, and nothing else. Text never becomes HTML; a link goes to
// http(s) or mailto or is no link; an image from elsewhere is a link that one may follow.

import { html } from "./html.js";

const SAFE = /^(https?:\/\/|mailto:)/i;
const DEEP = 4; // how many kinds of emphasis may stand in one another
const FENCE = /^(\s{0,12})(`{3,}(?!.*`)|~{3,})\s*([\w+#.-]{0,40})/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const ITEM = /^(\s{0,12})([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}>\s?(.*)$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const CELLS = /^\s*\|(.+)\|\s*$/;
const DASHES = /^\s*\|(?:\s*:?-+:?\s*\|)+\s*$/;

// Marks of cited words (chat_sources.js): characters that no text has, because they are taken out of it first.
export const CITED = { start: "\uE000", end: "\uE001", note: "\uE002" };
const MARKS = /[\uE000-\uE002]/g;
export const withoutMarks = (text) => text.replace(MARKS, "");

// One mark after another; every length is bounded, so that no text takes long.
const INLINE =
  /(`{1,3})([^`\n]{1,2000})\1|(!?)\[([^[\]\n]{0,500})\]\(\s*<?([^()\s<>]{1,2000}(?:\([^()\s]{0,200}\)[^()\s<>]{0,500})?)>?(?:\s+"[^"\n]{0,200}")?\s*\)|\*\*([^\s*](?:[^\n]{0,400}?[^\s])??)\*\*|__([^\s_](?:[^\n]{0,400}?[^\s])??)__(?!\w)|\*([^\s*](?:[^*\n]{0,500}?[^\s*])??)\*|(?<!\w)_([^\s_](?:[^_\n]{0,500}?[^\s_])??)_(?!\w)|~~([^~\n]{1,500})~~|(https?:\/\/[^\s<>()[\]"'`]{1,2000}[^\s<>()[\]"'`.,;:!?])|\\([\\`*_{}[\]()#+.!~>|-])|\uE000|\uE001(?:\uE002[\d,]{1,40}\uE002)?/g;

/** A link that opens beside the page and tells its address nothing; the text alone if it leads to no safe place. */
export const Link = ({ href, children, ...rest }) =>
  SAFE.test(href)
    ? html`<a href=${href} target="_blank" rel="noopener noreferrer nofollow" ...${rest}>${children}</a>`
    : html`<span>${children}</span>`;

const hostOf = (href) => {
  try {
    return new URL(href).host || href;
  } catch {
    return href.slice(0, 60);
  }
};

/** A piece of text on one line; `at.cited` says whether it stands between the marks of cited words. */
function inline(text, at, depth = 0) {
  const out = [];
  const plain = (piece) => {
    if (piece) out.push(at.cited ? html`<mark class="cited">${piece}</mark>` : piece);
  };
  let end = 0;
  for (const found of text.matchAll(INLINE)) {
    plain(text.slice(end, found.index));
    end = found.index + found[0].length;
    const inner = (piece) => (depth < DEEP ? inline(piece, at, depth + 1) : piece);
    const [all, , code, image, label, href, strong, strong2, em, em2, gone, url, escaped] = found;
    if (code !== undefined) out.push(html`<code>${withoutMarks(code)}</code>`);
    else if (href !== undefined && image) out.push(html`<${Link} href=${withoutMarks(href)}>Image${label && `: ${label}`} (${hostOf(href)})</${Link}>`);
    else if (href !== undefined && SAFE.test(href)) out.push(html`<${Link} href=${withoutMarks(href)}>${inner(label)}</${Link}>`);
    else if (href !== undefined) plain(withoutMarks(all));
    else if (strong !== undefined || strong2 !== undefined) out.push(html`<strong>${inner(strong ?? strong2)}</strong>`);
    else if (em !== undefined || em2 !== undefined) out.push(html`<em>${inner(em ?? em2)}</em>`);
    else if (gone !== undefined) out.push(html`<del>${inner(gone)}</del>`);
    else if (url !== undefined) out.push(html`<${Link} href=${withoutMarks(url)}>${withoutMarks(url)}</${Link}>`);
    else if (escaped !== undefined) plain(escaped);
    else if (all === CITED.start) at.cited = true;
    else {
      at.cited = false;
      const notes = all.slice(2, -1);
      if (notes) out.push(...notes.split(",").map((number) => at.note?.(Number(number)) ?? ""));
    }
  }
  plain(text.slice(end));
  return out;
}

const lines = (text, at) => text.split("\n").flatMap((line, index) => (index ? [html`<br />`, inline(line, at)] : [inline(line, at)]));

function list(items, at) {
  const ordered = /\d/.test(items[0].mark);
  const drawn = [];
  for (let index = 0; index < items.length; ) {
    const { text, depth } = items[index];
    let next = index + 1;
    while (next < items.length && items[next].depth > depth) next += 1;
    const below = items.slice(index + 1, next);
    drawn.push(html`<li>${lines(text, at)}${below.length > 0 && list(below, at)}</li>`);
    index = next;
  }
  return ordered ? html`<ol start=${parseInt(items[0].mark, 10)}>${drawn}</ol>` : html`<ul>${drawn}</ul>`;
}

const cells = (line) => CELLS.exec(line)[1].split(/(?<!\\)\|/).map((cell) => cell.trim());

function table(rows, at) {
  const [head, , ...body] = rows;
  return html`
    <div class="table" tabindex="0" role="region" aria-label="Table">
      <table>
        <thead><tr>${cells(head).map((cell) => html`<th scope="col">${inline(cell, at)}</th>`)}</tr></thead>
        <tbody>${body.map((row) => html`<tr>${cells(row).map((cell) => html`<td>${inline(cell, at)}</td>`)}</tr>`)}</tbody>
      </table>
    </div>
  `;
}

/** The blocks of a text: `{kind, lines, …}`. A fence that is not closed yet goes to the end. */
function* blocks(text) {
  const all = text.split("\n");
  const taken = (from, wanted) => {
    let to = from;
    while (to < all.length && wanted(all[to], to)) to += 1;
    return to;
  };
  for (let at = 0; at < all.length; ) {
    const line = all[at];
    const fence = FENCE.exec(line);
    const heading = HEADING.exec(line);
    let to = at + 1;
    if (fence) {
      const [, before, mark, language] = fence;
      const ends = (each) => each.trim().length >= mark.length && !each.trim().replaceAll(mark[0], "");
      to = taken(at + 1, (each) => !ends(each));
      const indent = new RegExp(`^\\s{0,${before.length}}`);
      yield { kind: "code", language, text: all.slice(at + 1, to).map((each) => each.replace(indent, "")).join("\n") };
      to += 1;
    } else if (!line.trim()) {
      // between two blocks
    } else if (heading) yield { kind: "heading", level: heading[1].length, text: heading[2] };
    else if (RULE.test(line)) yield { kind: "rule" };
    else if (QUOTE.test(line)) {
      to = taken(at, (each) => QUOTE.test(each));
      yield { kind: "quote", text: all.slice(at, to).map((each) => QUOTE.exec(each)[1]).join("\n") };
    } else if (CELLS.test(line) && DASHES.test(all[at + 1] ?? "")) {
      to = taken(at, (each) => CELLS.test(each));
      yield { kind: "table", rows: all.slice(at, to) };
    } else if (ITEM.test(line)) {
      to = taken(at, (each, index) => !FENCE.test(each) && (ITEM.test(each) || (index > at && /^\s{2,}\S/.test(each))));
      const items = [];
      for (const each of all.slice(at, to)) {
        const item = ITEM.exec(each);
        if (item) items.push({ depth: item[1].length, mark: item[2], text: item[3] });
        else items.at(-1).text += `\n${each.trim()}`;
      }
      yield { kind: "list", items };
    } else {
      const begins = (each) => FENCE.test(each) || HEADING.test(each) || QUOTE.test(each) || ITEM.test(each);
      to = taken(at, (each, index) => each.trim() !== "" && (index === at || !begins(each)));
      yield { kind: "paragraph", text: all.slice(at, to).join("\n") };
    }
    at = to;
  }
}

function drawn(block, at, depth) {
  if (block.kind === "code") {
    return html`<pre class="code" tabindex="0" dir="ltr"><code data-language=${block.language}>${withoutMarks(block.text)}</code></pre>`;
  }
  if (block.kind === "heading") return html`<p class=${`heading level-${block.level}`} role="heading" aria-level=${Math.min(6, block.level + 3)}>${inline(block.text, at)}</p>`;
  if (block.kind === "rule") return html`<hr />`;
  if (block.kind === "quote") return html`<blockquote>${depth < DEEP ? markdown(block.text, at, depth + 1) : block.text}</blockquote>`;
  if (block.kind === "table") return table(block.rows, at);
  if (block.kind === "list") return list(block.items, at);
  return html`<p>${lines(block.text, at)}</p>`;
}

/** A text as elements. `at.note(n)` draws the note of a source. */
export const markdown = (text, at = {}, depth = 0) => [...blocks(text)].map((block) => drawn(block, at, depth));
