// Sentence to sentence: a line, translated by several translators at once, and where each word of it came from.

import { fill, h, onFrame } from "../lib/dom.js";
import { shape } from "../lib/shapes.js";
import { explain, hideTip } from "../lib/tip.js";
import { heatmap, scale } from "../lib/map.js";
import { variableOf } from "../lib/colour.js";
import { percent } from "../lib/numbers.js";
import { chosenOf, debounced, latest, missing, named } from "../lib/runs.js";

const EXAMPLES = {
  "numbers-en-fr": ["two hundred and twenty-one", "ninety-nine", "seven thousand and eighty", "one hundred and ninety-two thousand"],
  "tatoeba-cmn-en-zh": ["I do not know where he lives.", "She is reading a book.", "Where is the station?"],
};
const MOST = 4; // translators at once
const LONGEST = 400;

export async function mount(root, params, context) {
  const { t, get, post } = context;
  const { runs } = await get("/studio/sentences/runs");
  const state = {
    runs: chosenOf(runs, params.runs, 1),
    beam: ["1", "2", "5", "8"].includes(params.beam) ? params.beam : "",
    nbest: ["1", "3", "5"].includes(params.nbest) ? params.nbest : "3",
    map: params.map || "",
  };
  const exampleOf = (name) => (EXAMPLES[runs.find((run) => run.name === name)?.data] || [])[0];
  state.text = params.text || exampleOf(state.runs[0]) || "";
  const cards = new Map();

  const input = h("input.sentence", { type: "text", value: state.text, maxlength: LONGEST, autocomplete: "off", spellcheck: "false", on: { input: () => { state.text = input.value; write(); ask(); } } });
  const examples = h("div.row.examples");
  const place = h("div.translators");
  const head = [
    h("h1", t("Sentence to sentence")),
    h("p.lead", t("Type a sentence: every translator that is chosen writes its own. Point at a word of a translation and the source words that it came from light up, the stronger the more they count; point at a source word to see where it went.")),
  ];
  if (!runs.length) {
    fill(root, head, missing(t, t("There is no translator here yet. This trains one on numbers in words, in some minutes:"), ["recollect train translation --pair en-fr --model attend"]));
    return { unmount() {}, state: () => params };
  }
  fill(
    root,
    head,
    h("label.field.wide", h("span", t("Sentence")), input),
    examples,
    h(
      "div.row.controls",
      h("fieldset.chips", h("legend", t("Translators")), runs.map((run) => {
        const box = h("input", { type: "checkbox", checked: state.runs.includes(run.name), value: run.name, on: { change: () => toggle(box) } });
        return h("label.chip", box, h("span.dot", { style: { background: variableOf(run.model) } }), run.name);
      })),
      menu(t("Beam"), "beam", [["", t("as trained")], ["1", t("1, greedy")], ["2", "2"], ["5", "5"], ["8", "8"]]),
      menu(t("Shown"), "nbest", [["1", t("the best")], ["3", t("3 best")], ["5", t("5 best")]]),
    ),
    place,
  );

  function menu(label, key, options) {
    const select = h("select", { on: { change: () => { state[key] = select.value; write(); ask.now(); } } }, options.map(([value, text]) => h("option", { value, selected: value === state[key] }, text)));
    return h("label.field", h("span", label), select);
  }

  function toggle(box) {
    state.runs = box.checked ? [...state.runs, box.value] : state.runs.filter((name) => name !== box.value);
    if (state.runs.length > MOST) {
      state.runs = state.runs.filter((name) => name !== box.value);
      box.checked = false;
      context.announce(t("At most {most} translators stand side by side.", { most: MOST }));
    }
    if (!state.text && exampleOf(box.value)) input.value = state.text = exampleOf(box.value);
    write();
    draw();
    ask.now();
  }

  function write() {
    context.setState(view.state());
  }

  function draw() {
    for (const [name, card] of cards) if (!state.runs.includes(name)) { card.end(); cards.delete(name); }
    for (const name of state.runs) if (!cards.has(name)) cards.set(name, makeCard(runs.find((run) => run.name === name)));
    fill(place, state.runs.map((name) => cards.get(name).element));
    const some = state.runs.flatMap((name) => EXAMPLES[runs.find((run) => run.name === name).data] || []);
    fill(examples, some.length ? h("span.note", t("Try")) : null, some.map((text) => h("button.quiet", { type: "button", on: { click: () => { input.value = state.text = text; write(); ask.now(); } } }, text)));
    place.classList.toggle("several", state.runs.length > 1);
  }

  const ask = debounced(() => Promise.all(state.runs.map((name) => cards.get(name)?.ask())), 350);

  function makeCard(run) {
    const call = latest();
    const body = h("div.alignment", { "aria-live": "off" });
    const status = h("p.note", { role: "status" });
    let shown = 0;
    let answer = null;
    let drawn = null;

    async function ask() {
      if (!state.text.trim()) {
        answer = null;
        fill(body);
        status.textContent = t("Type a sentence above.");
        return;
      }
      element.setAttribute("aria-busy", "true");
      try {
        const asked = { run: run.name, text: state.text, nbest: Number(state.nbest) };
        if (state.beam) asked.beam = Number(state.beam);
        const found = await call((signal) => post("/studio/sentences/trace", asked, { signal }));
        if (found === null) return;
        answer = found;
        shown = 0;
        drawAnswer();
      } catch {
        status.textContent = t("No translation: see the message below.");
      } finally {
        element.removeAttribute("aria-busy");
      }
    }

    function drawAnswer() {
      drawn?.end();
      const best = answer.translations[shown];
      if (!best) {
        fill(body);
        status.textContent = answer.unknown ? t("This translator knows no word of the sentence.") : t("There is nothing to translate.");
        return;
      }
      status.textContent = "";
      const names = best.maps;
      const usual = names.includes("mean") ? "mean" : "influence";
      const map = names.includes(state.map) ? state.map : usual;
      drawn = drawAlignment({ t, run, answer, best, weights: slice(answer, shown, names.indexOf(map)), label: map });
      fill(
        body,
        drawn.element,
        mapsOf(best, map),
        h("p.note", map === "influence" ? (names.length > 1 ? t("Influence: how much the probability of each token that was written moves with the vector of each source token, by gradient. It can be set beside the attention.") : t("This translator keeps the source in one vector and has no weights over its words. What is shown is influence, by gradient: how much the probability of each token that was written moves with the vector of each source token.")) : t("Attention: the weights with which the translator mixed what it had read of the source when it wrote the word; they sum to 1.")),
        answer.translations.length > 1 ? listOf() : null,
        best.finished ? null : h("p.note", t("The translation was cut off at the longest that is written.")),
      );
      drawn.link();
    }

    function mapsOf(best, map) {
      if (best.maps.length < 2) return null;
      const heads = best.maps.filter((name) => name.startsWith("layer "));
      const several = heads.length > 1;
      const options = best.maps.filter((name) => several || !name.startsWith("layer "));
      const [, rows, columns] = shapeOf(answer, shown);
      return h(
        "div.heads",
        { role: "group", "aria-label": t("Which weights are shown") },
        options.map((name) => {
          const small = heatmap({ label: nameOf(name), cell: [Math.max(3, Math.min(12, 110 / columns)), Math.max(3, Math.min(12, 80 / rows))] });
          small.set({ data: slice(answer, shown, best.maps.indexOf(name)), rows, columns, low: 0, high: 1 });
          small.element.tabIndex = -1;
          return h("button.head", { type: "button", "aria-pressed": String(name === map), on: { click: () => { state.map = name; write(); for (const card of cards.values()) card.redraw(); } } }, small.element, h("span", nameOf(name)));
        }),
        h("span.note.scales", scale({ low: 0, high: 1, label: t("share of each row") })),
      );
    }

    function nameOf(name) {
      if (name === "mean") return t("attention, mean");
      if (name === "influence") return t("influence");
      const [, layer, , head] = name.split(" ");
      return t("layer {layer}, head {head}", { layer, head });
    }

    function listOf() {
      return h(
        "div.best",
        h("h3", t("What else it considered, with the score that decides: the log probability, set against the length; nearer 0 is likelier")),
        h(
          "ol",
          answer.translations.map((each, number) =>
            h("li", h("button.quiet", { type: "button", "aria-pressed": String(number === shown), on: { click: () => { shown = number; drawAnswer(); body.querySelectorAll(".best button")[number].focus(); } } }, each.text || "∅"), h("span.note.n", each.score.toFixed(2).replace("-", "−"))),
          ),
        ),
      );
    }

    const pair = run.pair ? ` · ${run.pair.replace("-", " → ")}` : "";
    const element = h("section.card.translator", { "aria-label": run.name }, h("header.row", named(run), h("span.note", `${run.model} · ${run.data}${pair}`)), body, status);
    return { element, ask, redraw: () => answer && drawAnswer(), end() { call.end(); drawn?.end(); } };
  }

  const view = {
    unmount() {
      ask.end();
      for (const card of cards.values()) card.end();
      hideTip();
    },
    state: () => ({ text: state.text, runs: state.runs.join(","), beam: state.beam, nbest: state.nbest === "3" ? "" : state.nbest, map: state.map }),
  };
  draw();
  ask.now();
  return view;
}

const shapeOf = (answer, number) => answer[String(number)].shape;

function slice(answer, number, map) {
  const [, rows, columns] = shapeOf(answer, number);
  return answer[String(number)].data.subarray(map * rows * columns, (map + 1) * rows * columns);
}

// Words of tokens: [{text, tokens}], the end's last
function group(tokens, words) {
  const found = [];
  tokens.forEach((token, i) => {
    const last = found[found.length - 1];
    if (last && last.word === words[i]) last.tokens.push(i);
    else found.push({ word: words[i], tokens: [i] });
  });
  for (const each of found) each.text = each.word < 0 ? "⏎" : each.tokens.map((i) => tokens[i]).join("").replaceAll("␣", " ").trim();
  return found;
}

// The words of both sides, with ribbons between them as wide and as dark as their weight
function drawAlignment({ t, run, answer, best, weights, label }) {
  const columns = answer.tokens.length;
  const source = group(answer.tokens, answer.words);
  const target = group(best.tokens, best.words);
  const table = target.map((mine) => source.map((theirs) => mine.tokens.reduce((sum, row) => sum + theirs.tokens.reduce((own, column) => own + weights[row * columns + column], 0), 0) / mine.tokens.length));
  const lines = shape("svg.ribbons", { "aria-hidden": "true" });
  const chips = { source: [], target: [] };
  const make = (side, words) => {
    const items = words.map((word, i) => {
      const chip = h("button.token", { type: "button" }, word.text || " ");
      if (word.word < 0) chip.classList.add("end");
      chip.setAttribute("aria-label", describe(side, i));
      chip.addEventListener("pointerenter", () => light(side, i));
      chip.addEventListener("focus", () => light(side, i));
      chip.addEventListener("click", () => light(side, i));
      chip.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (step) { chips[side][Math.max(0, Math.min(words.length - 1, i + step))].focus(); event.preventDefault(); }
        if (event.key === "ArrowUp" || event.key === "ArrowDown") {
          const other = side === "target" ? "source" : "target";
          const strengths = side === "target" ? table[i] : table.map((row) => row[i]);
          chips[other][strengths.indexOf(Math.max(...strengths))].focus();
          event.preventDefault();
        }
      });
      explain(chip, () => describe(side, i));
      chips[side].push(chip);
      return chip;
    });
    return h(`div.words.${side}`, { role: "group", "aria-label": side === "source" ? t("Source") : t("Translation") }, h("span.side", side === "source" ? t("source") : t("translation")), h("span.tokens", items));
  };
  function describe(side, i) {
    const own = side === "target" ? target[i] : source[i];
    const others = side === "target" ? source : target;
    const shares = side === "target" ? table[i] : table.map((row) => row[i]);
    const order = shares.map((value, j) => [value, j]).sort((a, b) => b[0] - a[0]).slice(0, 3).filter(([value]) => value >= 0.01);
    const said = order.map(([value, j]) => `${others[j].word < 0 ? t("end") : others[j].text} ${percent(value)}`).join(", ");
    const name = own.word < 0 ? t("end") : own.text;
    return side === "target" ? `${name} ← ${said}` : `${name} → ${said || t("nothing")}`;
  }
  let lit = null;
  function light(side, i) {
    lit = [side, i];
    const other = side === "target" ? "source" : "target";
    const shares = side === "target" ? table[i] : table.map((row) => row[i]);
    chips[side].forEach((chip, j) => { chip.classList.toggle("chosen", j === i); chip.style.removeProperty("--w"); chip.classList.remove("lit"); });
    chips[other].forEach((chip, j) => { chip.classList.remove("chosen"); chip.classList.add("lit"); chip.style.setProperty("--w", shares[j].toFixed(3)); });
    link();
  }
  function dark() {
    lit = null;
    for (const chip of [...chips.source, ...chips.target]) { chip.classList.remove("chosen", "lit"); chip.style.removeProperty("--w"); }
    link();
  }
  const link = onFrame(() => {
    const box = element.getBoundingClientRect();
    if (!box.width) return;
    lines.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
    lines.setAttribute("width", box.width);
    lines.setAttribute("height", box.height);
    const at = (chip, low) => { const own = chip.getBoundingClientRect(); return [own.left - box.left + own.width / 2, (low ? own.bottom : own.top) - box.top]; };
    const found = [];
    for (let i = 0; i < target.length; i++) {
      for (let j = 0; j < source.length; j++) {
        const weight = table[i][j];
        const chosen = lit && (lit[0] === "target" ? lit[1] === i : lit[1] === j);
        if (weight < (chosen ? 0.02 : 0.08)) continue;
        const [x1, y1] = at(chips.source[j], true);
        const [x2, y2] = at(chips.target[i], false);
        const middle = (y1 + y2) / 2;
        found.push(shape("path", { d: `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`, "stroke-width": 1 + 5 * weight, "stroke-opacity": lit && !chosen ? 0.06 : 0.15 + 0.75 * weight }));
      }
    }
    lines.replaceChildren(...found);
  });
  const element = h("div.bridge", { style: { "--mark": variableOf(run.model) }, on: { pointerleave: dark, focusout: (event) => element.contains(event.relatedTarget) || dark() }, "data-map": label }, lines);
  element.append(make("source", source), make("target", target));
  const watch = new ResizeObserver(link);
  watch.observe(element);
  return { element, link, end: () => { watch.disconnect(); link.cancel(); } };
}
