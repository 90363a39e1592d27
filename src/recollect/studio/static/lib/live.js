// Server-sent events for as long as a view is open: when the server goes and comes back, so do they.

import { stream, Refused } from "./http.js";

const WAIT = 2000; // ms before asking again

// `path()` is asked for anew each time, so that it may hold a cursor; returns a function that ends it
export function follow(path, onEvent, onState = () => {}) {
  const ender = new AbortController();
  let ended = false;
  (async () => {
    while (!ended) {
      try {
        await stream(path(), undefined, (event) => { onState(true); onEvent(event); }, { signal: ender.signal });
      } catch (error) {
        if (ended || error.name === "AbortError") return;
        if (error instanceof Refused && error.status >= 400 && error.status < 500) {
          onState(false, error);
          return;
        }
      }
      onState(false);
      await new Promise((done) => setTimeout(done, WAIT));
    }
  })();
  return () => {
    ended = true;
    ender.abort();
  };
}
