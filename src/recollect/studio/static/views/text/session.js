// The page's lanes on the server: reading, looking and writing. What is read comes as binary frames, a lane each.

import { unpack } from "../../lib/arrays.js";
import { lang } from "../../lib/messages.js";
import { post, stream, Refused } from "../../lib/http.js";

const LATE = 150; // milliseconds after which a reading is given up for a newer one

export class Session {
  constructor() {
    this.id = null;
    this.lanes = [];
    this.running = null;
  }

  async open(names) {
    const path = this.id ? `/studio/text/pages/${this.id}/lanes` : "/studio/text/pages";
    let found;
    try {
      found = await post(path, { lanes: names });
    } catch (error) {
      if (!this.id || error.status !== 404) throw error;
      found = await post("/studio/text/pages", { lanes: names });
    }
    this.id = found.id;
    this.lanes = found.lanes;
    this.failed = Object.values(found.failed);
    return found.lanes;
  }

  // A page that was away for too long is forgotten by the server, and opened again.
  async again(call) {
    try {
      return await call();
    } catch (error) {
      if (error.status !== 404) throw error;
      const names = this.lanes.map((lane) => lane.name);
      this.id = null;
      await this.open(names);
      return null;
    }
  }

  // One reading at a time; `make` gives the newest body when its turn has come. Resolves when nothing is left to read.
  read(make, onFrame) {
    if (!this.id) return Promise.resolve();
    this.next = make;
    if (this.running) {
      if (performance.now() - this.begun > LATE) this.abort.abort();
      return this.running;
    }
    this.running = (async () => {
      try {
        while (this.next) {
          const body = this.next();
          this.next = null;
          this.begun = performance.now();
          this.abort = new AbortController();
          try {
            const done = await this.again(() => this.frames(body, onFrame, this.abort.signal));
            if (done === null) this.next ||= make;
          } catch (error) {
            if (error.name !== "AbortError") throw error;
          }
        }
      } finally {
        this.running = null;
      }
    })();
    return this.running;
  }

  async frames(body, onFrame, signal) {
    const response = await fetch(`/studio/text/pages/${this.id}/read`, {
      method: "POST", signal, body: JSON.stringify(body),
      headers: { "content-type": "application/json", "accept-language": lang },
    });
    if (!response.ok) throw new Refused(response.status, (await response.json()).error.message);
    const reader = response.body.getReader();
    let held = new Uint8Array(0);
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return true;
      const joined = new Uint8Array(held.length + value.length);
      joined.set(held);
      joined.set(value, held.length);
      held = joined;
      while (held.length >= 4) {
        const length = new DataView(held.buffer, held.byteOffset).getUint32(0, true);
        if (held.length < 4 + length) break;
        const frame = unpack(held.slice(4, 4 + length).buffer);
        held = held.slice(4 + length);
        if (frame.error) throw new Refused(200, frame.error.message);
        onFrame(frame);
      }
    }
  }

  look(body) {
    return this.again(() => post(`/studio/text/pages/${this.id}/look`, body));
  }

  write(body, onEvent, signal) {
    return stream(`/studio/text/pages/${this.id}/write`, body, onEvent, { signal });
  }

  close() {
    if (this.abort) this.abort.abort();
    this.next = null;
    if (this.id) fetch(`/studio/text/pages/${this.id}`, { method: "DELETE", keepalive: true }).catch(() => {});
  }
}
