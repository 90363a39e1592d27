// What the views of tasks share: choosing runs, how to get one, waiting for the newest answer.

import { fill, h } from "./dom.js";
import { variableOf } from "./colour.js";

// A menu of runs: chooser({t, runs, label, chosen, pick}) → {element, value}
export function chooser({ t, runs, label, chosen, pick }) {
  const select = h(
    "select",
    { on: { change: () => pick(select.value) } },
    runs.map((run) => h("option", { value: run.name, selected: run.name === chosen }, `${run.name} · ${run.model}`)),
  );
  return h("label.field", h("span", label || t("Run")), select);
}

// The runs that a link names, those of them that are here; else the first `count`
export function chosenOf(runs, names, count) {
  const asked = (names || "").split(",").filter((name) => runs.some((run) => run.name === name));
  return asked.length ? asked : runs.slice(0, count).map((run) => run.name);
}

// A run's name with the colour of its model
export const named = (run) => h("span.named", h("span.dot", { style: { background: variableOf(run.model) } }), h("strong", run.name));

// How to get a run of a task that has none
export function missing(t, text, commands) {
  return h("div.panel.missing", h("p", text), commands.map((command) => h("pre", h("code", command))), h("p.note", t("Then open this view again: the studio looks into its folders anew each time.")));
}

// The answer to the newest call alone; those before it are left. latest(async (signal) => …)
export function latest() {
  let control = null;
  const call = async (work) => {
    control?.abort();
    const own = (control = new AbortController());
    try {
      const found = await work(own.signal);
      return own.signal.aborted ? null : found;
    } catch (error) {
      if (own.signal.aborted) return null;
      throw error;
    }
  };
  call.end = () => control?.abort();
  return call;
}

// Calls after so many milliseconds without another one
export function debounced(work, wait = 300) {
  let timer = 0;
  const call = (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), wait);
  };
  call.now = (...given) => {
    clearTimeout(timer);
    return work(...given);
  };
  call.end = () => clearTimeout(timer);
  return call;
}

// A place to drop a file, with a button for those who choose one: dropZone({t, text, accept, most, take, problem})
export function dropZone({ t, text, accept, most, take, problem, label }) {
  const input = h("input.heard", { type: "file", accept, tabindex: -1, "aria-hidden": "true", on: { change: () => given(input.files) } });
  const button = h("button", { type: "button", on: { click: () => input.click() } }, label);
  const zone = h("div.drop", { role: "group", "aria-label": label }, button, input, h("span.note", text));
  async function given(files) {
    const file = files && files[0];
    input.value = "";
    if (!file) return;
    if (file.size > most) {
      problem(t("The file has {found} bytes; at most {most} are read.", { found: file.size.toLocaleString("en"), most: most.toLocaleString("en") }));
      return;
    }
    await take(file);
  }
  const over = (on) => (event) => {
    event.preventDefault();
    zone.classList.toggle("over", on);
  };
  zone.addEventListener("dragover", over(true));
  zone.addEventListener("dragleave", over(false));
  zone.addEventListener("drop", (event) => {
    over(false)(event);
    given(event.dataTransfer.files);
  });
  return zone;
}

// Buttons of which one is pressed: segments({label, options: [[value, text]], chosen, pick})
export function segments({ label, options, chosen, pick }) {
  const place = h("div.segments", { role: "group", "aria-label": label });
  const draw = (now) =>
    fill(
      place,
      options.map(([value, text]) =>
        h("button", { type: "button", "aria-pressed": String(value === now), "data-value": value, on: { click: () => { draw(value); place.querySelector(`[data-value="${CSS.escape(value)}"]`).focus(); pick(value); } } }, text),
      ),
    );
  draw(chosen);
  return place;
}
