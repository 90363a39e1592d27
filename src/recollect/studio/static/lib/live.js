// Server-sent events for as long as a view is open: when the server goes and comes back, so do they.
// A page that is hidden lets go of its connection, of which browsers have few for one server, and asks again when seen.

import { stream, Refused } from "./http.js";

const WAIT = 2000; // ms before asking again

// `path()` is asked for anew each time, so that it may hold a cursor; returns a function that ends it
export function follow(path, onEvent) {
  let ended = false;
  let ender = new AbortController();
  let wake = () => {};

  async function run() {
    while (!ended) {
      if (document.hidden) {
        await new Promise((done) => (wake = done));
        continue;
      }
      ender = new AbortController();
      try {
        await stream(path(), undefined, onEvent, { signal: ender.signal });
      } catch (error) {
        if (ended) return;
        if (error instanceof Refused && error.status >= 400 && error.status < 500) return;
        if (error.name === "AbortError") continue;
      }
      await new Promise((done) => {
        wake = done;
        setTimeout(done, WAIT);
      });
    }
  }

  const seen = () => (document.hidden ? ender.abort() : wake());
  document.addEventListener("visibilitychange", seen);
  run();
  return () => {
    ended = true;
    document.removeEventListener("visibilitychange", seen);
    ender.abort();
    wake();
  };
}
