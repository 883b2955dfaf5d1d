// Where an answer has its facts from: the sources of an event, and which of its words they stand for.

import { CITED, withoutMarks } from "./markdown.js";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The sources of an event, each address once: `{title, url}`; and `numbers[chunk]`, the number of each chunk (from 1). */
export function sourcesOf(event) {
  const sources = [];
  const numberOf = (url, title) => {
    if (!url) return 0;
    const at = sources.findIndex((each) => each.url === url);
    if (at >= 0) return at + 1;
    sources.push({ url, title: title || url });
    return sources.length;
  };
  const chunks = event.groundingMetadata?.groundingChunks ?? [];
  const numbers = chunks.map((chunk) => {
    const { uri, title } = chunk.web ?? chunk.retrievedContext ?? chunk.maps ?? {};
    return numberOf(uri, title);
  });
  const cited = (event.citationMetadata?.citations ?? event.citationMetadata?.citationSources ?? []).map((citation) => ({
    start: citation.startIndex ?? 0,
    end: citation.endIndex,
    notes: [numberOf(citation.uri, citation.title)].filter(Boolean),
  }));
  for (const { retrievedUrl, urlRetrievalStatus } of event.urlContextMetadata?.urlMetadata ?? [])
    if (urlRetrievalStatus === "URL_RETRIEVAL_STATUS_SUCCESS") numberOf(retrievedUrl);
  const supported = (event.groundingMetadata?.groundingSupports ?? []).map(({ segment = {}, groundingChunkIndices = [] }) => ({
    part: segment.partIndex ?? 0,
    start: segment.startIndex ?? 0,
    end: segment.endIndex,
    text: segment.text,
    notes: [...new Set(groundingChunkIndices.map((index) => numbers[index]).filter(Boolean))],
  }));
  return { sources, cited: [...supported, ...cited] };
}

/** A text with marks around the words that `cited` names (places are bytes of UTF-8), for markdown.js. */
export function withCitations(text, cited) {
  const clean = withoutMarks(text);
  const bytes = encoder.encode(clean);
  const marks = [];
  for (const { start, end, text: words, notes } of cited) {
    let [from, to] = [start, end];
    if (words && decoder.decode(bytes.subarray(from, to)) !== words) {
      const at = clean.indexOf(words);
      if (at < 0) continue;
      from = encoder.encode(clean.slice(0, at)).length;
      to = from + encoder.encode(words).length;
    }
    if (!(to > from) || to > bytes.length || !notes.length) continue;
    marks.push([from, CITED.start], [to, `${CITED.end}${CITED.note}${notes.join(",")}${CITED.note}`]);
  }
  marks.sort((a, b) => a[0] - b[0]);
  let out = "";
  let at = 0;
  for (const [place, mark] of marks) {
    out += decoder.decode(bytes.subarray(at, place)) + mark;
    at = place;
  }
  return out + decoder.decode(bytes.subarray(at));
}
