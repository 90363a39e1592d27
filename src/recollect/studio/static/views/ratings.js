// Ratings: the vector of a user and that of an item, their angle, and the score that they make. Both can be moved.

import { fill, h, onFrame } from "../lib/dom.js";
import { shape, ticks } from "../lib/shapes.js";
import { explain, hideTip } from "../lib/tip.js";
import { chooser, chosenOf, latest, missing } from "../lib/runs.js";

const EXAMPLES = { generated: ["user4", "item9"] }; // two that say much
const SIDE = 460;
const BEST = 6; // items that suit the user best
const MENU = 300; // names in a menu; of more, one is typed
const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
const long = (a) => Math.sqrt(dot(a, a));
const plus = (a, b, by = 1) => a.map((value, i) => value + by * b[i]);
const times = (a, by) => a.map((value) => value * by);
const two = (value) => (Object.is(Math.round(value * 100), -0) ? 0 : value).toFixed(2).replace("-", "−");
const signed = (value) => (value < 0 ? "" : "+") + two(value);

export async function mount(root, params, context) {
  const { t, get } = context;
  const { runs } = await get("/studio/ratings/runs");
  const head = [
    h("h1", t("Ratings")),
    h("p.lead", t("A user is a vector of tastes, an item a vector of the same length, and the score is how well they agree: the dot product, plus how kind the user and how good the item is in general. Attention scores its queries and keys by the same product.")),
  ];
  if (!runs.length) {
    fill(root, head, missing(t, t("There is no run of ratings here yet. This trains one on generated ratings, in some seconds:"), ["recollect train ratings --set dim=2"]));
    return { unmount() {}, state: () => params };
  }
  const state = { run: chosenOf(runs, params.run, 1)[0], user: params.user || "", item: params.item || "" };
  const moved = { user: numbersOf(params.u), item: numbersOf(params.v) };
  const call = latest();
  let names = null;
  let pair = null; // the model's own
  let now = null; // vectors as they are shown
  let basis = null;

  const menus = h("div.row.pickers");
  const plane = h("div.plane");
  const side = h("div.parts");
  const stage = h("div.stage.two", h("figure", plane, h("figcaption.note")), side);
  fill(root, head, h("div.row.controls", chooser({ t, runs, label: t("Run"), chosen: state.run, pick: (name) => { state.run = name; state.user = state.item = ""; moved.user = moved.item = null; load(); } }), menus), stage);

  async function load() {
    stage.setAttribute("aria-busy", "true");
    context.clearProblem();
    try {
      const found = await call((signal) => get("/studio/ratings/names", { run: state.run }, { signal }));
      if (found === null) return;
      names = found;
      const [user, item] = EXAMPLES[runs.find((run) => run.name === state.run).data] || [];
      if (!names.users.includes(state.user)) state.user = names.users.includes(user) ? user : names.users[0];
      const here = (name) => names.items.some((each) => each.name === name);
      if (!here(state.item)) state.item = here(item) ? item : names.items[0].name;
      fill(menus, picker(t("User"), "user", names.users.map((name) => ({ name, title: name }))), picker(t("Item"), "item", names.items));
      await meet();
    } catch {
      // the message stands below
    } finally {
      stage.removeAttribute("aria-busy");
    }
  }

  function picker(label, key, some) {
    const pick = (name) => { state[key] = name; moved[key] = null; meet(); };
    if (some.length <= MENU) {
      const select = h("select", { on: { change: () => pick(select.value) } }, some.map(({ name, title }) => h("option", { value: name, selected: name === state[key] }, title)));
      return h("label.field", h("span", label), select);
    }
    const list = h("datalist", { id: `names-${key}` }, some.map(({ name, title }) => h("option", { value: name }, title)));
    const input = h("input", { type: "text", value: state[key], list: `names-${key}`, autocomplete: "off", on: { change: () => pick(input.value.trim()) } });
    return h("label.field", h("span", label), input, list);
  }

  async function meet() {
    context.clearProblem();
    try {
      const found = await call((signal) => get("/studio/ratings/pair", { run: state.run, user: state.user, item: state.item }, { signal }));
      if (found === null) return;
      pair = found;
      const size = pair.user.vector.length;
      now = { user: moved.user?.length === size ? moved.user : pair.user.vector, item: moved.item?.length === size ? moved.item : pair.item.vector };
      basis = basisOf(pair.user.vector, pair.item.vector);
      draw();
    } catch {
      // the message stands below
    }
  }

  const scoreOf = (user, item, bias) => pair.mean + pair.user.bias + bias + dot(user, item);
  const isMoved = () => now.user !== pair.user.vector || now.item !== pair.item.vector;

  function reset() {
    moved.user = moved.item = null;
    now = { user: pair.user.vector, item: pair.item.vector };
    draw();
  }

  const draw = onFrame(() => {
    if (!pair) return;
    drawPlane();
    drawParts();
    write();
  });

  function drawParts() {
    const product = dot(now.user, now.item);
    const score = scoreOf(now.user, now.item, pair.item.bias);
    const lengths = [long(now.user), long(now.item)];
    const cosine = lengths[0] * lengths[1] ? product / (lengths[0] * lengths[1]) : 0;
    const angle = (Math.acos(Math.max(-1, Math.min(1, cosine))) * 180) / Math.PI;
    const agree = !pair.user.vector.length ? "" : angle < 45 ? t("They point the same way, so the product adds to the score.") : angle > 135 ? t("They point opposite ways, so the product takes from the score.") : Math.abs(angle - 90) < 12 ? t("They stand nearly at a right angle: the user does not care for what this item is about, and the product is near 0.") : product > 0 ? t("They agree in part: the product adds a little.") : t("They disagree in part: the product takes a little away.");
    const held = Math.max(names.low, Math.min(names.high, score));
    const parts = [[t("mean of all ratings"), pair.mean], [t("bias of {name}", { name: pair.user.name }), pair.user.bias], [t("bias of {name}", { name: pair.item.title }), pair.item.bias], [t("dot product"), product]];
    const ranking = pair.others.map((other) => ({ ...other, score: scoreOf(now.user, other.vector, other.bias) })).sort((a, b) => b.score - a.score).slice(0, BEST);
    fill(
      side,
      h("div.score", h("span.note", isMoved() ? t("score, as you moved them") : t("score")), h("strong.n", two(score)), held !== score ? h("span.note", t("held to the scale of the data, {low} to {high}: {held}", { low: two(names.low), high: two(names.high), held: two(held) })) : null, isMoved() ? h("span.note", t("the model's own: {score}", { score: two(pair.score) })) : null),
      waterfall(parts, score),
      pair.user.vector.length ? h("p", h("span.formula.n", `${two(lengths[0])} × ${two(lengths[1])} × cos ${angle.toFixed(0)}° = ${signed(product)}`), h("span.note.block", t("length of the user's vector × length of the item's × cosine of the angle between them")), agree) : h("p", t("This run has biases alone, no vectors: every user ranks the items alike.")),
      h("div.row", h("button", { type: "button", disabled: !isMoved(), on: { click: reset } }, t("Put them back"))),
      ranking.length ? [h("h2", t("What suits this user best")), h("ol.ranking", ranking.map((each) => h("li", h("button.quiet", { type: "button", "aria-pressed": String(each.name === state.item), on: { click: () => { state.item = each.name; moved.item = null; const field = menus.querySelectorAll("select, input")[1]; if (field) field.value = each.name; meet(); } } }, each.title), h("span.n", two(each.score)))))] : null,
    );
  }

  function waterfall(parts, score) {
    const wide = Math.max(280, Math.min(560, side.clientWidth || 420));
    const [left, row] = [Math.min(150, wide * 0.36), 30];
    let at = 0;
    const bounds = [0];
    for (const [, value] of parts) bounds.push((at += value));
    const [low, high] = [Math.min(0, ...bounds), Math.max(...bounds, names.high)];
    const x = (value) => left + ((value - low) / (high - low)) * (wide - left - 54);
    at = 0;
    const drawn = parts.flatMap(([name, value], i) => {
      const [from, to] = [at, (at += value)];
      const y = i * row + 6;
      return [
        shape("text.soft", { x: left - 8, y: y + 14, "text-anchor": "end" }, name.length > 22 ? `${name.slice(0, 21)}…` : name),
        shape("rect", { class: value < 0 ? "minus" : i === 3 ? "bar-part product" : "bar-part", x: Math.min(x(from), x(to)), y, width: Math.max(1, Math.abs(x(to) - x(from))), height: row - 10, rx: 3 }),
        shape("line.axis.thin", { x1: x(to), x2: x(to), y1: y, y2: y + row }),
        shape("text", { x: Math.max(x(from), x(to)) + 6, y: y + 14 }, i ? signed(value) : two(value)),
      ];
    });
    const y = parts.length * row + 6;
    drawn.push(shape("text.strong", { x: left - 8, y: y + 14, "text-anchor": "end" }, t("score")), shape("rect.bar-total", { x: x(Math.min(0, score)), y, width: Math.max(1, Math.abs(x(score) - x(0))), height: row - 10, rx: 3 }), shape("text.strong", { x: x(Math.max(0, score)) + 6, y: y + 14 }, two(score)));
    const high_ = (parts.length + 1) * row + 8;
    return shape("svg.chart", { viewBox: `0 0 ${wide} ${high_}`, width: wide, height: high_, role: "img", "aria-label": [...parts.map(([name, value]) => `${name} ${two(value)}`), `${t("score")} ${two(score)}`].join("; ") }, drawn);
  }

  // A vector in the plane, and a place of the plane as a vector
  const flat = (vector) => [dot(vector, basis[0]), dot(vector, basis[1])];
  const raised = ([a, b]) => plus(times(basis[0], a), basis[1], b);

  function drawPlane() {
    const caption = stage.querySelector("figcaption");
    if (!pair.user.vector.length) {
      fill(plane);
      caption.textContent = "";
      return;
    }
    const focused = document.activeElement?.dataset?.tip;
    const wide = Math.min(SIDE, Math.max(260, plane.clientWidth || SIDE));
    const others = pair.others.map((other) => ({ ...other, at: flat(other.vector) }));
    const every = [flat(now.user), flat(now.item), flat(pair.user.vector), flat(pair.item.vector), ...others.map((other) => other.at)];
    const most = 1.12 * Math.max(0.1, ...every.flat().map(Math.abs));
    const x = (value) => wide / 2 + (value / most) * (wide / 2);
    const y = (value) => wide / 2 - (value / most) * (wide / 2);
    const parts = [];
    for (const value of ticks(-most, most, 6)) {
      if (Math.abs(value) > most) continue;
      const zero = value === 0;
      parts.push(shape(zero ? "line.axis" : "line.grid", { x1: x(value), x2: x(value), y1: 0, y2: wide }), shape(zero ? "line.axis" : "line.grid", { x1: 0, x2: wide, y1: y(value), y2: y(value) }));
      if (!zero && value > -most * 0.9 && value < most * 0.9) parts.push(shape("text.soft.small-text", { x: x(value), y: y(0) + 13, "text-anchor": "middle" }, two(value)));
    }
    for (const other of others) {
      if (other.name === state.item) continue;
      const point = shape("circle.other", { cx: x(other.at[0]), cy: y(other.at[1]), r: 3.4 });
      explain(point, () => `${other.title}: ${two(scoreOf(now.user, other.vector, other.bias))}`);
      parts.push(point);
    }
    const [user, item] = [flat(now.user), flat(now.item)];
    const [from, to] = [Math.atan2(user[1], user[0]), Math.atan2(item[1], item[0])];
    let turn = to - from;
    if (turn > Math.PI) turn -= 2 * Math.PI;
    if (turn < -Math.PI) turn += 2 * Math.PI;
    const radius = most * 0.2;
    const on = (angle, by = radius) => [x(by * Math.cos(angle)), y(by * Math.sin(angle))];
    if (long(user) && long(item)) {
      const [a, b] = [on(from), on(to)];
      const r = (radius / most) * (wide / 2);
      parts.push(shape("path.arc", { d: `M${a[0]} ${a[1]}A${r} ${r} 0 0 ${turn > 0 ? 0 : 1} ${b[0]} ${b[1]}` }));
      const [tx, ty] = on(from + turn / 2, radius * 1.45);
      parts.push(shape("text.over.strong", { x: tx, y: ty + 4, "text-anchor": "middle" }, `${Math.abs((turn * 180) / Math.PI).toFixed(0)}°`));
      // the shadow of the item on the user's direction: its length times the user's is the product
      const share = dot(now.user, now.item) / dot(now.user, now.user);
      const foot = times(user, share);
      parts.push(shape("line.shadow", { x1: x(item[0]), y1: y(item[1]), x2: x(foot[0]), y2: y(foot[1]) }));
      parts.push(shape("line.shadow.along", { x1: x(0), y1: y(0), x2: x(foot[0]), y2: y(foot[1]) }));
    }
    for (const key of ["user", "item"]) if (now[key] !== pair[key].vector) { const own = flat(pair[key].vector); parts.push(shape(`line.was.${key}`, { x1: x(0), y1: y(0), x2: x(own[0]), y2: y(own[1]) })); }
    parts.push(...arrow("item", item, x, y, wide, most), ...arrow("user", user, x, y, wide, most));
    const drawn = shape("svg.chart.vectors", { viewBox: `0 0 ${wide} ${wide}`, width: wide, height: wide, role: "group", "aria-label": t("The plane of both vectors") }, parts);
    fill(plane, drawn);
    if (focused) plane.querySelector(`[data-tip="${focused}"]`)?.focus();
    const size = pair.user.vector.length;
    caption.textContent = (size === 2 ? t("Both vectors have two numbers, so this is all there is to them.") : t("The plane that both vectors span, out of {size} dimensions: their lengths and their angle are true, the other items are projected.", { size })) + " " + t("Drag a tip, or choose it with Tab and move it with the arrow keys (with Shift further). Dots are the other items; the thick line is the shadow of the item's vector on the user's.");
  }

  function arrow(key, at, x, y, wide, most) {
    const length = Math.max(1e-9, long(at));
    const unit = times(at, 1 / length);
    const size = Math.min(0.05 * most, length * 0.6);
    const back = plus(at, unit, -size);
    const across = [-unit[1] * size * 0.5, unit[0] * size * 0.5];
    const corners = [at, plus(back, across), plus(back, across, -1)].map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ");
    const name = key === "user" ? pair.user.name : pair.item.title;
    const tip = shape("circle.tip", { class: `tip ${key}`, "data-tip": key, cx: x(at[0]), cy: y(at[1]), r: 13, tabindex: 0, role: "slider", "aria-label": key === "user" ? t("Vector of the user {name}", { name }) : t("Vector of the item {name}", { name }), "aria-valuemin": -Math.round(most), "aria-valuemax": Math.round(most), "aria-valuenow": two(at[0]).replace("−", "-"), "aria-valuetext": t("{a} across, {b} up; score {score}", { a: two(at[0]), b: two(at[1]), score: two(scoreOf(now.user, now.item, pair.item.bias)) }) });
    const moveTo = (place) => { now = { ...now, [key]: raised(place.map((value) => Math.max(-most, Math.min(most, value)))) }; moved[key] = now[key]; draw(); };
    tip.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      tip.focus();
      const box = tip.ownerSVGElement.getBoundingClientRect();
      const ratio = wide / box.width;
      const drag = (to) => moveTo([(((to.clientX - box.left) * ratio - wide / 2) / (wide / 2)) * most, ((wide / 2 - (to.clientY - box.top) * ratio) / (wide / 2)) * most]);
      const drop = () => { removeEventListener("pointermove", drag); removeEventListener("pointerup", drop); removeEventListener("pointercancel", drop); };
      addEventListener("pointermove", drag);
      addEventListener("pointerup", drop);
      addEventListener("pointercancel", drop);
    });
    tip.addEventListener("keydown", (event) => {
      const step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (!step) return;
      event.preventDefault();
      moveTo(plus(flat(now[key]), step, (event.shiftKey ? 0.1 : 0.02) * most));
    });
    const label = plus(at, unit, 0.075 * most);
    return [
      shape(`line.shaft.${key}`, { x1: x(0), y1: y(0), x2: x(back[0]), y2: y(back[1]) }),
      shape(`polygon.head-of.${key}`, { points: corners }),
      tip,
      shape("text.over.strong", { class: `over strong name-of ${key}`, x: Math.max(30, Math.min(wide - 30, x(label[0]))), y: Math.max(12, Math.min(wide - 4, y(label[1]) + 4)), "text-anchor": "middle" }, name.length > 18 ? `${name.slice(0, 17)}…` : name),
    ];
  }

  const watch = new ResizeObserver(() => draw());
  watch.observe(root);
  const write = () => context.setState(view.state());
  const view = {
    unmount() {
      call.end();
      draw.cancel();
      watch.disconnect();
      hideTip();
    },
    state: () => ({ run: state.run, user: state.user, item: state.item, u: moved.user ? moved.user.map((value) => value.toFixed(3)).join(",") : "", v: moved.item ? moved.item.map((value) => value.toFixed(3)).join(",") : "" }),
  };
  await load();
  return view;
}

// Two directions at a right angle whose plane has both vectors; of two numbers the axes themselves
function basisOf(user, item) {
  const size = user.length;
  const axis = (i) => user.map((_, j) => (j === i ? 1 : 0));
  if (size === 2) return [axis(0), axis(1)];
  if (size < 2) return [axis(0), axis(1)];
  const first = long(user) ? times(user, 1 / long(user)) : axis(0);
  for (const wanted of [item, axis(0), axis(1)]) {
    const rest = plus(wanted, first, -dot(wanted, first));
    if (long(rest) > 1e-6) return [first, times(rest, 1 / long(rest))];
  }
  return [first, axis(1)];
}

function numbersOf(text) {
  if (!text) return null;
  const found = text.split(",").map(Number);
  return found.every(Number.isFinite) ? found : null;
}
