// One text, every memory: the view. Its state is the text, where one looks, a branch of the text with what was changed
// in states, the lanes with their pictures, and how they write on; all of it stands in the link.

import { fill, h, onFrame } from "../lib/dom.js";
import { LaneView } from "./text/lane.js";
import { Session } from "./text/session.js";
import { Strip } from "./text/strip.js";
import { describeModel, visible } from "./text/words.js";

const FIRST = "First Citizen:\nBefore we proceed any further, hear me speak.\n";
const LANES = ["lane-ngram", "lane-rnn", "lane-lstm", "lane-transformer", "lane-gated-delta", "lane-ttt-linear"];
const CELLS = { wide: 14, narrow: 12 };
const WRITING = { len: "80", temp: "0.8", seed: "0" };
const MODES = ["text", "branch", "difference"];

export async function mount(root, params, context) {
  const { t, get, announce, problem } = context;
  const runs = await get("/studio/text/runs");
  const known = new Set(runs.runs.map((run) => run.name));
  const given = (params.lanes || "").split(",").filter((name) => known.has(name));
  const standard = LANES.filter((name) => known.has(name));
  const state = readState(params);
  state.lanes = given.length ? given : standard.length ? standard : runs.runs.slice(0, 2).map((run) => run.name);
  const session = new Session();
  const lanes = new Map();
  const view = { cell: innerWidth < 700 ? CELLS.narrow : CELLS.wide, scroll: 0, width: 600 };
  let writing = null;
  let looking = 0;

  // What lanes ask of the page
  const page = {
    view,
    announce,
    text: (line) => (line && state.branch ? branchText() : state.text),
    at: (line) => Math.min(state.at ?? Infinity, page.text(line).length),
    mode: () => (state.branch ? state.mode : "text"),
    branched: () => Boolean(state.branch),
    pictureOf: (name) => state.pics[name],
    choosePicture(name, key) {
      state.pics[name] = key;
      update();
    },
    select,
    editState,
    adopt(line, text) {
      const whole = page.text(line) + text;
      if (line === 0 && !state.branch) setText(whole);
      else if (line === 0) setText(whole);
      else {
        state.branch.rest = whole.slice(state.branch.at);
        branchField.value = state.branch.rest;
        update();
      }
      clearWritten();
    },
    async removeLane(name) {
      if (state.lanes.length > 1) await setLanes(state.lanes.filter((each) => each !== name));
    },
  };

  const branchText = () => state.text.slice(0, state.branch.at) + state.branch.rest;

  // ---- the page

  const field = h("textarea.text", {
    id: "text", rows: 3, spellcheck: "false", autocapitalize: "off", maxlength: runs.longest, "aria-label": t("Text that all lanes read"),
    value: state.text, on: { input: () => setText(field.value, true) },
  });
  const strip = new Strip({ select, goBack, scrolled: (left) => { view.scroll = left; draw(); } });
  const place = h("p.place", { "aria-live": "off" });
  const replaced = h("input.one", { type: "text", maxlength: 1, size: 1, "aria-label": t("Another character"), on: { input: () => replaceLetter() } });
  const buttons = {
    back: h("button", { type: "button", on: { click: goBack } }, t("Go back here")),
    fork: h("button", { type: "button", on: { click: fork } }, t("Branch here")),
    end: h("button.quiet", { type: "button", on: { click: () => select(null) } }, t("To the end")),
  };
  const branchField = h("input.grow.mono", { type: "text", "aria-label": t("How the branch goes on"), on: { input: () => setBranch(branchField.value) } });
  const modes = h(
    "div.modes",
    { role: "group", "aria-label": t("What the lanes show") },
    MODES.map((mode) => h("button", { type: "button", "data-mode": mode, on: { click: () => setMode(mode) } }, { text: t("Text"), branch: t("Branch"), difference: t("Difference") }[mode])),
  );
  const branchRow = h("div.row.branch", { hidden: true }, h("label", t("Branch goes on with")), branchField, modes, h("button.quiet", { type: "button", on: { click: dropBranch } }, t("Drop branch")));
  const changes = h("p.note.changes", { hidden: true });
  const options = {
    len: h("input.number", { id: "len", type: "number", min: 1, max: 2000, value: state.len, on: { change: () => { state.len = options.len.value; save(); } } }),
    temp: h("input.number", { id: "temp", type: "number", min: 0, max: 5, step: 0.1, value: state.temp, on: { change: () => { state.temp = options.temp.value; save(); } } }),
    seed: h("input.number", { id: "seed", type: "number", min: 0, max: 2147483647, value: state.seed, on: { change: () => { state.seed = options.seed.value; save(); } } }),
  };
  const writeButton = h("button.main", { type: "button", id: "write", on: { click: write } }, t("Let all write on"));
  const stopButton = h("button", { type: "button", hidden: true, on: { click: () => writing && writing.abort() } }, t("Stop"));
  const chooser = h("select", { id: "add", on: { change: addLane } });
  const place2 = h("div.lanes");

  fill(
    root,
    h("h1", t("One text, every memory")),
    h("p.lead", t("Type. Every lane is a trained model that reads along, a character at a time: what it keeps, how surprised it is, and what it expects next.")),
    h("div.unsaved-border", field),
    h(
      "div.row.writing.unsaved",
      writeButton, stopButton,
      h("span.pair", h("label", { htmlFor: "len" }, t("characters")), options.len),
      h("span.pair", h("label", { htmlFor: "temp" }, t("temperature")), options.temp),
      h("span.pair", h("label", { htmlFor: "seed" }, t("seed")), options.seed),
      h("span.pair.adding", h("label", { htmlFor: "add" }, t("Add a lane")), chooser),
    ),
    h(
      "div.time",
      h("div.strip-place", strip.element),
      h("div.row.selection.unsaved", place, buttons.back, buttons.fork, h("label.row", t("replace by"), replaced), buttons.end),
      branchRow, changes,
    ),
    place2,
  );

  // ---- what changes the state

  function setText(text, typed = false) {
    const before = state.text;
    state.text = text.slice(0, runs.longest);
    if (!typed) field.value = state.text;
    let same = 0;
    while (same < before.length && same < state.text.length && before[same] === state.text[same]) same += 1;
    if (state.branch && same < state.branch.at) closeBranch();
    state.at = null;
    clearWritten();
    update();
  }

  function setBranch(rest) {
    state.branch.rest = rest;
    clearWritten();
    update();
  }

  function fork() {
    const at = page.at(0);
    state.branch = { at, rest: "" };
    state.edits = [];
    state.mode = "branch";
    state.at = null;
    openBranch();
    branchField.focus();
    announce(t("A branch begins here; type how it goes on."));
  }

  function replaceLetter() {
    const at = page.at(0);
    const letter = replaced.value;
    if (!letter || !at) return;
    state.branch = { at: at - 1, rest: letter + state.text.slice(at) };
    state.edits = [];
    state.mode = "difference";
    openBranch();
    replaced.value = "";
    announce(t("The character was replaced in a branch; the lanes show what differs from there on."));
  }

  function editState(edit, end) {
    if (!state.branch || state.branch.at > end) state.branch = { at: end, rest: state.text.slice(end) };
    state.edits = [...state.edits.filter((each) => each.lane !== edit.lane || each.at !== edit.at || each.key !== edit.key || each.unit !== edit.unit), edit];
    state.mode = "difference";
    state.at = end < state.text.length ? end : null;
    openBranch();
    announce(t("The number was set in a branch; the lanes show what differs from there on."));
  }

  function openBranch() {
    branchField.value = state.branch.rest;
    clearWritten();
    update();
  }

  function closeBranch() {
    state.branch = null;
    state.edits = [];
    state.mode = "text";
    for (const lane of lanes.values()) lane.dropBranch();
  }

  function dropBranch() {
    closeBranch();
    clearWritten();
    update();
    strip.element.focus();
  }

  function setMode(mode) {
    state.mode = mode;
    update();
  }

  function select(at) {
    state.at = at === state.text.length ? null : at;
    showPlace();
    for (const lane of lanes.values()) lane.editor.hidden = true;
    save();
    draw();
    look();
  }

  function goBack() {
    const at = page.at(0);
    if (at && at < state.text.length) {
      setText(state.text.slice(0, at));
      announce(t("Went back: all lanes stand after character {at} again.", { at }));
    }
    field.focus();
    field.setSelectionRange(state.text.length, state.text.length);
  }

  async function setLanes(names) {
    try {
      state.lanes = names;
      const found = await session.open(names);
      placeLanes(found);
      update();
    } catch (error) {
      problem(error);
    }
  }

  async function addLane() {
    const name = chooser.value;
    if (name && state.lanes.length < runs.most) {
      announce(t("Loading {name}", { name }));
      await setLanes([...state.lanes, name]);
    }
  }

  function placeLanes(found) {
    if (session.failed.length) problem(session.failed.join(" "));
    state.lanes = found.map((lane) => lane.name);
    const names = new Set(found.map((lane) => lane.name));
    for (const [name, lane] of lanes) {
      if (!names.has(name)) {
        lane.element.remove();
        lanes.delete(name);
      }
    }
    for (const about of found) {
      if (!lanes.has(about.name)) {
        const lane = new LaneView(about, page);
        lanes.set(about.name, lane);
        place2.append(lane.element);
      }
    }
    showChooser();
  }

  function showChooser() {
    const others = runs.runs.filter((run) => !lanes.has(run.name));
    fill(
      chooser,
      h("option", { value: "" }, others.length ? t("choose a run") : t("all runs are here")),
      others.map((run) => h("option", { value: run.name }, `${describeModel(run.model)[0]} · ${run.name}`)),
    );
  }

  // ---- reading

  const edits = () => (state.branch ? state.edits : []);

  function update() {
    strip.set(0, state.text);
    strip.set(1, state.branch ? branchText() : "", state.branch ? state.branch.at : 0);
    showPlace();
    branchRow.hidden = !state.branch;
    for (const button of modes.children) button.setAttribute("aria-pressed", String(button.dataset.mode === page.mode()));
    changes.hidden = !edits().length;
    if (edits().length) changes.textContent = t("Changed in the branch: {list}", { list: edits().map((each) => `${each.lane} ${each.key} [${each.unit + 1}] = ${each.value}`).join("; ") });
    for (const lane of lanes.values()) lane.describe();
    save();
    const shown = `${page.mode()} ${state.lanes.join()}`;
    if (shown !== drawnAs) draw();
    drawnAs = shown;
    session.read(makeBody, onRead).then(look, problem);
  }

  function makeBody() {
    const lines = [{ text: state.text, edits: [] }];
    if (state.branch) lines.push({ text: branchText(), edits: edits() });
    const show = {};
    const have = {};
    for (const [name, lane] of lanes) {
      if (lane.picture) show[name] = lane.picture.key;
      have[name] = lines.map((line, i) => lane.lines[i].have(line.text, show[name] || null, line.edits.filter((each) => each.lane === name), lane.about.tokenizer === "chars"));
    }
    sent = { lines, show, have };
    return sent;
  }

  let sent = null;
  let drawnAs = "";
  const fresh = new Set(); // lanes with something new to draw

  function onRead(frame) {
    const lane = lanes.get(frame.lane);
    if (!lane || !sent) return;
    const line = sent.lines[frame.line];
    lane.take(frame, line.text, line.edits.filter((each) => each.lane === frame.lane));
    fresh.add(lane);
    drawFresh();
  }

  // Pictures of one position, where one that is not the newest is looked at
  async function look() {
    const turn = ++looking;
    for (const line of state.branch && page.mode() !== "text" ? [0, 1] : [0]) {
      const show = {};
      for (const [name, lane] of lanes) if (lane.needsLook(line)) show[name] = lane.picture.key;
      const at = page.at(line);
      if (!Object.keys(show).length || at < 1 || session.running) continue;
      try {
        const found = await session.look({ at, line, show });
        if (turn !== looking || found === null) return;
        for (const each of found.looks) {
          const lane = lanes.get(each.lane);
          if (lane && found[each.lane]) lane.looked[line] = { at: each.at, key: each.key, ...found[each.lane] };
        }
        draw();
      } catch (error) {
        problem(error);
      }
    }
  }

  async function write() {
    if (!state.text) {
      announce(t("Type something first."));
      field.focus();
      return;
    }
    clearWritten();
    await session.running;
    writing = new AbortController();
    writeButton.disabled = true;
    stopButton.hidden = false;
    const waiting = new Map();
    const flush = onFrame(() => {
      for (const [key, text] of waiting) {
        const [name, line] = key;
        lanes.get(name)?.addWritten(line, text);
      }
      waiting.clear();
    });
    const keys = new Map();
    try {
      const body = { length: Number(options.len.value), temperature: Number(options.temp.value), seed: Number(options.seed.value) };
      await session.write(body, ({ parts }) => {
        for (const [name, line, text] of parts) {
          if (!keys.has(`${name} ${line}`)) keys.set(`${name} ${line}`, [name, line]);
          const key = keys.get(`${name} ${line}`);
          waiting.set(key, (waiting.get(key) || "") + text);
        }
        flush();
      }, writing.signal);
      announce(t("All lanes have written."));
    } catch (error) {
      problem(error);
    }
    writing = null;
    writeButton.disabled = false;
    stopButton.hidden = true;
  }

  function clearWritten() {
    if (writing) writing.abort();
    for (const lane of lanes.values()) lane.clearWritten();
  }

  // ---- showing

  function showPlace() {
    const at = page.at(0);
    strip.mark(at);
    if (state.at === null) strip.show(state.text.length, view.cell);
    else strip.show(at, view.cell);
    place.textContent = at ? t("After “{letter}”, character {at} of {count}", { letter: visible(state.text[at - 1]), at, count: state.text.length }) : t("Nothing was typed yet.");
    buttons.back.disabled = !at || at >= state.text.length;
    buttons.fork.disabled = !at;
    buttons.end.hidden = state.at === null;
    replaced.disabled = !at;
  }

  const draw = onFrame(() => {
    fresh.clear();
    for (const lane of lanes.values()) lane.draw();
  });

  const drawFresh = onFrame(() => {
    for (const lane of fresh) lane.draw();
    fresh.clear();
  });

  function measure() {
    view.cell = innerWidth < 700 ? CELLS.narrow : CELLS.wide;
    root.style.setProperty("--cell", `${view.cell}px`);
    view.width = Math.max(120, strip.element.clientWidth);
    view.scroll = strip.element.scrollLeft;
    draw();
  }

  function save() {
    context.setState(writeState(state));
  }

  const redraw = () => draw();
  const resized = new ResizeObserver(measure);
  resized.observe(strip.element);
  document.addEventListener("themechange", redraw);
  measure();
  if (!state.lanes.length) {
    fill(place2, h("p.note", t("No run of a text task was found. Train one, and it becomes a lane: recollect train text.")));
  } else {
    placeLanes(await session.open(state.lanes));
    if (state.branch) branchField.value = state.branch.rest;
    update();
    await session.running;
  }

  return {
    unmount() {
      resized.disconnect();
      document.removeEventListener("themechange", redraw);
      draw.cancel();
      drawFresh.cancel();
      if (writing) writing.abort();
      session.close();
    },
    state: () => writeState(state),
  };
}

function readState(params) {
  const at = parseInt(params.at, 10);
  const branchAt = parseInt(params.b, 10);
  const text = params.text ?? FIRST;
  const edits = (params.e || "").split(";").filter(Boolean).map((each) => {
    const [lane, place, key, unit, value] = each.split(",");
    return { lane, at: Number(place), key, unit: Number(unit), value: Number(value) };
  });
  return {
    text,
    at: Number.isInteger(at) && at > 0 && at < text.length ? at : null,
    branch: Number.isInteger(branchAt) && branchAt >= 0 && branchAt <= text.length ? { at: branchAt, rest: params.bt || "" } : null,
    edits: edits.filter((each) => Number.isInteger(each.at) && Number.isInteger(each.unit) && Number.isFinite(each.value)),
    mode: MODES.includes(params.mode) ? params.mode : "text",
    pics: Object.fromEntries((params.pics || "").split(",").filter(Boolean).map((each) => each.split("~"))),
    len: params.len || WRITING.len,
    temp: params.temp || WRITING.temp,
    seed: params.seed || WRITING.seed,
  };
}

function writeState(state) {
  const found = {
    text: state.text === FIRST ? undefined : state.text || " ",
    at: state.at ?? undefined,
    lanes: state.lanes.join() === LANES.join() ? undefined : state.lanes.join(),
    pics: Object.entries(state.pics).filter(([name]) => state.lanes.includes(name)).map((each) => each.join("~")).join(),
  };
  for (const [name, usual] of Object.entries(WRITING)) if (state[name] !== usual) found[name] = state[name];
  if (state.branch) {
    found.b = state.branch.at;
    found.bt = state.branch.rest;
    found.mode = state.mode;
    found.e = state.edits.map((each) => [each.lane, each.at, each.key, each.unit, each.value].join()).join(";");
  }
  return found;
}
