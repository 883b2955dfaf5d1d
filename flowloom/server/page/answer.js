// What an address of the server answers, for a component that shows it.

import { api } from "./api.js";
import { useEffect, useState } from "./html.js";

/**
 * `{value}` that `path` answers, made of the JSON by `read`; `{error}`; or `{}` while it is asked for. It is asked for
 * anew when one of `turns` changes, and shown as it was meanwhile; what another path answered is never shown. A `path`
 * that is null, since a part of it is not known (yet), is not asked for.
 */
export function useAnswer(path, turns = [], read = (value) => value) {
  const [held, setHeld] = useState({});
  useEffect(() => {
    if (!path) return undefined;
    const aborted = new AbortController();
    api.get(path, { signal: aborted.signal }).then(read).then(
      (value) => aborted.signal.aborted || setHeld({ path, value }),
      (error) => aborted.signal.aborted || setHeld({ path, error }),
    );
    return () => aborted.abort();
  }, [path, ...turns]);
  return path && held.path === path ? held : {};
}
