// One lane: a model, its surprise at each character, a picture of its state, and what it expects next.

import { fill, h } from "../../lib/dom.js";
import { colourOf } from "../../lib/colour.js";
import { scale } from "../../lib/map.js";
import { t } from "../../lib/messages.js";
import { bytes, large, percent, short } from "../../lib/numbers.js";
import { explain, hideTip, showTip } from "../../lib/tip.js";
import { Columns } from "./columns.js";
import { drawBars, drawImage, frameColumn, imageOf, prepare } from "./paint.js";
import { describeModel, describePicture, visible } from "./words.js";

const BARS = 34; // height in pixels
const MOST_BITS = 8;
const LIKELIEST = 8;
const CHANGED = "bad"; // the colour of differences
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

// `page` has the state of the view: text(line), at(), mode(), view {cell, scroll, width}, and what lanes ask of it:
// choosePicture, edit, remove, adopt.
export class LaneView {
  constructor(about, page) {
    this.about = about;
    this.page = page;
    this.lines = [new Columns(), new Columns()];
    this.written = ["", ""];
    this.cursor = [0, 0];
    this.looked = [null, null];
    [this.title, this.tagline] = describeModel(about.model);
    this.tone = colourOf(about.model);
    this.levels = new Set(about.pictures.map((picture) => picture.level)).size;
    this.picture = null;
    this.build();
    this.choose(page.pictureOf(about.name) || (about.pictures[0] && about.pictures[0].key));
  }

  build() {
    const { about, page } = this;
    const id = `lane-${about.name.replace(/[^\w-]/g, "_")}`;
    this.facts = h("dl.facts");
    this.select = h(
      "select",
      { "aria-label": t("Picture of {name}", { name: this.title }), on: { change: () => { this.choose(this.select.value); page.choosePicture(about.name, this.select.value); } } },
      about.pictures.map((picture) => h("option", { value: picture.key }, describePicture(picture, this.levels).title)),
    );
    this.bars = [0, 1].map(() => h("canvas.bars", { role: "img" }));
    this.map = h("canvas.map", { tabindex: 0, role: "application" });
    this.caption = h("p.note");
    this.legend = h("span.legend");
    this.next = h("div.next");
    this.editor = h("form.editor.unsaved", { hidden: true, on: { submit: (event) => this.applyEdit(event) } });
    this.texts = h("div.written", { hidden: true });
    const dot = h("span.dot", { style: { background: `var(--${this.tone})` }, "aria-hidden": "true" });
    this.element = h(
      "section.lane",
      { "aria-labelledby": id, "data-lane": about.name },
      h(
        "header.lane-head",
        h("div.lane-about", h("h2", { id }, dot, this.title, this.tagline ? h("span.tagline", this.tagline) : null), h("span.run", about.name), this.facts),
        h("div.row.lane-tools.unsaved", this.select, h("button.quiet", { type: "button", "aria-label": t("Remove {name}", { name: this.title }), on: { click: () => page.removeLane(about.name) } }, "×")),
      ),
      h(
        "div.lane-body",
        h("div.lane-time", this.bars, h("div.map-frame", this.map), h("div.row.under", this.caption, this.legend), this.editor, this.texts),
        this.next,
      ),
    );
    this.rows = Array.from({ length: LIKELIEST }, () => {
      const label = h("span.token");
      const bar = h("span.bar", { style: { background: `var(--${this.tone})` } });
      const other = h("span.bar.other");
      const value = h("span.n");
      return { element: h("li", label, h("span.track", bar, other), value), label, bar, other, value };
    });
    this.nextTitle = h("h3");
    this.nextList = h("ol", this.rows.map((row) => row.element));
    fill(this.next, this.nextTitle, this.nextList);
    explain(this.map, (event) => this.sayAt(this.find(event)));
    explain(this.bars[0], (event) => this.sayBars(event, 0));
    explain(this.bars[1], (event) => this.sayBars(event, 1));
    this.map.addEventListener("click", (event) => this.pick(this.find(event)));
    this.map.addEventListener("keydown", (event) => this.onKey(event));
    this.map.addEventListener("blur", hideTip);
  }

  choose(key) {
    this.picture = this.about.pictures.find((picture) => picture.key === key) || this.about.pictures[0] || null;
    if (!this.picture) {
      this.map.hidden = true;
      this.caption.textContent = t("This model explains nothing of itself.");
      return;
    }
    this.select.value = this.picture.key;
    this.looked = [null, null];
    this.editor.hidden = true;
    this.describe();
  }

  describe() {
    if (!this.picture) return;
    const { title, sentence } = describePicture(this.picture, this.levels);
    const { low, high } = this.picture;
    const changed = this.page.mode() === "difference";
    const described = `${this.picture.key} ${changed}`;
    if (described === this.described) return;
    this.described = described;
    fill(this.caption, h("strong", title), " ", changed ? t("How far the branch is from the text, number by number.") : sentence);
    const top = changed ? (high - Math.min(0, low)) / 2 : high;
    fill(this.legend, scale(changed ? { kind: "sequential", colour: CHANGED, low: 0, high: short(top) } : { kind: low < 0 ? "diverging" : "sequential", low: short(low), high: short(high) }));
    this.map.setAttribute("aria-label", `${this.title}: ${title}`);
  }

  take(frame, text, edits) {
    this.lines[frame.line].take(frame, text, edits);
    this.looked[frame.line] = null;
    this.element.dataset[frame.line ? "branch" : "read"] = frame.position;
  }

  dropBranch() {
    this.lines[1].clear();
    this.looked[1] = null;
    delete this.element.dataset.branch;
  }

  // The picture of one position: the newest comes with what was read, others were asked for
  once(line) {
    const columns = this.lines[line];
    const at = columns.at(this.page.at(line)) + 1;
    if (this.looked[line] && this.looked[line].at === at && this.looked[line].key === columns.key) return this.looked[line];
    return columns.now && columns.now.at === at ? columns.now : null;
  }

  needsLook(line) {
    return this.picture && this.picture.once && this.lines[line].length > 0 && this.lines[line].at(this.page.at(line)) >= 0 && !this.once(line);
  }

  // What is drawn: rows × columns of numbers, and how a column lies in the text
  scene() {
    const { picture } = this;
    const mode = this.page.mode();
    const line = mode === "branch" ? 1 : 0;
    const columns = this.lines[line];
    const both = mode === "difference";
    const kind = both ? "sequential" : picture.low < 0 ? "diverging" : "sequential";
    const low = both ? 0 : picture.low;
    const high = both ? (picture.high - Math.min(0, picture.low)) / 2 : picture.high;
    const colours = { kind, low, high, tone: both ? CHANGED : undefined };
    const sub = (one) => (both ? (...place) => Math.abs(one(this.lines[1], 1)(...place) - one(this.lines[0], 0)(...place)) : one(columns, line));
    if (picture.kind === "units" || picture.kind === "cache") {
      const rows = picture.shape[0];
      const value = (of) => (row, letter) => {
        if (letter >= of.text.length) return NaN;
        const found = of.values[of.ends[letter] === letter + 1 ? letter : of.at(letter + 1)];
        return found ? found[row] : NaN;
      };
      return { rows, tall: Math.max(2, Math.min(14, Math.round(150 / rows))), timed: true, value: sub(value), colours, line };
    }
    if (picture.kind === "attention" || picture.kind === "window") {
      const attention = picture.kind === "attention";
      const rows = attention ? picture.shape[0] : picture.shape[1];
      const value = (of, which) => {
        const found = this.once(which);
        const [first, second] = found ? found.shape : [0, 0];
        const slots = attention ? second : first;
        return (row, letter) => {
          if (!found || letter >= of.text.length) return NaN;
          const slot = of.at(letter + 1) - (found.at - slots);
          if (slot < 0 || slot >= slots || of.at(letter + 1) >= found.at) return NaN;
          return attention ? found.data[row * second + slot] : found.data[slot * second + row];
        };
      };
      return { rows, tall: attention ? 16 : Math.max(2, Math.min(14, Math.round(150 / rows))), timed: true, value: sub(value), colours, line };
    }
    const [heads, rows, wide] = picture.shape;
    const value = (of, which) => {
      const found = this.once(which);
      return (row, column) => (found ? found.data[(Math.floor(column / wide) * rows + row) * wide + (column % wide)] : NaN);
    };
    return { rows, columns: heads * wide, wide, heads, timed: false, value: sub(value), colours, line };
  }

  draw() {
    const { page } = this;
    const { cell, width, scroll } = page.view;
    const branched = page.branched();
    for (const line of [0, 1]) {
      const bars = this.bars[line];
      bars.hidden = line === 1 && !branched;
      if (bars.hidden) continue;
      const pen = prepare(bars, width, BARS);
      const columns = this.lines[line];
      drawBars(pen, columns, page.text(line).length, page.view, cell, BARS, this.tone, MOST_BITS, line === 1);
      const mean = columns.about && columns.about.bits !== null ? columns.about.bits : null;
      bars.setAttribute("aria-label", mean === null ? t("Surprise under each character") : t("Surprise under each character, on average {bits} bits", { bits: mean.toFixed(2) }));
    }
    if (this.picture) this.drawMap(cell, width, scroll);
    this.drawFacts();
    this.drawNext();
  }

  drawMap(cell, width, scroll) {
    const scene = this.scene();
    this.shown = scene;
    if (scene.timed) {
      const letters = Math.max(this.page.text(0).length, this.page.text(1).length);
      const first = Math.floor(scroll / cell);
      const count = Math.max(0, Math.min(letters, Math.ceil((scroll + width) / cell)) - first);
      const height = scene.rows * scene.tall;
      const pen = prepare(this.map, width, height);
      if (count) {
        const image = imageOf(scene.rows, count, (row, column) => scene.value(row, first + column), scene.colours);
        drawImage(pen, image, first * cell - scroll, 0, count * cell, height);
      }
      const at = this.page.at(scene.line);
      if (at > 0) frameColumn(pen, (at - 1) * cell - scroll, cell, height);
      scene.place = { first, count, x: first * cell - scroll, cell, tall: scene.tall };
      return;
    }
    const gap = 10;
    const side = Math.max(2, Math.min(14, Math.floor((width - gap * (scene.heads - 1)) / scene.columns)));
    const tall = Math.max(side, Math.min(14, Math.round(120 / scene.rows)));
    const across = Math.min(side, tall);
    const pen = prepare(this.map, width, scene.rows * across);
    for (let head = 0; head < scene.heads; head++) {
      const image = imageOf(scene.rows, scene.wide, (row, column) => scene.value(row, head * scene.wide + column), scene.colours);
      drawImage(pen, image, head * (scene.wide * across + gap), 0, scene.wide * across, scene.rows * across);
    }
    scene.place = { first: 0, count: scene.columns, x: 0, cell: across, tall: across, gap };
  }

  find(event) {
    const scene = this.shown;
    if (!scene || !scene.place) return null;
    const box = this.map.getBoundingClientRect();
    const x = event.clientX - box.left;
    const row = Math.floor((event.clientY - box.top) / scene.place.tall);
    let column;
    if (scene.timed) column = scene.place.first + Math.floor((x - scene.place.x) / scene.place.cell);
    else {
      const span = scene.wide * scene.place.cell + scene.place.gap;
      const head = Math.floor(x / span);
      const inside = Math.floor((x - head * span) / scene.place.cell);
      if (inside >= scene.wide || head >= scene.heads) return null;
      column = head * scene.wide + inside;
    }
    return row >= 0 && row < scene.rows && column >= 0 ? [row, column] : null;
  }

  sayAt(place) {
    if (!place || !this.shown) return null;
    const [row, column] = place;
    const value = this.shown.value(row, column);
    if (Number.isNaN(value)) return null;
    const number = short(value);
    const { kind } = this.picture;
    if (kind === "matrix") {
      const wide = this.shown.wide;
      return t("head {head}, row {row}, column {column}: {number}", { head: Math.floor(column / wide) + 1, row: row + 1, column: (column % wide) + 1, number });
    }
    const letter = visible(this.page.text(this.shown.line)[column] || "");
    if (kind === "attention") return t("head {head} looks at “{letter}”: {number}", { head: row + 1, letter, number });
    return t("unit {unit}, at “{letter}”: {number}", { unit: row + 1, letter, number });
  }

  sayBars(event, line) {
    const box = this.bars[line].getBoundingClientRect();
    const letter = Math.floor((event.clientX - box.left + this.page.view.scroll) / this.page.view.cell);
    const columns = this.lines[line];
    const column = columns.at(letter + 1);
    if (letter < 0 || letter >= columns.text.length || column < 0 || Number.isNaN(columns.surprise[column])) return null;
    const bits = columns.surprise[column];
    const name = visible(columns.text[letter]);
    return t("“{letter}” came with {share}: {bits} bits of surprise", { letter: name, share: percent(2 ** -bits), bits: bits.toFixed(2) });
  }

  onKey(event) {
    const move = MOVES[event.key];
    const scene = this.shown;
    if (!scene || !scene.place) return;
    if (move) {
      event.preventDefault();
      event.stopPropagation();
      const most = scene.timed ? this.page.text(scene.line).length : scene.columns;
      this.cursor = [clamp(this.cursor[0] + move[0], scene.rows), clamp(this.cursor[1] + move[1], most)];
      const text = this.sayAt(this.cursor);
      const box = this.map.getBoundingClientRect();
      if (!text) return;
      showTip(text, Math.min(box.right - 20, box.left + (this.cursor[1] + 0.5) * scene.place.cell - (scene.timed ? this.page.view.scroll : 0)), box.top + (this.cursor[0] + 0.5) * scene.place.tall);
      this.page.announce(text);
    } else if (event.key === "Enter") {
      event.preventDefault();
      this.pick(this.cursor);
    }
  }

  // A number of the state was chosen: it can be set to another value
  pick(place) {
    const { picture, page } = this;
    if (!place || !picture || page.mode() === "difference") return;
    const [row, column] = place;
    const value = this.shown.value(row, column);
    if (Number.isNaN(value)) return;
    const columns = this.lines[this.shown.line];
    const timed = picture.kind === "units" || picture.kind === "cache";
    const at = timed ? columns.at(column + 1) : columns.at(page.at(this.shown.line));
    if (picture.kind === "attention") {
      page.select(column + 1);
      return;
    }
    if (!picture.editable) {
      page.select(column + 1);
      page.announce(t("This picture follows from the state; choose a picture of the state to change a number."));
      return;
    }
    let unit = row;
    if (picture.kind === "matrix") {
      const [, rows, wide] = picture.shape;
      unit = (Math.floor(column / wide) * rows + row) * wide + (column % wide);
    } else if (picture.kind === "window") {
      const slot = columns.at(column + 1) - (at + 1 - picture.shape[0]);
      unit = slot * picture.shape[1] + row;
    }
    this.openEditor({ at, key: picture.key, unit, value }, visible(columns.text[columns.ends[at] - 1] || ""));
  }

  openEditor(edit, letter) {
    const most = Math.max(Math.abs(this.picture.low), this.picture.high, 1) * 2;
    const step = most / 200;
    const number = h("input", { type: "number", step: "any", value: edit.value.toFixed(3), "aria-label": t("New value"), required: true });
    const slide = h("input", { type: "range", min: -most, max: most, step, value: String(edit.value), "aria-label": t("New value by a slider") });
    slide.addEventListener("input", () => (number.value = Number(slide.value).toFixed(3)));
    number.addEventListener("input", () => (slide.value = number.value));
    this.edit = { ...edit, number };
    const { title } = describePicture(this.picture, this.levels);
    fill(
      this.editor,
      h("span", t("{title}: number {unit} after “{letter}” is {value}. Set it to", { title, unit: edit.unit + 1, letter, value: short(edit.value) })),
      slide,
      number,
      h("button.main", { type: "submit" }, t("Set and read on")),
      h("button.quiet", { type: "button", on: { click: () => { this.editor.hidden = true; this.map.focus(); } } }, t("Cancel")),
    );
    this.editor.hidden = false;
    number.focus();
    number.select();
  }

  applyEdit(event) {
    event.preventDefault();
    const value = Number(this.edit.number.value);
    if (!Number.isFinite(value)) return;
    this.editor.hidden = true;
    this.page.editState({ lane: this.about.name, at: this.edit.at, key: this.edit.key, unit: this.edit.unit, value }, this.lines[0].ends[this.edit.at]);
  }

  drawFacts() {
    const line = this.page.mode() === "branch" ? 1 : 0;
    const { about } = this.lines[line];
    if (!about) return;
    const facts = [
      [t("Surprise"), about.bits === null ? "–" : this.about.tokenizer === "chars" ? t("{bits} bits a character", { bits: about.bits.toFixed(2) }) : t("{bits} bits a token", { bits: about.bits.toFixed(2) })],
      [t("State"), bytes(about.bytes)],
      this.about.params ? [t("Work so far"), t("{count} FLOPs", { count: large(about.flops) })] : [t("Table"), t("{count} entries", { count: large(this.about.entries) })],
    ];
    const text = JSON.stringify(facts);
    if (text === this.factsText) return;
    this.factsText = text;
    fill(this.facts, facts.map(([name, value]) => h("div", h("dt", name), h("dd.n", value))));
  }

  drawNext() {
    const { page } = this;
    const branch = page.branched();
    const line = page.mode() === "branch" ? 1 : 0;
    const columns = this.lines[line];
    const column = columns.at(page.at(line));
    this.next.hidden = column < 0;
    if (column < 0) return;
    const letter = visible(columns.text[columns.ends[column] - 1] || "");
    setText(this.nextTitle, t("What comes after “{letter}”?", { letter }));
    const other = branch && page.mode() === "difference" ? this.lines[1] : null;
    const beside = other ? other.at(page.at(1)) : -1;
    this.rows.forEach((row, i) => {
      const share = columns.shares[column] ? columns.shares[column][i] : undefined;
      row.element.hidden = share === undefined;
      if (share === undefined) return;
      const token = columns.likeliest[column][i];
      const name = columns.names[token] ?? String(token);
      setText(row.label, name);
      row.bar.style.width = `${100 * share}%`;
      setText(row.value, percent(share));
      let second = 0;
      if (beside >= 0) {
        const place = other.likeliest[beside].indexOf(token);
        second = place < 0 ? 0 : other.shares[beside][place];
      }
      row.other.style.width = `${100 * second}%`;
      row.other.hidden = beside < 0;
    });
  }

  addWritten(line, text) {
    this.written[line] += text;
    this.element.dataset[`written${line}`] = this.written[line].length;
    this.showWritten();
  }

  clearWritten() {
    if (!this.written[0] && !this.written[1]) return;
    this.written = ["", ""];
    delete this.element.dataset.written0;
    delete this.element.dataset.written1;
    this.showWritten();
  }

  showWritten() {
    const { page } = this;
    const some = this.written.map((text, line) => ({ text, line })).filter((each) => each.text && (each.line === 0 || page.branched()));
    this.texts.hidden = !some.length;
    fill(
      this.texts,
      some.map(({ text, line }) =>
        h(
          "div.said",
          h("h3", some.length > 1 ? (line ? t("writes after the branch") : t("writes after the text")) : t("writes on")),
          h("p.mono", { "data-line": line }, h("span.soft", page.text(line).slice(-24)), text),
          h("button.quiet.unsaved", { type: "button", on: { click: () => page.adopt(line, text) } }, t("Let all lanes read this")),
        ),
      ),
    );
  }
}

const clamp = (value, most) => Math.max(0, Math.min(most - 1, value));

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
