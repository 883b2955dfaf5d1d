// Where an answer has its facts from: each address once, with the words that it stands for.

import assert from "node:assert/strict";
import { test } from "node:test";

import { sourcesOf } from "../../flowloom/server/page/chat_sources.js";
import { LegacyReader } from "../../flowloom/server/page/legacy.js";

const page = (retrievedUrl, how) => ({ retrievedUrl, urlRetrievalStatus: `URL_RETRIEVAL_STATUS_${how}` });
const urlContextMetadata = { urlMetadata: [page("https://a/", "SUCCESS"), page("https://b/", "ERROR")] };

test("pages that the model read are sources, after those of a search", () => {
  const chunk = { web: { uri: "https://c/", title: "C" } };
  const { sources } = sourcesOf({ urlContextMetadata, groundingMetadata: { groundingChunks: [chunk] } });
  assert.deepEqual(sources, [{ url: "https://c/", title: "C" }, { url: "https://a/", title: "https://a/" }]);
});

test("an event of the older form tells of pages without grounding what the server told", () => {
  const event = { id: "e", author: "a", more: true };
  const reader = new LegacyReader();
  reader.feed({ type: "sources", data: { sources: [{ url: "https://a/", title: "https://a/" }], event } });
  const [read] = reader.feed({ type: "metadata", data: { fields: { urlContextMetadata }, event: { ...event, more: false } } });
  assert.deepEqual(read, { id: "e", author: "a", urlContextMetadata });
});
