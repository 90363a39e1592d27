// A chart whose axes the server drew and whose lines grow: the page keeps the points and asks only for what is new.
// The points under the pointer, or under the cursor of the keyboard, are read out with their values.

import { fill, h, onFrame, svg } from "./dom.js";
import { hideTip, showTip } from "./tip.js";
import { brief } from "./values.js";

const SPACE = "http://www.w3.org/2000/svg";
const FEW = 12; // lines that are drawn with full strength

function element(name, attributes) {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export class Curves {
  // `words` are {label, empty, name(id), x(), announce(text)}
  constructor(words) {
    this.words = words;
    this.lines = new Map(); // id → {x, y, raw, rows, line, under}
    this.looks = {};
    this.area = null;
    this.scale = "";
    this.cursor = null; // {id, at}
    this.place = h("div.curves-chart", { tabindex: "0", role: "group", "aria-label": words.label, "aria-roledescription": words.kind });
    this.redraw = onFrame(() => this.showCursor());
    this.place.addEventListener("pointermove", (event) => this.point(event));
    this.place.addEventListener("pointerleave", () => this.leave());
    this.place.addEventListener("blur", () => this.leave());
    this.place.addEventListener("keydown", (event) => this.key(event));
  }

  // what the server has to know: the lines that are here already
  known() {
    return { scale: this.scale, rows: Object.fromEntries([...this.lines].map(([id, line]) => [id, line.rows])) };
  }

  forget() {
    this.lines.clear();
    this.scale = "";
    this.area = null;
    this.leave();
  }

  // an answer of /studio/runs/chart
  update(found) {
    if (found.svg) {
      this.lines.clear();
      this.area = found.area;
      this.looks = found.looks;
      const drawn = svg(found.svg);
      this.group = element("g", { class: found.lines.length + found.same.length > FEW ? "many" : "few" });
      this.shown = element("g", { class: "cursor" });
      drawn.append(this.group, this.shown);
      fill(this.place, drawn);
      this.drawn = drawn;
    }
    this.scale = found.scale;
    for (const line of found.lines) this.setLine(line);
    if (this.cursor) this.redraw();
  }

  setLine({ id, x, y, raw, rows }) {
    const line = this.lines.get(id) || {};
    Object.assign(line, { x, y, raw, rows });
    this.lines.set(id, line);
    const classes = this.looks[id] ? this.looks[id].classes : "s0";
    if (raw) {
      line.under ||= this.group.insertBefore(element("polyline", {}), this.group.firstChild);
      line.under.setAttribute("class", `line raw ${classes}`);
      line.under.setAttribute("points", this.path(raw[0], raw[1]));
    }
    line.line ||= this.group.appendChild(element("polyline", { "data-run": id }));
    line.line.setAttribute("class", `line ${classes}`);
    line.line.setAttribute("points", this.path(x, y));
    if (x.length === 1) {
      line.dot ||= this.group.appendChild(element("circle", { r: 4 }));
      line.dot.setAttribute("class", `mark ${classes}`);
      line.dot.setAttribute("cx", this.across(x[0]));
      line.dot.setAttribute("cy", this.up(y[0]));
    } else if (line.dot) {
      line.dot.remove();
      line.dot = null;
    }
  }

  path(xs, ys) {
    const parts = new Array(xs.length);
    for (let i = 0; i < xs.length; i++) parts[i] = `${this.across(xs[i]).toFixed(1)},${this.up(ys[i]).toFixed(1)}`;
    return parts.join(" ");
  }

  across(value) {
    const { x, left, right, log_x } = this.area;
    return between(value, x, left, right, log_x);
  }

  up(value) {
    const { y, bottom, top, log_y } = this.area;
    return between(value, y, bottom, top, log_y);
  }

  // nearest point to a place of the picture
  point(event) {
    if (!this.area || !this.lines.size) return;
    const box = this.drawn.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * this.area.width;
    const y = ((event.clientY - box.top) / box.height) * this.area.height;
    let best = null;
    for (const [id, line] of this.lines) {
      if (!line.x.length) continue;
      const at = nearest(line.x, (value) => this.across(value), x);
      const far = Math.hypot(this.across(line.x[at]) - x, this.up(line.y[at]) - y);
      if (!best || far < best.far) best = { id, at, far };
    }
    if (!best || best.far > 90) return this.leave();
    this.cursor = { id: best.id, at: best.at };
    this.redraw();
    showTip(this.say(), event.clientX, event.clientY);
  }

  key(event) {
    const ids = [...this.lines.keys()].filter((id) => this.lines.get(id).x.length);
    if (!ids.length || !["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) return;
    event.preventDefault();
    if (!this.cursor || !this.lines.has(this.cursor.id)) this.cursor = { id: ids[0], at: this.lines.get(ids[0]).x.length - 1 };
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      const here = this.lines.get(this.cursor.id).x[Math.min(this.cursor.at, this.lines.get(this.cursor.id).x.length - 1)];
      const turn = (ids.indexOf(this.cursor.id) + (event.key === "ArrowDown" ? 1 : ids.length - 1)) % ids.length;
      const line = this.lines.get(ids[turn]);
      this.cursor = { id: ids[turn], at: nearest(line.x, (value) => value, here) };
    } else {
      const last = this.lines.get(this.cursor.id).x.length - 1;
      const step = event.shiftKey ? 10 : 1;
      const to = { ArrowLeft: this.cursor.at - step, ArrowRight: this.cursor.at + step, Home: 0, End: last }[event.key];
      this.cursor.at = Math.min(last, Math.max(0, to));
    }
    this.showCursor();
    const box = this.drawn.getBoundingClientRect();
    const [x, y] = this.spot();
    const scale = box.width / this.area.width;
    showTip(this.say(), box.left + x * scale, box.top + y * scale);
    this.words.announce(this.say());
  }

  spot() {
    const line = this.lines.get(this.cursor.id);
    const at = Math.min(this.cursor.at, line.x.length - 1);
    return [this.across(line.x[at]), this.up(line.y[at])];
  }

  say() {
    const line = this.lines.get(this.cursor.id);
    const at = Math.min(this.cursor.at, line.x.length - 1);
    return `${this.words.name(this.cursor.id)}\n${this.words.x()} ${brief(line.x[at])}: ${brief(line.y[at])}`;
  }

  showCursor() {
    if (!this.shown) return;
    this.shown.replaceChildren();
    this.highlight(this.cursor && this.cursor.id);
    if (!this.cursor || !this.lines.has(this.cursor.id) || !this.lines.get(this.cursor.id).x.length) return;
    const [x, y] = this.spot();
    const classes = this.looks[this.cursor.id] ? this.looks[this.cursor.id].classes.replace(" again", "") : "s0";
    this.shown.append(
      element("line", { x1: x, x2: x, y1: this.area.top, y2: this.area.bottom, class: "level" }),
      element("circle", { cx: x, cy: y, r: 5, class: `mark ${classes}` }),
    );
  }

  highlight(id) {
    for (const [other, line] of this.lines) {
      line.line.classList.toggle("strong", other === id);
      if (other === id) this.group.append(line.line);
    }
  }

  leave() {
    this.cursor = null;
    hideTip();
    if (this.shown) {
      this.shown.replaceChildren();
      this.highlight(null);
    }
  }
}

function between(value, [low, high], start, end, log) {
  const share = log ? (Math.log(value) - Math.log(low)) / (Math.log(high) - Math.log(low)) : (value - low) / (high - low);
  return start + share * (end - start);
}

// the place in sorted numbers whose picture lies nearest
function nearest(values, picture, wanted) {
  let low = 0;
  let high = values.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (picture(values[middle]) < wanted) low = middle;
    else high = middle;
  }
  return Math.abs(picture(values[low]) - wanted) <= Math.abs(picture(values[high]) - wanted) ? low : high;
}
