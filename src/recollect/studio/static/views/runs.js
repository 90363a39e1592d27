// Runs of the folders: choose some, and watch their curves as they grow.

import { Curves } from "../lib/curves.js";
import { fill, h, svg } from "../lib/dom.js";
import { follow } from "../lib/live.js";
import { brief, clock, measured, metricName, MISSING, scaled } from "../lib/values.js";

const SHOWN = 400; // rows of the table at once
const FIRST = 6; // runs that are chosen where no link says which
const SEPARATOR = "|";

export async function mount(root, params, context) {
  const { t, get, post, announce } = context;
  const X = { step: t("steps"), tokens: t("tokens learned from"), seconds: t("seconds of training"), flops: "FLOPs" };
  const Y = {
    valid: t("validation"), loss: t("training loss"), lr: t("learning rate"), norm: t("norm of the gradient"),
    tokens_per_second: t("tokens a second"), memory: t("bytes of memory"),
  };
  const STATES = { running: t("running"), finished: t("finished"), stopped: t("stopped"), begun: t("begun") };
  const runs = new Map();
  const rows = new Map();
  let cursor = "";
  let chosen = new Set((params.runs || "").split(SEPARATOR).filter(Boolean));
  let asking = false;
  let again = false;
  let ended = false;
  let most = SHOWN;
  const view = {
    q: params.q || "",
    x: X[params.x] ? params.x : "tokens",
    y: Y[params.y] ? params.y : "loss",
    smooth: Math.min(0.99, Math.max(0, Number(params.smooth) || 0)),
    log_x: params.lx === "1",
    log_y: params.ly === "1",
    sort: params.sort || "date",
    up: params.up === "1",
  };

  // The chart

  const curves = new Curves({
    label: t("Curves of the chosen runs. Left and right go along a curve, up and down to another one."),
    kind: t("chart"),
    name: (id) => id,
    x: () => X[view.x],
    announce,
  });
  const legend = h("ul.legend", { "aria-label": t("Chosen runs") });
  const empty = h("p.note", { hidden: true });

  const select = (name, options, label) =>
    h("label.field", label, h("select", { id: `runs-${name}`, on: { change: (event) => set(name, event.target.value) } },
      Object.entries(options).map(([value, text]) => h("option", { value, selected: view[name] === value }, text))));
  const toggle = (name, label) =>
    h("label.check", h("input", { id: `runs-${name}`, type: "checkbox", checked: view[name], on: { change: (event) => set(name, event.target.checked) } }), label);
  const smoothing = h("output", { for: "runs-smooth" }, String(view.smooth));
  const controls = h("div.row.controls.unsaved", { role: "group", "aria-label": t("Chart") },
    select("y", Y, t("What is drawn")),
    select("x", X, t("Against")),
    h("label.field", t("Smoothing"), h("span.row.tight",
      h("input", { id: "runs-smooth", type: "range", min: 0, max: 0.99, step: 0.01, value: view.smooth, on: {
        input: (event) => { smoothing.textContent = event.target.value; set("smooth", Number(event.target.value)); } } }), smoothing)),
    toggle("log_x", t("log x")),
    toggle("log_y", t("log y")),
    h("button.quiet", { type: "button", on: { click: saveChart } }, t("Save as SVG")),
  );

  function set(name, value) {
    view[name] = value;
    keep();
    askChart();
  }

  const width = () => Math.max(300, Math.min(1200, Math.floor((curves.place.clientWidth || 860) / 10) * 10));
  const asked = () => ({ runs: [...chosen].filter((id) => runs.has(id)), x: view.x, y: view.y, smooth: view.smooth, log_x: view.log_x, log_y: view.log_y, width: width() });

  let timer = 0;
  function askChart(wait = 60) {
    clearTimeout(timer);
    timer = setTimeout(drawChart, wait);
  }

  async function drawChart() {
    if (asking) {
      again = true;
      return;
    }
    asking = true;
    const wanted = asked();
    curves.place.hidden = wanted.runs.length === 0;
    const slow = setTimeout(() => {
      curves.place.setAttribute("aria-busy", "true");
      empty.hidden = false;
      empty.textContent = t("Reading the logs of {count} runs …", { count: wanted.runs.length });
    }, 600);
    try {
      if (wanted.runs.length) {
        const found = await post("/studio/runs/chart", { ...wanted, ...curves.known() });
        if (ended) return;
        curves.update(found);
        if (found.looks) drawLegend();
        const points = [...curves.lines.values()].reduce((sum, line) => sum + line.x.length, 0);
        empty.hidden = points > 0;
        if (!points) empty.textContent = t("The chosen runs have no such figure yet.");
        curves.place.dataset.points = String(points);
      } else {
        curves.forget();
        fill(curves.place);
        fill(legend);
        empty.hidden = false;
        empty.textContent = runs.size ? t("Choose runs in the table to see their curves.") : "";
      }
    } catch {
      // it is said in the region of problems
    } finally {
      asking = false;
      clearTimeout(slow);
      curves.place.removeAttribute("aria-busy");
    }
    if (again && !ended) {
      again = false;
      askChart();
    }
  }

  function drawLegend() {
    const ids = [...curves.lines.keys()];
    const shown = ids.slice(0, 24);
    fill(legend,
      shown.map((id) => h("li", { on: { pointerenter: () => curves.highlight(id), pointerleave: () => curves.highlight(null) } },
        svg(curves.looks[id].swatch), h("span.name", { title: id }, nameOf(id)),
        h("button.quiet.unsaved", { type: "button", "aria-label": t("Leave out {run}", { run: id }), on: { click: () => choose(id, false) } }, "×"))),
      ids.length > shown.length ? h("li.note", t("and {more} more", { more: ids.length - shown.length })) : null);
    for (const [id, row] of rows) paintSwatch(id, row);
  }

  // the last part of the name, where no other chosen run has the same
  function nameOf(id) {
    const run = runs.get(id);
    if (!run) return id;
    return [...chosen].some((other) => other !== id && runs.get(other) && runs.get(other).name === run.name) ? id : run.name;
  }

  async function saveChart() {
    const drawn = await post("/studio/runs/svg", { ...asked(), width: 860 });
    const link = h("a", { href: URL.createObjectURL(new Blob([drawn], { type: "image/svg+xml" })), download: "runs.svg" });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  // The table

  const COLUMNS = [
    ["id", t("run"), ""], ["task", t("task"), ""], ["model", t("model"), ""], ["data", t("data"), "data"],
    ["value", t("validation"), "n"], ["params", t("parameters"), "n"], ["step", t("steps"), "n"], ["seconds", t("time"), "n"],
    ["date", t("date"), ""], ["state", t("state"), ""],
  ];
  const filter = h("input.grow", { id: "runs-filter", type: "search", value: view.q, placeholder: t("Filter: words of the name, task, model, data or state"), "aria-label": t("Filter"), on: {
    input: (event) => { view.q = event.target.value; most = SHOWN; keep(); fillTable(); } } });
  const count = h("span.note", { role: "status" });
  const body = h("tbody");
  const all = h("input", { type: "checkbox", "aria-label": t("Choose all runs that are shown"), on: { change: (event) => chooseAll(event.target.checked) } });
  const heads = COLUMNS.map(([name, label, kind]) =>
    h("th", { scope: "col", class: kind, "aria-sort": "none", "data-column": name },
      h("button.quiet.sort", { type: "button", on: { click: () => sortBy(name) } }, label)));
  const table = h("table.runs", h("thead", h("tr", h("th", { scope: "col" }, all), heads)), body);
  const further = h("button.unsaved", { type: "button", hidden: true, on: { click: () => { most += SHOWN; fillTable(); } } }, t("Show more"));

  function sortBy(name) {
    view.up = view.sort === name ? !view.up : ["id", "task", "model", "data", "state", "value"].includes(name);
    view.sort = name;
    keep();
    fillTable();
  }

  const words = (run) => `${run.id} ${run.task} ${run.model} ${run.data} ${STATES[run.state] || ""} ${run.state} ${metricName(run)}`.toLowerCase();

  function matching() {
    const wanted = view.q.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [...runs.values()].filter((run) => wanted.every((word) => words(run).includes(word)));
    const key = (run) => {
      const value = run[view.sort];
      return value === null || value === undefined ? null : value;
    };
    const sign = view.up ? 1 : -1;
    return found.sort((one, other) => {
      const [a, b] = [key(one), key(other)];
      if (a === null || b === null) return (a === null) - (b === null) || (one.id < other.id ? -1 : 1);
      return (a < b ? -1 : a > b ? 1 : one.id < other.id ? -sign : sign) * sign;
    });
  }

  function fillTable() {
    const found = matching();
    const shown = found.slice(0, most);
    count.textContent = found.length === runs.size ? t("{count} runs", { count: runs.size }) : t("{count} of {all} runs", { count: found.length, all: runs.size });
    body.replaceChildren(...shown.map((run) => rowOf(run)));
    further.hidden = found.length <= shown.length;
    for (const head of heads) head.setAttribute("aria-sort", head.dataset.column === view.sort ? (view.up ? "ascending" : "descending") : "none");
    all.checked = shown.length > 0 && shown.every((run) => chosen.has(run.id));
    nothing.hidden = runs.size > 0;
  }

  function rowOf(run) {
    let row = rows.get(run.id);
    if (!row) {
      const box = h("input", { type: "checkbox", "aria-label": run.id, on: { change: (event) => choose(run.id, event.target.checked) } });
      const swatch = h("span.swatch");
      const cells = COLUMNS.map(([name, , kind]) => h(name === "id" ? "th" : "td", { class: kind || null, scope: name === "id" ? "row" : null }));
      row = { place: h("tr", { on: { click: (event) => event.target.closest("input, button, a") || choose(run.id, !chosen.has(run.id)) } }, h("td", h("span.pick", box, swatch)), cells), box, swatch, cells, text: "" };
      rows.set(run.id, row);
    }
    row.box.checked = chosen.has(run.id);
    row.place.classList.toggle("chosen", chosen.has(run.id));
    const text = JSON.stringify(run);
    if (row.text !== text) {
      row.text = text;
      const metric = metricName(run);
      const values = [
        [h("span.runname", run.name), run.folder && h("span.note", ` ${run.folder}`)], run.task, run.model, run.data,
        [measured(run), metric && h("span.note", ` ${metric.replaceAll("_", " ")}`)], scaled(run.params),
        run.step === null ? MISSING : run.state === "running" && run.steps ? `${brief(run.step)}/${brief(run.steps)}` : brief(run.step),
        clock(run.seconds), (run.date || MISSING).slice(0, 10),
        h(`span.state.${run.state}`, STATES[run.state] || run.state),
      ];
      row.cells.forEach((cell, i) => fill(cell, values[i]));
    }
    paintSwatch(run.id, row);
    return row.place;
  }

  function paintSwatch(id, row) {
    const look = chosen.has(id) && curves.looks[id];
    const text = look ? look.swatch : "";
    if (row.drawn !== text) {
      row.drawn = text;
      fill(row.swatch, look ? svg(text) : null);
    }
  }

  function choose(id, on) {
    if (on) chosen.add(id);
    else chosen.delete(id);
    keep();
    fillTable();
    askChart();
    askComparison();
  }

  function chooseAll(on) {
    for (const run of matching().slice(0, most)) {
      if (on) chosen.add(run.id);
      else chosen.delete(run.id);
    }
    keep();
    fillTable();
    askChart();
    askComparison();
  }

  // Settings that differ

  const comparison = h("div");
  let comparing = 0;
  function askComparison() {
    clearTimeout(comparing);
    comparing = setTimeout(compare, 250);
  }

  async function compare() {
    const ids = [...chosen].filter((id) => runs.has(id));
    if (ids.length === 0 || ended) {
      fill(comparison);
      return;
    }
    const few = ids.slice(0, 12);
    const found = await post("/studio/runs/compare", { runs: few });
    if (ended) return;
    const about = few.length === 1
      ? h("p.note", t("Choose several runs to see in which settings they differ."))
      : found.differ.length === 0
        ? h("p.note", t("These runs have the same settings."))
        : h("div.scroll", { role: "region", tabindex: "0", "aria-label": t("Settings that differ") },
          h("table.settings",
            h("thead", h("tr", h("th", { scope: "col" }, t("setting")), few.map((id) => h("th", { scope: "col" }, runs.get(id).name)))),
            h("tbody", found.differ.map(({ name, values }) =>
              h("tr", h("th.mono", { scope: "row" }, name), few.map((id) => h("td", show(values[id]))))))));
    fill(comparison,
      h("h2", t("Settings that differ")),
      ids.length > few.length ? h("p.note", t("Of the first {count} of the chosen runs.", { count: few.length })) : null,
      about,
      h("details", h("summary", t("The commands of these runs")), few.map((id) => found.commands[id] && [h("p.note", id), h("pre.command", found.commands[id])])),
      h("p.row.unsaved", few.filter((id) => runs.get(id).state === "stopped" && !runs.get(id).race).map((id) =>
        h("button", { type: "button", on: { click: () => context.go("start", { resume: id }) } }, t("Go on with {run}", { run: runs.get(id).name })))));
  }

  const show = (value) => (value === null || value === undefined ? MISSING : typeof value === "string" ? value : JSON.stringify(value));

  // All together

  const nothing = h("div.panel", { hidden: true }, h("p", t("No run lies in the folders of this studio yet.")),
    h("p", h("a", { href: "#start" }, t("Start a training"))));
  const live = h("span.live", { role: "status" });
  fill(root,
    h("h1", t("Runs")),
    h("p.lead", t("What was trained in the folders of this studio, and what is training now. Choose runs; their curves grow while they learn.")),
    nothing,
    h("div.chartbox", controls, curves.place, empty, legend),
    h("div.row.unsaved.tablehead", filter, count, live),
    h("div.scroll", { role: "region", tabindex: "0", "aria-label": t("Table of runs") }, table),
    further,
    comparison,
  );

  const state = () => ({
    runs: [...chosen].join(SEPARATOR), q: view.q, x: view.x, y: view.y, smooth: view.smooth || "", lx: view.log_x ? "1" : "",
    ly: view.log_y ? "1" : "", sort: view.sort === "date" ? "" : view.sort, up: view.up ? "1" : "",
  });
  function keep() {
    context.setState(state());
  }

  function take(found) {
    if (found.all) {
      runs.clear();
      rows.clear();
    }
    if (found.cursor) cursor = found.cursor;
    let touched = false;
    for (const run of found.runs || []) {
      const before = runs.get(run.id);
      runs.set(run.id, run);
      touched ||= chosen.has(run.id) && (!before || before.step !== run.step || before.value !== run.value);
    }
    for (const id of found.gone || []) {
      runs.delete(id);
      rows.delete(id);
      touched ||= chosen.delete(id);
    }
    if ((found.runs && found.runs.length) || (found.gone && found.gone.length)) fillTable();
    if (touched) askChart(0);
    live.textContent = [...runs.values()].some((run) => run.state === "running") ? t("live") : "";
  }

  take(await get("/studio/runs/list"));
  if (!params.runs) {
    const newest = [...runs.values()].sort((a, b) => ((a.date || "") < (b.date || "") ? 1 : -1));
    const first = newest[0];
    chosen = new Set(newest.filter((run) => run.task === first.task && run.metric === first.metric && run.race === first.race).slice(0, FIRST).map((run) => run.id));
  }
  fillTable();
  await drawChart();
  askComparison();
  const end = follow(() => `/studio/runs/events?cursor=${encodeURIComponent(cursor)}`, take);
  const resized = new ResizeObserver(() => Math.abs((curves.area ? curves.area.width : 0) - width()) > 30 && curves.area && askChart(200));
  resized.observe(curves.place);
  return {
    unmount() {
      ended = true;
      end();
      resized.disconnect();
      clearTimeout(timer);
      clearTimeout(comparing);
    },
    state,
  };
}
