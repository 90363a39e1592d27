// Picture to words: a picture dropped in or a scene drawn by the server; its caption, and where each word looked.

import { fill, h } from "../lib/dom.js";
import { colour } from "../lib/colour.js";
import { scale } from "../lib/map.js";
import { percent } from "../lib/numbers.js";
import { chooser, chosenOf, debounced, dropZone, latest, missing } from "../lib/runs.js";

const SIDE = 520; // pixels of the longer side, as it is drawn
const EVEN = 4; // times an even share that the scale goes to, at least
const MOST = 8 << 20;

export async function mount(root, params, context) {
  const { t, get, post } = context;
  const [{ runs }, grammar] = await Promise.all([get("/studio/pictures/runs"), get("/studio/pictures/grammar")]);
  const head = [
    h("h1", t("Picture to words")),
    h("p.lead", t("A captioner writes word by word, and before each word it looks at the picture anew. Step through the words: what it looked at for this word stays clear, the rest fades.")),
  ];
  if (!runs.length) {
    fill(root, head, missing(t, t("There is no captioner here yet. This trains one on drawn scenes, in some minutes:"), ["recollect train captions"]));
    return { unmount() {}, state: () => params };
  }
  const state = { run: chosenOf(runs, params.run, 1)[0], number: Number(params.number) || 1, words: params.words || "", beam: ["1", "2", "5"].includes(params.beam) ? params.beam : "", word: Number(params.word) || 0, frame: Number(params.frame) || 0, overlay: params.overlay === "map" ? "map" : "light" };
  const call = latest();
  let file = null;
  let answer = null;

  const canvas = h("canvas.picture", { role: "img" });
  const seen = h("canvas.seen", { role: "img", "aria-label": t("The picture as the model sees it") });
  const words = h("div.caption", { role: "group", "aria-label": t("Words of the caption") });
  const about = h("div.about");
  const strip = h("div.frames", { hidden: true });
  const isFilm = () => answer !== null && answer.picture.shape.length === 4;
  const sceneWords = h("input", { type: "text", value: state.words, placeholder: t("a small red circle left of a large blue square"), maxlength: 200, size: 40, on: { change: () => { state.words = sceneWords.value.trim(); scene(); } } });
  const number = h("input", { type: "number", min: 0, max: 999999999, value: state.number, on: { change: () => { state.number = Math.max(0, Math.min(999999999, Math.round(Number(number.value)) || 0)); number.value = state.number; scene(); } } });
  const limits = h("p.note.explain");
  const stage = h("div.stage.two", h("div.frame", canvas, strip), h("div", words, about));

  fill(
    root,
    head,
    h(
      "div.row.controls",
      chooser({ t, runs, label: t("Captioner"), chosen: state.run, pick: (name) => { state.run = name; again(); } }),
      h("label.field", h("span", t("Beam")), select("beam", [["", t("as trained")], ["1", t("1, greedy")], ["2", "2"], ["5", "5"]], again)),
    ),
    dropZone({
      t,
      label: t("Choose a picture"),
      text: t("or drop one here: PNG, JPEG, WebP or GIF, at most 8 MB, to a model of films an animated one. It is read once and never kept."),
      accept: "image/apng,image/png,image/jpeg,image/webp,image/gif,image/bmp",
      most: MOST,
      problem: context.problem,
      take: async (given) => { file = given; await again(); },
    }),
    h(
      "div.row.controls.scene",
      h("label.field", h("span", t("Or a scene, drawn here: number")), h("div.row", number, h("button", { type: "button", on: { click: () => { number.value = state.number += 1; scene(); } } }, t("Next")))),
      h("label.field.grow.by-words", h("span", t("showing these words (empty: any)")), sceneWords),
      h("button.by-words", { type: "button", on: { click: () => { sceneWords.value = state.words = surprise(grammar); scene(); } } }, t("Other words")),
    ),
    stage,
    limits,
  );

  function select(key, options, after) {
    const made = h("select", { on: { change: () => { state[key] = made.value; after(); } } }, options.map(([value, text]) => h("option", { value, selected: value === state[key] }, text)));
    return made;
  }

  const scene = debounced(() => { file = null; return again(); }, 60);

  // What belongs to the run: films have no words to be drawn after, and what was trained on scenes knows nothing else
  function suit() {
    const run = runs.find((each) => each.name === state.run);
    for (const each of root.querySelectorAll(".by-words")) each.hidden = run.task !== "captions";
    limits.textContent = [t("The model sees a square of few pixels, which stands small beside the caption: what is not in it the model cannot know."), run.data === "shapes" ? t("It was trained on drawn scenes of two shapes; of a photograph it says what of them it resembles most.") : ""].join(" ");
  }

  async function again() {
    suit();
    stage.setAttribute("aria-busy", "true");
    context.clearProblem();
    try {
      const beam = state.beam ? Number(state.beam) : undefined;
      const found = await call((signal) =>
        file
          ? post("/studio/pictures/describe", file, { signal, query: { run: state.run, beam } })
          : post("/studio/pictures/scene", { run: state.run, number: state.number, words: state.words, ...(beam ? { beam } : {}) }, { signal }),
      );
      if (found === null) return;
      const first = answer === null;
      answer = found;
      state.word = first ? Math.min(state.word, answer.words.length) : 0;
      state.frame = isFilm() ? Math.min(first ? state.frame : 0, answer.picture.shape[0] - 1) : 0;
      draw();
      context.announce(answer.texts[0] || "");
    } catch {
      // the message stands below
    } finally {
      stage.removeAttribute("aria-busy");
    }
  }

  function draw() {
    const names = ["", ...answer.words];
    fill(
      words,
      names.map((word, i) =>
        h("button.token", { type: "button", "aria-pressed": String(i === state.word), on: { click: () => show(i), keydown: step } }, i ? (word === "<end>" ? "⏎" : word.replaceAll("␣", " ").trim() || "␣") : t("the picture")),
      ),
    );
    words.querySelector("button").classList.add("whole");
    const [high, wide] = answer.seen.shape.slice(-3);
    const captions = answer.captions;
    const right = captions && captions.includes(answer.texts[0]);
    fill(
      about,
      h("div.row.small-picture", seen, h("div", h("p.note", isFilm() ? t("What the model sees: {frames} frames of {wide} × {high} pixels.", { frames: answer.seen.shape[0], wide, high }) : t("What the model sees: {wide} × {high} pixels.", { wide, high })), h("p.note.gazing"), segmentsOf())),
      captions ? h("p", h("span.badge", { class: right ? "badge good" : "badge bad" }, right ? t("right") : t("wrong")), " ", t("The scene shows: {caption}", { caption: captions[0] })) : null,
      answer.notes.map((note) => h("p.note", note)),
      answer.texts.length > 1
        ? h("div.best", h("h3", t("What else it considered, with the score that decides: the log probability, set against the length; nearer 0 is likelier")), h("ol", answer.texts.map((text, i) => h("li", h("span", text), h("span.note.n", answer.scores[i].toFixed(2).replace("-", "−"))))))
        : null,
    );
    paintSeen();
    paint();
    write();
  }

  function segmentsOf() {
    const place = h("div.row");
    const of = (value, text) => h("button.quiet", { type: "button", "aria-pressed": String(state.overlay === value), on: { click: () => { state.overlay = value; place.replaceWith(segmentsOf()); paint(); write(); } } }, text);
    fill(place, of("light", t("as light")), of("map", t("as a map")), legend());
    return place;
  }

  const highest = () => {
    const [rows, columns] = answer.gaze.shape.slice(-2);
    return Math.min(1, Math.max(answer.gaze.data.reduce((a, b) => Math.max(a, b), 0), EVEN / (rows * columns)));
  };
  const legend = () => scale({ low: 0, high: percent(highest()), label: t("share of a word's gaze in each part") });

  function step(event) {
    const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const to = event.key === "Home" ? 0 : event.key === "End" ? answer.words.length : move ? state.word + move : null;
    if (to === null) return;
    event.preventDefault();
    show(Math.max(0, Math.min(answer.words.length, to)));
    words.children[state.word].focus();
  }

  function show(i) {
    state.word = i;
    [...words.children].forEach((each, j) => each.setAttribute("aria-pressed", String(j === i)));
    paint();
    write();
  }

  // One frame of a film, or the picture, as a canvas of its own size
  function pixels({ data: all, shape }) {
    const [rows, columns] = shape.slice(-3);
    const data = shape.length === 4 ? all.subarray(state.frame * rows * columns * 3, (state.frame + 1) * rows * columns * 3) : all;
    const image = new ImageData(columns, rows);
    for (let i = 0; i < rows * columns; i++) {
      for (let c = 0; c < 3; c++) image.data[4 * i + c] = data[3 * i + c];
      image.data[4 * i + 3] = 255;
    }
    const made = new OffscreenCanvas(columns, rows);
    made.getContext("2d").putImageData(image, 0, 0);
    return made;
  }

  function paintSeen() {
    const small = pixels(answer.seen);
    seen.width = small.width;
    seen.height = small.height;
    seen.getContext("2d").drawImage(small, 0, 0);
  }

  function paint() {
    const small = pixels(answer.picture);
    const enlarge = SIDE / Math.max(small.width, small.height);
    canvas.width = Math.round(small.width * enlarge);
    canvas.height = Math.round(small.height * enlarge);
    const pen = canvas.getContext("2d");
    pen.imageSmoothingQuality = "high";
    pen.drawImage(small, 0, 0, canvas.width, canvas.height);
    const count = answer.gaze.shape[0];
    const [rows, columns] = answer.gaze.shape.slice(-2);
    drawStrip();
    const word = state.word ? answer.words[state.word - 1].replaceAll("␣", " ").trim() : "";
    const gazing = about.querySelector(".gazing");
    canvas.setAttribute("aria-label", state.word ? t("Where it looked for “{word}”", { word: word === "<end>" ? t("end") : word }) : t("The picture: {caption}", { caption: answer.texts[0] || "" }));
    if (!state.word || state.word > count) {
      gazing.textContent = t("Choose a word, or step with the arrow keys.");
      return;
    }
    const places = answer.gaze.data.length / count;
    const whole = answer.gaze.data.subarray((state.word - 1) * places, state.word * places);
    const own = isFilm() ? whole.subarray(state.frame * rows * columns, (state.frame + 1) * rows * columns) : whole;
    const most = highest();
    const mask = new ImageData(columns, rows);
    const above = context.about.signs.above;
    const paper = colour("paper");
    for (let i = 0; i < rows * columns; i++) {
      const level = Math.max(0, Math.min(1, own[i] / most));
      if (state.overlay === "light") {
        const value = parseInt(paper.slice(1), 16);
        mask.data.set([value >> 16, (value >> 8) & 255, value & 255, Math.round(225 * (1 - level) ** 1.5)], 4 * i);
      } else mask.data.set([...above, Math.round(235 * level)], 4 * i);
    }
    const grid = new OffscreenCanvas(columns, rows);
    grid.getContext("2d").putImageData(mask, 0, 0);
    if (state.overlay === "map") {
      pen.filter = "grayscale(1)";
      pen.drawImage(small, 0, 0, canvas.width, canvas.height);
      pen.filter = "none";
      pen.globalAlpha = 0.6;
      pen.fillStyle = paper;
      pen.fillRect(0, 0, canvas.width, canvas.height);
      pen.globalAlpha = 1;
    }
    pen.imageSmoothingEnabled = true;
    pen.drawImage(grid, 0, 0, canvas.width, canvas.height);
    if (isFilm()) {
      const shares = sharesOf(state.word);
      const best = shares.indexOf(Math.max(...shares));
      gazing.textContent = t("{word}: most of its gaze, {share}, lies in frame {frame} of {frames}. The weights: {kind}.", { word: `“${word === "<end>" ? t("end") : word}”`, share: percent(shares[best]), frame: best + 1, frames: shares.length, kind: answer.kind });
      return;
    }
    const top = own.indexOf(own.reduce((a, b) => Math.max(a, b), 0));
    gazing.textContent = t("{word}: most of its gaze, {share}, lies in row {row}, column {column} of {rows} × {columns} parts. The weights: {kind}.", { word: `“${word === "<end>" ? t("end") : word}”`, share: percent(own[top]), row: Math.floor(top / columns) + 1, column: (top % columns) + 1, rows, columns, kind: answer.kind });
  }

  // How much of a word's gaze lies in each frame
  function sharesOf(word) {
    const [, frames, rows, columns] = answer.gaze.shape;
    const at = (word - 1) * frames * rows * columns;
    return Array.from({ length: frames }, (_, f) => answer.gaze.data.subarray(at + f * rows * columns, at + (f + 1) * rows * columns).reduce((a, b) => a + b, 0));
  }

  // The frames of a film: one is chosen by a press or with the slider, and bars say where the word looked
  function drawStrip() {
    strip.hidden = !isFilm();
    if (strip.hidden) return;
    const frames = answer.picture.shape[0];
    const shares = state.word && state.word <= answer.gaze.shape[0] ? sharesOf(state.word) : new Array(frames).fill(0);
    const most = Math.max(...shares, 1e-9);
    const slider = strip.querySelector("input");
    if (!slider || slider.max !== String(frames - 1)) {
      const made = h("input", { type: "range", min: 0, max: frames - 1, value: state.frame, on: { input: () => { state.frame = Number(made.value); paintSeen(); paint(); write(); } } });
      fill(strip, h("div.shares", { "aria-hidden": "true" }), h("label.field", h("span", t("Frame")), made));
    }
    const field = strip.querySelector("input");
    field.value = state.frame;
    field.setAttribute("aria-valuetext", t("frame {frame} of {frames}", { frame: state.frame + 1, frames }));
    fill(strip.querySelector(".shares"), shares.map((share, f) => h("span", { class: f === state.frame ? "now" : "", on: { click: () => { state.frame = f; paintSeen(); paint(); write(); } } }, h("span", { style: { height: `${((100 * share) / most).toFixed(1)}%` } }))));
  }

  const repaint = () => answer && paint();
  document.addEventListener("themechange", repaint);
  const write = () => context.setState(view.state());
  const view = {
    unmount() {
      call.end();
      scene.end();
      document.removeEventListener("themechange", repaint);
    },
    state: () => ({ run: state.run, number: state.number, words: state.words, beam: state.beam, word: state.word || "", frame: state.frame || "", overlay: state.overlay === "map" ? "map" : "" }),
  };
  await again();
  return view;
}

// A scene in words, drawn from its grammar
function surprise({ sizes, colours, shapes, relations }) {
  const any = (some) => some[Math.floor(Math.random() * some.length)];
  const thing = () => `a ${any(sizes)} ${any(colours)} ${any(shapes)}`;
  const first = thing();
  let second = thing();
  while (second === first) second = thing();
  return `${first} ${any(relations)} ${second}`;
}
