// Server-sent events over `fetch`: frames, and how long to wait before asking again.

/** The frames of a stream, `{id, data}`, as they come. Ends with the stream; raises if the connection breaks. */
export async function* frames(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let frame = { id: "", data: [] };
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop();
      for (const line of lines) {
        if (line === "") {
          if (frame.data.length) yield { id: frame.id, data: frame.data.join("\n") };
          frame = { id: frame.id, data: [] };
        } else if (line[0] !== ":") {
          const at = line.indexOf(":");
          const name = at < 0 ? line : line.slice(0, at);
          const said = at < 0 ? "" : line.slice(at + (line[at + 1] === " " ? 2 : 1));
          if (name === "data") frame.data.push(said);
          else if (name === "id") frame.id = said;
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Milliseconds to wait before the attempt of that number (from 0): 0.5 s, doubled each time, 10 s at most. */
export const backoff = (attempt) => Math.min(10000, 500 * 2 ** attempt) * (0.8 + 0.4 * Math.random());

/** Wait so many milliseconds; less if the browser is online again, or the page is looked at again. */
export const pause = (ms) =>
  new Promise((resolve) => {
    const go = () => {
      clearTimeout(timer);
      removeEventListener("online", go);
      resolve();
    };
    const timer = setTimeout(go, ms);
    addEventListener("online", go);
  });
