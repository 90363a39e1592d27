// Labels: a sentence, the probability of each label, and what each word contributed; or a recording and its label.

import { fill, h } from "../lib/dom.js";
import { path, shape } from "../lib/shapes.js";
import { explain, hideTip } from "../lib/tip.js";
import { heatmap, scale } from "../lib/map.js";
import { percent } from "../lib/numbers.js";
import { chooser, chosenOf, debounced, dropZone, latest, missing, segments } from "../lib/runs.js";

const EXAMPLES = { opinions: ["the film was not bad", "although the acting was superb the plot is dull", "the food was great but the service was awful", "we did not enjoy the concert", "this book is hardly boring"] };
const LONGEST = 2000;
const SHOWN = 8; // labels with bars
const MOST = 8 << 20;
const sure = (value) => (value > 0.9995 ? "> 99.9 %" : value < 0.0005 ? "< 0.1 %" : value > 0.995 ? `${(100 * value).toFixed(1)} %` : percent(value));
const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;

export async function mount(root, params, context) {
  const { t, get, post } = context;
  const { runs: every } = await get("/studio/labels/runs");
  const runs = every.filter((run) => run.kind !== "images").sort((a, b) => (a.kind === "texts" ? 0 : 1) - (b.kind === "texts" ? 0 : 1));
  const head = [
    h("h1", t("Labels")),
    h("p.lead", t("A classifier reads a text word by word and says at its end which label fits. Each word is shaded by what it contributed: blue speaks for the label, orange against it.")),
  ];
  if (!runs.length) {
    fill(root, head, missing(t, t("There is no classifier here yet. Train one on a file with a text, a tab and its label in each line, or on generated opinions:"), ["recollect train labels --data FILE.tsv", "recollect train labels --data opinions"]));
    return { unmount() {}, state: () => params };
  }
  const state = { run: chosenOf(runs, params.run, 1)[0], rule: params.rule === "path" ? "path" : "without", label: params.label || "" };
  const runOf = () => runs.find((run) => run.name === state.run);
  const example = () => (EXAMPLES[runOf().data] || [])[0] || "";
  state.text = params.text ?? example();
  const call = latest();
  const known = new Map(); // what was measured of a run
  let answer = null;
  let ends = [];

  const input = h("input.sentence", { type: "text", value: state.text, maxlength: LONGEST, autocomplete: "off", spellcheck: "false", on: { input: () => { state.text = input.value; write(); ask(); } } });
  const entry = h("div");
  const stage = h("div.stage");
  const measured = h("p.note.explain", { role: "status" });
  const picked = chooser({ t, runs, label: t("Classifier"), chosen: state.run, pick: (name) => { state.run = name; state.label = ""; answer = null; if (!state.text) input.value = state.text = example(); build(); } });
  fill(root, head, h("div.row.controls", picked, h("div.rules")), entry, stage, measured);

  function build() {
    const run = runOf();
    fill(stage);
    fill(measured);
    const rules = root.querySelector(".rules");
    if (run.kind === "recordings") {
      fill(rules);
      fill(entry, dropZone({ t, label: t("Choose a recording"), text: t("or drop one here: WAV, FLAC, Ogg or MP3, at most 8 MB and 120 seconds. It is read once and never kept. This run knows: {labels}.", { labels: run.labels.join(", ") }), accept: "audio/*,.wav,.flac,.ogg,.mp3", most: MOST, problem: context.problem, take: hear }));
      fill(measured, h("span", t("Say one of its labels into any recorder, and drop the file here.")), " ");
    } else {
      fill(rules, h("div.field", h("span.note", t("What a word contributed")), segments({ label: t("What a word contributed"), options: [["without", t("leave it out")], ["path", t("gradient × input")]], chosen: state.rule, pick: (rule) => { state.rule = rule; write(); ask.now(); } })));
      const some = EXAMPLES[run.data] || [];
      fill(entry, h("label.field.wide", h("span", t("Sentence")), input), h("div.row.examples", some.length ? h("span.note", t("Try")) : null, some.map((text) => h("button.quiet", { type: "button", on: { click: () => { input.value = state.text = text; write(); ask.now(); } } }, text))));
      ask.now();
    }
    tellMeasured();
    write();
  }

  const ask = debounced(async () => {
    if (!state.text.trim()) {
      fill(stage, h("p.note", t("Type a sentence above.")));
      return;
    }
    stage.setAttribute("aria-busy", "true");
    context.clearProblem();
    try {
      const found = await call((signal) => post("/studio/labels/contributions", { run: state.run, text: state.text, rule: state.rule }, { signal }));
      if (found === null) return;
      answer = found;
      draw();
    } catch {
      fill(stage);
    } finally {
      stage.removeAttribute("aria-busy");
    }
  }, 300);

  const best = () => answer.probabilities.reduce((top, value, i, all) => (value > all[top] ? i : top), 0);

  function bars(chosen, pick) {
    const order = answer.probabilities.map((value, i) => [value, i]).sort((a, b) => b[0] - a[0]).slice(0, SHOWN);
    return h(
      "div.probabilities",
      { role: "group", "aria-label": t("Probability of each label") },
      order.map(([value, i]) =>
        h("button.probability", { type: "button", "aria-pressed": String(i === chosen), on: { click: () => pick(i) } }, h("span.name", answer.labels[i]), h("span.track", h("span.bar", { style: { width: `${(100 * value).toFixed(2)}%` } })), h("span.n", sure(value))),
      ),
    );
  }

  function draw() {
    for (const end of ends) end();
    ends = [];
    const chosen = answer.labels.includes(state.label) ? answer.labels.indexOf(state.label) : best();
    const values = answer.values.map((row) => row[chosen]);
    const most = Math.max(1, ...values.map(Math.abs));
    const sum = values.reduce((a, b) => a + b, 0);
    const chips = answer.words.map((word, i) => {
      const value = values[i];
      const chip = h("span.reason", { tabindex: 0, class: `reason ${value < 0 ? "below" : "above"}${answer.known[i] ? "" : " unknown"}`, style: { "--w": (Math.abs(value) / most).toFixed(3) }, "aria-label": answer.known[i] ? `${word}: ${signed(value)}` : t("{word}: not in the vocabulary, {value}", { word, value: signed(value) }) }, h("span.word-text", word), h("span.value.n", signed(value)));
      explain(chip, () => (answer.known[i] ? "" : `${t("not in the vocabulary of this run: it reads <unk>")}\n`) + t("{word}: {value} log-odds of “{label}”", { word, value: signed(value), label: answer.labels[chosen] }));
      return chip;
    });
    const odds = answer.odds[chosen];
    const rule = answer.rule === "path" ? t("Gradient × input: the gradient of the log-odds, taken at 32 points on the way from no input to this one, times the input. These parts sum to the whole.") : t("Leave it out: how far the log-odds fall when the classifier reads the sentence without this word. Words act together, as “not” and “bad” do, so the parts need not sum to the whole.");
    const total = answer.rule === "path" ? t("{start} without input {sum} of the words = {odds}, which is a probability of {share}.", { start: signed(answer.start[chosen]), sum: signed(sum), odds: signed(odds), share: sure(answer.probabilities[chosen]) }) : t("The words sum to {sum}; the whole sentence stands at {odds}, which is a probability of {share}.", { sum: signed(sum), odds: signed(odds), share: sure(answer.probabilities[chosen]) });
    fill(
      stage,
      h("div.verdict", h("span", t("It says")), h("strong", answer.labels[best()])),
      bars(chosen, (i) => { state.label = answer.labels[i]; draw(); write(); stage.querySelector('.probability[aria-pressed="true"]').focus(); }),
      h("h2", t("What each word contributed to “{label}”", { label: answer.labels[chosen] })),
      h("div.reasons", { role: "group", "aria-label": t("Words and what they contributed") }, chips),
      h("p.note", scale({ kind: "diverging", low: `−${most.toFixed(1)}`, high: `+${most.toFixed(1)}`, label: t("log-odds") })),
      h("p.sum", total),
      h("p.note.explain", rule, " ", t("Log-odds are ln(p / (1 − p)): 0 is even, +2.3 ten to one, −2.3 one to ten.")),
      answer.so_far ? soFar(chosen) : null,
    );
  }

  

  // What it would say had the sentence ended at each word
  function soFar(chosen) {
    return [
      h("h2", t("What it would say had the sentence ended here")),
      h("div.steps", { role: "list" }, answer.words.map((word, i) => {
        const value = answer.so_far[i][chosen];
        return h("span.step", { role: "listitem", "aria-label": `${word}: ${sure(value)}` }, h("span.column", { "aria-hidden": "true" }, h("span.fill", { style: { height: `${(100 * value).toFixed(1)}%` } })), h("span.word-text", word), h("span.value.n", sure(value)));
      })),
      h("p.note.explain", t("The height is the probability of “{label}” after each word. This is its memory at work: a word such as “not” or “although” is kept until the word comes that it turns round. It was trained on whole texts, so these are leanings and not calibrated.", { label: answer.labels[chosen] })),
    ];
  }

  async function hear(file) {
    stage.setAttribute("aria-busy", "true");
    context.clearProblem();
    try {
      const body = new Blob([await file.arrayBuffer()], { type: "application/octet-stream" });
      const found = await call((signal) => post("/studio/labels/recording", body, { signal, query: { run: state.run } }));
      if (found === null) return;
      answer = found;
      drawSound();
    } catch {
      fill(stage);
    } finally {
      stage.removeAttribute("aria-busy");
    }
  }

  function drawSound() {
    for (const end of ends) end();
    ends = [];
    const [frames, bands] = answer.frames.shape;
    const label = Math.max(0, answer.labels.indexOf(state.label) >= 0 ? answer.labels.indexOf(state.label) : best());
    const flipped = new Float32Array(frames * bands);
    for (let f = 0; f < frames; f++) for (let b = 0; b < bands; b++) flipped[(bands - 1 - b) * frames + f] = answer.frames.data[f * bands + b];
    const sorted = Float32Array.from(flipped).sort();
    const wide = Math.max(260, Math.min(stage.clientWidth, 900));
    const [across, down] = [wide / frames, Math.max(4, Math.round(150 / bands))];
    const map = heatmap({ label: t("Spectrogram: time from left to right, low tones below"), cell: [across, down], say: (row, column, value) => t("{seconds} s, band {band}: {value}", { seconds: (column * answer.hop).toFixed(2), band: bands - row, value: value.toFixed(1) }) });
    map.set({ data: flipped, rows: bands, columns: frames, low: sorted[Math.floor(0.05 * (sorted.length - 1))], high: sorted[Math.floor(0.995 * (sorted.length - 1))] });
    ends.push(map.end);
    fill(
      stage,
      h("div.verdict", h("span", t("It hears")), h("strong", answer.labels[best()])),
      bars(label, (i) => { state.label = answer.labels[i]; drawSound(); }),
      h("h2", t("What it heard, and what it would say had the recording ended here")),
      h("div.scroll", map.element, answer.after ? after(wide, frames, label) : null),
      h("p.note.explain", t("Above: how loud each band is over {seconds} seconds, dark is loud. Below: the probability of “{label}” after each frame.", { seconds: (frames * answer.hop).toFixed(2), label: answer.labels[label] })),
    );
  }

  function after(wide, frames, label) {
    const classes = answer.labels.length;
    const high = 96;
    const points = Array.from({ length: frames }, (_, f) => [((f + 0.5) / frames) * wide, 6 + (1 - answer.after.data[f * classes + label]) * (high - 22)]);
    return shape("svg.chart", { viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, role: "img", "aria-label": t("Probability of “{label}” over time", { label: answer.labels[label] }) },
      [0, 0.5, 1].map((value) => shape("line.grid", { x1: 0, x2: wide, y1: 6 + (1 - value) * (high - 22), y2: 6 + (1 - value) * (high - 22) })),
      shape("path.line.s0", { d: path(points) }), shape("text.soft", { x: 0, y: high - 2 }, "0 s"), shape("text.soft", { x: wide, y: high - 2, "text-anchor": "end" }, `${(frames * answer.hop).toFixed(2)} s`));
  }

  async function tellMeasured() {
    const run = runOf();
    if (known.has(run.name)) {
      sayMeasured(known.get(run.name));
    } else if (run.shipped && run.data === "opinions") await measure();
    else measured.append(h("button", { type: "button", on: { click: measure } }, t("Measure how often it is right")), " ", t("on its own data; this may take a while"));
  }

  async function measure() {
    const name = state.run;
    fill(measured, t("measuring …"));
    try {
      known.set(name, await post("/studio/labels/measure", { run: name }));
      if (name === state.run) sayMeasured(known.get(name));
    } catch {
      fill(measured, t("It could not be measured here: the data of the run may not be on this machine."));
    }
  }

  function sayMeasured(found) {
    const split = { test: t("test"), valid: t("validation") }[found.split];
    const bag = found.baseline_accuracy && found.baseline_accuracy["bag of words"];
    fill(
      measured,
      t("How far to trust it: on {rows} rows of {split} the answer is right in {accuracy}; its probabilities are off by {error} points on the mean (calibration error over 15 bins).", { rows: found.rows.toLocaleString("en"), split, accuracy: `${(100 * found.accuracy).toFixed(1)} %`, error: (100 * found.calibration_error).toFixed(1) }),
      " ",
      bag === undefined || bag === null ? null : t("A bag of words, which knows no order, is right in {bag}.", { bag: `${(100 * bag).toFixed(1)} %` }),
      runOf().data === "opinions" ? ` ${t("It was trained on generated sentences and knows {count} words or so; of other texts it has no idea.", { count: 90 })}` : null,
    );
  }

  const write = () => context.setState(view.state());
  const view = {
    unmount() {
      ask.end();
      call.end();
      for (const end of ends) end();
      hideTip();
    },
    state: () => ({ run: state.run, text: runOf().kind === "texts" ? state.text : "", rule: state.rule === "path" ? "path" : "", label: state.label }),
  };
  build();
  return view;
}
