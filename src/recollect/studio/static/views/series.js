// Series: forecasts from every origin of a table, beside what came. Sliding the origin asks nothing of the server.

import { fill, h, onFrame, svg } from "../lib/dom.js";
import { path, shape, ticks } from "../lib/shapes.js";
import { hideTip, showTip } from "../lib/tip.js";
import { percent, short } from "../lib/numbers.js";
import { chooser, chosenOf, debounced, dropZone, latest, missing, segments } from "../lib/runs.js";

const BUILT_IN = ["sunspots", "sine"];
const MOST = 1 << 20;
const [HIGH, FOOT] = [360, 54]; // pixels of the chart and of the strip below it
const GHOSTS = 4; // earlier forecasts

export async function mount(root, params, context) {
  const { t, get, post } = context;
  const { runs } = await get("/studio/series/runs");
  const head = [
    h("h1", t("Series")),
    h("p.lead", t("A forecaster has seen the series up to the origin and nothing after it. Slide the origin along: the line goes on as the forecaster expects, the band is where it expects most of what comes, and what really came stands beside it.")),
  ];
  if (!runs.length) {
    fill(root, head, missing(t, t("There is no forecaster here yet. This trains one on the yearly sunspot numbers, in a minute:"), ["recollect train series --data sunspots --set lookback=22 --set horizon=6"]));
    return { unmount() {}, state: () => params };
  }
  const ownOf = (name) => { const data = runs.find((run) => run.name === name).data; return BUILT_IN.includes(data) ? data : ""; };
  const state = { run: chosenOf(runs, params.run, 1)[0], column: Number(params.column) || 0, horizon: params.horizon || "", origin: params.origin || "", near: params.near !== "0" };
  state.source = BUILT_IN.includes(params.source) ? params.source : ownOf(state.run);
  const call = latest();
  let file = null;
  let answer = null;
  let table = null;
  let place = 0; // number of the origin
  let playing = 0;

  const chart = h("div.plot");
  const slider = h("input.origin", { type: "range", min: 0, max: 0, value: 0, on: { input: () => move(Number(slider.value)) } });
  const play = h("button", { type: "button", on: { click: () => (playing ? stop() : start()) } }, t("Play"));
  const horizon = h("input", { type: "number", min: 1, max: 500, placeholder: t("as trained"), value: state.horizon, on: { change: () => { state.horizon = horizon.value; load(); } } });
  const columns = h("div");
  const facts = h("dl.facts");
  const numbers = h("div.scroll");
  const errors = h("div.plot");
  const notes = h("div");
  const about = h("p.note");
  const stage = h("div.stage");
  const builtIn = h("select", { on: { change: () => { state.source = builtIn.value; file = null; load(); } } }, [["", t("none")], ["sunspots", t("yearly sunspot numbers")], ["sine", t("a noisy sine")]].map(([value, text]) => h("option", { value, selected: value === state.source }, text)));

  fill(
    root,
    head,
    h(
      "div.row.controls",
      chooser({ t, runs, label: t("Forecaster"), chosen: state.run, pick: (name) => { state.run = name; if (!file) { state.source = ownOf(name) || state.source; builtIn.value = state.source; } state.origin = ""; load(); } }),
      h("label.field", h("span", t("Built-in series")), builtIn),
      h("label.field", h("span", t("Rows ahead")), horizon),
      columns,
    ),
    dropZone({ t, label: t("Choose a table"), text: t("or drop one here: a CSV file of at most 1 MB with the columns of the run. It is read once and never kept, so no link reopens it."), accept: ".csv,.tsv,.txt,text/csv", most: MOST, problem: context.problem, take: async (given) => { file = given; builtIn.value = state.source = ""; state.origin = ""; await load(); } }),
    about,
    stage,
  );

  async function load() {
    stop();
    const run = runs.find((each) => each.name === state.run);
    about.textContent = t("This run reads the columns {columns} and looks back {lookback} rows.", { columns: run.columns.join(", "), lookback: run.lookback });
    if (!file && !state.source) {
      fill(stage, h("p", t("Drop a table, or choose a built-in series.")));
      return;
    }
    stage.setAttribute("aria-busy", "true");
    context.clearProblem();
    try {
      const asked = { run: state.run, horizon: state.horizon || undefined, wide: Math.round(Math.max(300, Math.min(560, root.clientWidth - 8))), source: file ? undefined : state.source };
      const body = file ? new Blob([await file.arrayBuffer()], { type: "text/csv" }) : new Blob([], { type: "text/csv" });
      const found = await call((signal) => post("/studio/series/backtest", body, { signal, query: asked }));
      if (found === null) return;
      answer = found;
      table = prepare(answer, Math.min(state.column, answer.columns.length - 1));
      state.column = table.column;
      const first = answer.trained ?? answer.origins[Math.floor(answer.origins.length / 2)];
      const wanted = state.origin === "" ? first : Number(state.origin);
      place = nearest(answer.origins, wanted);
      build();
    } catch {
      if (!answer) fill(stage);
    } finally {
      stage.removeAttribute("aria-busy");
    }
  }

  function build() {
    fill(columns, answer.columns.length > 1 ? h("label.field", h("span", t("Column")), columnMenu()) : null);
    slider.max = answer.origins.length - 1;
    slider.value = place;
    fill(
      stage,
      h("div.row.slide", h("label.field.grow", h("span", t("Origin: the last row that the forecaster has seen")), slider), play, segments({ label: t("What the chart shows"), options: [["near", t("near the origin")], ["whole", t("the whole series")]], chosen: state.near ? "near" : "whole", pick: (value) => { state.near = value === "near"; draw(); write(); } })),
      h("figure", h("figcaption.note", t("Line: measured, up to the origin. Dots: what came after it; filled red ones lie outside the interval. Blue: the forecast, with the interval that is to hold {level} of what comes; pale: forecasts from earlier origins. Grey: nothing measured.", { level: percent(answer.level) })), chart),
      facts,
      h("div.two", h("figure", h("figcaption.note", t("The mean error at each distance ahead, beside two plain rules, over all origins that count.")), errors), h("details", { open: "" }, h("summary", t("As numbers")), numbers)),
      notes,
    );
    fill(errors, answer.error_charts[state.column] ? svg(answer.error_charts[state.column]) : h("p.note", t("No origin lies after what the run was trained on.")));
    fill(notes, answer.notes.map((note) => h("p.note", note)));
    move(place);
  }

  function columnMenu() {
    const made = h("select", { on: { change: () => { state.column = Number(made.value); table = prepare(answer, state.column); build(); } } }, answer.columns.map(({ name }, i) => h("option", { value: i, selected: i === state.column }, name)));
    return made;
  }

  function start() {
    if (!answer) return;
    if (place >= answer.origins.length - 1) place = 0;
    play.textContent = t("Stop");
    playing = setInterval(() => {
      if (place >= answer.origins.length - 1) return stop();
      slider.value = place + 1;
      move(place + 1);
    }, 120);
  }

  function stop() {
    clearInterval(playing);
    playing = 0;
    play.textContent = t("Play");
  }

  function move(to) {
    place = Math.max(0, Math.min(answer.origins.length - 1, to));
    state.origin = answer.origins[place];
    slider.setAttribute("aria-valuetext", t("{time}; next: {value}", { time: answer.times[state.origin - 1], value: short(table.mean(place, 0)) }));
    draw();
    later();
  }

  const later = debounced(() => { write(); tell(); }, 150);
  const draw = onFrame(() => {
    if (!answer || !chart.isConnected) return;
    drawChart();
    drawFacts();
  });

  function drawFacts() {
    const origin = answer.origins[place];
    const far = table.soFar(origin);
    const unit = answer.columns[state.column].unit;
    const of = (value) => (Number.isFinite(value) ? `${short(value)}${unit ? ` ${unit}` : ""}` : "–");
    const row = (name, value, note) => h("div", h("dt", name), h("dd", h("strong.n", value), note ? h("span.note", note) : null));
    fill(
      facts,
      row(t("Origin"), answer.times[origin - 1], answer.trained === null ? t("all of this table is new to the run") : origin < answer.trained ? t("inside what the run was trained or calibrated on: not counted") : t("after all that the run was trained on")),
      row(t("Error so far"), of(far.error), far.count ? t("mean of {count} points; repeating the last value: {naive}", { count: far.count.toLocaleString("en"), naive: of(far.naive) }) : t("nothing that counts has come yet")),
      row(t("Held by the interval"), far.counted ? percent(far.held / far.counted) : "–", t("{level} are to be held", { level: percent(answer.level) })),
    );
  }

  function tell() {
    if (!answer) return;
    const origin = answer.origins[place];
    fill(
      numbers,
      h(
        "table",
        h("thead", h("tr", [t("time"), t("forecast"), t("interval"), t("came"), t("off by")].map((name, i) => h(i ? "th.n" : "th", { scope: "col" }, name)))),
        h("tbody", Array.from({ length: Math.min(answer.horizon, 48) }, (_, k) => {
          const [mean, low, high, came] = [table.mean(place, k), table.lower(place, k), table.upper(place, k), table.value(origin + k)];
          const out = Number.isFinite(came) && Number.isFinite(low) && (came < low || came > high);
          return h("tr", h("td", answer.times[origin + k] ?? ""), h("td.n", short(mean)), h("td.n", Number.isFinite(low) ? `${short(low)} … ${short(high)}` : "–"), h("td.n", { class: out ? "n out" : "n" }, Number.isFinite(came) ? `${short(came)}${out ? " !" : ""}` : "–"), h("td.n", Number.isFinite(came) ? short(came - mean) : "–"));
        })),
      ),
    );
  }

  function drawChart() {
    const wide = Math.max(280, chart.clientWidth);
    const high = wide < 500 ? 280 : HIGH;
    const origin = answer.origins[place];
    const rows = table.rows;
    const ahead = answer.horizon;
    const back = Math.max(3 * ahead, Math.round(1.6 * answer.lookback), 40);
    const span = Math.min(rows + ahead, back + 2 * ahead);
    const from = state.near ? Math.max(0, Math.min(origin - back, rows + ahead - span)) : 0;
    const to = state.near ? Math.min(rows + ahead - 1, from + span) : rows + ahead - 1;
    const left = 52;
    const [right, top, bottom] = [wide - 10, 14, high - 30];
    const x = (row) => left + ((row - from) / Math.max(1, to - from)) * (right - left);
    const shown = [];
    for (let row = from; row <= Math.min(to, rows - 1); row++) if (Number.isFinite(table.value(row))) shown.push(table.value(row));
    for (let k = 0; k < ahead; k++) for (const value of [table.mean(place, k), table.lower(place, k), table.upper(place, k)]) if (Number.isFinite(value)) shown.push(value);
    let low = shown.reduce((a, b) => Math.min(a, b), Infinity);
    let upper = shown.reduce((a, b) => Math.max(a, b), -Infinity);
    const room = (upper - low || 1) * 0.06;
    low -= room;
    upper += room;
    const y = (value) => bottom - ((value - low) / (upper - low)) * (bottom - top);
    const parts = [];
    for (const value of ticks(low, upper, 5)) {
      parts.push(shape("line.grid", { x1: left, x2: right, y1: y(value), y2: y(value) }));
      parts.push(shape("text.soft", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, String(Number(value.toPrecision(6)))));
    }
    const every = Math.max(1, Math.ceil((to - from) / Math.max(2, Math.floor((right - left) / 110))));
    for (let row = Math.ceil(from / every) * every; row <= to; row += every) {
      const half = Math.min(40, x(row) - left + 20);
      parts.push(shape("text.soft", { x: Math.min(x(row), right - 14), y: high - 8, "text-anchor": half < 15 ? "start" : "middle" }, answer.times[row] ?? ""));
      parts.push(shape("line.axis", { x1: x(row), x2: x(row), y1: bottom, y2: bottom + 4 }));
    }
    for (const [a, b] of table.gaps) if (b >= from && a <= to) parts.push(shape("rect.lost", { x: x(Math.max(from, a - 0.5)), y: top, width: Math.max(2, x(Math.min(to, b + 0.5)) - x(Math.max(from, a - 0.5))), height: bottom - top }, shape("title", {}, t("nothing measured"))));
    const forecastOf = (n) => Array.from({ length: ahead }, (_, k) => [x(answer.origins[n] + k), y(table.mean(n, k))]);
    const start = (n) => [x(answer.origins[n] - 1), y(table.value(answer.origins[n] - 1))];
    const clip = (row) => row >= from - 1 && row <= to + 1;
    for (let ghost = GHOSTS; ghost >= 1; ghost--) {
      const wanted = origin - ghost * ahead;
      const n = nearest(answer.origins, wanted);
      if (wanted < answer.origins[0] || Math.abs(answer.origins[n] - wanted) > ahead / 2 || !clip(answer.origins[n])) continue;
      parts.push(shape("path.line.plain.s0.ghost", { d: path([start(n), ...forecastOf(n)].filter(([at]) => at >= left - 1)) }));
    }
    const known = [];
    for (let row = from; row < Math.min(origin, to + 1); row++) known.push([x(row), y(table.value(row))]);
    const bound = [];
    for (let k = 0; k < ahead; k++) if (Number.isFinite(table.lower(place, k))) bound.push(k);
    if (bound.length) {
      const up = bound.map((k) => `${x(origin + k).toFixed(1)},${y(table.upper(place, k)).toFixed(1)}`);
      const down = bound.map((k) => `${x(origin + k).toFixed(1)},${y(table.lower(place, k)).toFixed(1)}`).reverse();
      const [x0, y0] = start(place);
      parts.push(shape("polygon.band.s0.wide", { points: [`${x0.toFixed(1)},${y0.toFixed(1)}`, ...up, ...down].join(" ") }));
    }
    parts.push(shape("path.line.measured", { d: path(known) }));
    parts.push(shape("path.line.s0", { d: path([start(place), ...forecastOf(place)]) }));
    for (let row = origin; row <= Math.min(to, rows - 1); row++) {
      const value = table.value(row);
      if (!Number.isFinite(value)) continue;
      const k = row - origin;
      const out = k < ahead && Number.isFinite(table.lower(place, k)) && (value < table.lower(place, k) || value > table.upper(place, k));
      parts.push(shape("circle.came", { cx: x(row), cy: y(value), r: k < ahead ? 3.6 : 1.8, class: out ? "came out" : k < ahead ? "came" : "came later" }));
    }
    const at = x(origin - 1);
    parts.push(shape("line.level.origin-line", { x1: at, x2: at, y1: top, y2: bottom }));
    const unit = answer.columns[state.column].unit;
    parts.push(shape("text.soft", { x: left, y: 10 }, `${answer.columns[state.column].name}${unit ? `, ${unit}` : ""}`));
    const label = t("{column}: measured up to {time}, and the forecast of {count} rows after it", { column: answer.columns[state.column].name, time: answer.times[origin - 1], count: ahead });
    const drawn = shape("svg.chart", { viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, role: "img", "aria-label": label }, parts);
    drawn.addEventListener("pointermove", (event) => {
      const box = drawn.getBoundingClientRect();
      const row = Math.round(from + ((event.clientX - box.left - left) / (right - left)) * (to - from));
      if (row < from || row > to) return hideTip();
      const k = row - origin;
      const said = [answer.times[row]];
      if (Number.isFinite(table.value(row))) said.push(`${t("measured")} ${short(table.value(row))}`);
      if (k >= 0 && k < ahead) said.push(`${t("forecast")} ${short(table.mean(place, k))}${Number.isFinite(table.lower(place, k)) ? ` (${`${short(table.lower(place, k))} … ${short(table.upper(place, k))}`})` : ""}`);
      showTip(said.join("\n"), event.clientX, event.clientY);
    });
    drawn.addEventListener("pointerleave", hideTip);
    fill(chart, drawn, strip(wide, left, right, from, to));
  }

  // The whole series as a strip: what was trained on, the window above, and the origin, which follows a press on it
  function strip(wide, left, right, from, to) {
    const all = table.rows + answer.horizon - 1;
    const x = (row) => left + (row / all) * (right - left);
    const [low, high] = table.limits;
    const y = (value) => 6 + (1 - (value - low) / (high - low || 1)) * (FOOT - 18);
    const parts = [];
    if (answer.trained !== null) {
      parts.push(shape("rect.trained", { x: left, y: 0, width: x(answer.trained) - left, height: FOOT - 6 }, shape("title", {}, t("trained or calibrated on"))));
      if (x(answer.trained) - left > 130) parts.push(shape("text.soft.small-text", { x: left + 6, y: 11 }, t("trained or calibrated on")));
    }
    if (state.near) parts.push(shape("rect.window", { x: x(from), y: 0, width: Math.max(3, x(to) - x(from)), height: FOOT - 6 }));
    parts.push(shape("path.line.plain.measured", { d: path(table.thin.map(([row, value]) => [x(row), y(value)])) }));
    const at = x(answer.origins[place] - 1);
    parts.push(shape("line.origin-line.line.s0", { x1: at, x2: at, y1: 0, y2: FOOT - 6 }));
    const made = shape("svg.chart.strip-chart", { viewBox: `0 0 ${wide} ${FOOT}`, width: wide, height: FOOT, "aria-hidden": "true" }, parts);
    const take = (event) => {
      if (event.type === "pointermove" && !event.buttons) return;
      const box = made.getBoundingClientRect();
      const row = ((event.clientX - box.left - left) / (right - left)) * all + 1;
      slider.value = nearest(answer.origins, row);
      move(Number(slider.value));
    };
    made.addEventListener("pointerdown", take);
    made.addEventListener("pointermove", take);
    return made;
  }

  const watch = new ResizeObserver(() => draw());
  watch.observe(root);
  const write = () => context.setState(view.state());
  const view = {
    unmount() {
      stop();
      call.end();
      later.end();
      draw.cancel();
      watch.disconnect();
      hideTip();
    },
    state: () => ({ run: state.run, source: state.source, origin: file ? "" : state.origin, horizon: state.horizon, column: state.column || "", near: state.near ? "" : "0" }),
  };
  await load();
  return view;
}

// The place of the entry of an ascending list that is nearest
export function nearest(list, wanted) {
  let [low, high] = [0, list.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (list[middle] <= wanted) low = middle;
    else high = middle;
  }
  return Math.abs(list[high] - wanted) < Math.abs(list[low] - wanted) ? high : low;
}

// One column of an answer: its numbers, its gaps, and what came of the forecasts up to any row
function prepare(answer, column) {
  const [rows, width] = answer.values.shape;
  const ahead = answer.horizon;
  const of = (array) => (n, k) => array.data[(n * ahead + k) * width + column];
  const value = (row) => (row < rows ? answer.values.data[row * width + column] : NaN);
  const [mean, lower, upper] = [of(answer.mean), of(answer.lower), of(answer.upper)];
  const sums = { error: new Float64Array(rows + 1), naive: new Float64Array(rows + 1), count: new Float64Array(rows + 1), held: new Float64Array(rows + 1), counted: new Float64Array(rows + 1) };
  answer.origins.forEach((origin, n) => {
    if (answer.trained !== null && origin < answer.trained) return;
    for (let k = 0; k < ahead && origin + k < rows; k++) {
      const came = value(origin + k);
      if (!Number.isFinite(came)) continue;
      const at = origin + k + 1;
      sums.error[at] += Math.abs(came - mean(n, k));
      sums.naive[at] += Math.abs(came - value(origin - 1));
      sums.count[at] += 1;
      if (Number.isFinite(lower(n, k))) {
        sums.counted[at] += 1;
        sums.held[at] += came >= lower(n, k) && came <= upper(n, k);
      }
    }
  });
  for (const sum of Object.values(sums)) for (let row = 1; row <= rows; row++) sum[row] += sum[row - 1];
  const gaps = [];
  let [low, high] = [Infinity, -Infinity];
  for (let row = 0; row < rows; row++) {
    if (Number.isFinite(value(row))) {
      low = Math.min(low, value(row));
      high = Math.max(high, value(row));
    } else if (gaps.length && gaps[gaps.length - 1][1] === row - 1) gaps[gaps.length - 1][1] = row;
    else gaps.push([row, row]);
  }
  const every = Math.max(1, Math.floor(rows / 1500));
  const thin = [];
  for (let row = 0; row < rows; row += every) thin.push([row, value(row)]);
  return {
    column, rows, value, mean, lower, upper, gaps, thin, limits: [low, high],
    soFar(origin) {
      const at = Math.min(origin, rows);
      const count = sums.count[at];
      return { count, error: sums.error[at] / count, naive: sums.naive[at] / count, held: sums.held[at], counted: sums.counted[at] };
    },
  };
}
