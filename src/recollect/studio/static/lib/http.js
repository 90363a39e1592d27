// Requests to this server. What goes wrong is one line, in the region that screen readers announce.

import { lang } from "./messages.js";
import { unpack } from "./arrays.js";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(method, path, body, options = {}) {
  const headers = { "accept-language": lang };
  let content = body;
  if (body !== undefined && !(body instanceof Blob) && !(body instanceof ArrayBuffer)) {
    content = JSON.stringify(body);
    headers["content-type"] = "application/json";
  } else if (body instanceof Blob) headers["content-type"] = body.type || "application/octet-stream";
  let response;
  try {
    response = await fetch(path, { method, headers, body: content, signal: options.signal, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "server: expected an answer, found none; is recollect studio still running?");
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

async function refusal(response) {
  let message = `${response.status} ${response.statusText}`;
  try {
    message = (await response.json()).error.message;
  } catch {
    // an answer that is no JSON says no more than its status
  }
  return new Refused(response.status, message);
}

export function query(path, values) {
  const given = Object.entries(values || {}).filter(([, value]) => value !== undefined && value !== null);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

// JSON, or the arrays of an answer in octets
async function read(response) {
  const type = response.headers.get("content-type") || "";
  if (type.startsWith("application/json")) return response.json();
  if (type.startsWith("application/octet-stream")) return unpack(await response.arrayBuffer());
  return response.status === 204 ? null : response.text();
}

export const get = async (path, values, options) => read(await ask("GET", query(path, values), undefined, options));
export const post = async (path, body = {}, options = {}) => read(await ask("POST", query(path, options.query), body, options));
export const remove = async (path) => read(await ask("DELETE", path));

// Server-sent events of an answer, one call of `onEvent` each. With a body it is a POST, else a GET.
export async function stream(path, body, onEvent, options = {}) {
  const response = await ask(body === undefined ? "GET" : "POST", path, body, options);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    const events = held.split("\n\n");
    held = events.pop();
    for (const each of events) {
      const data = each.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
      if (data === "[DONE]") return;
      if (!data) continue;
      const event = JSON.parse(data);
      if (event && event.error && event.error.message) throw new Refused(200, event.error.message);
      onEvent(event);
    }
  }
}
