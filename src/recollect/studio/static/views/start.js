// Forms that start a training or a race, and the jobs that came of them.

import { fill, h } from "../lib/dom.js";
import { follow } from "../lib/live.js";
import { post as send } from "../lib/http.js";

const PAUSE = 250; // ms after the last key before a form is checked

export async function mount(root, params, context) {
  const { t, get, post, announce } = context;
  const STATES = { running: t("running"), stopping: t("stopping"), finished: t("finished"), stopped: t("stopped"), failed: t("failed"), ended: t("ended") };
  let ended = false;
  let kind = params.form === "race" ? "race" : "training";
  let form = null; // {collect(), problems(found), state()}
  let made = null; // the answer of the last check
  let jobs = [];
  let checking = 0;
  let turn = 0;

  const data = await get("/studio/start/data");
  const names = h("datalist", { id: "start-files" }, [...data.known, ...data.files].map((value) => h("option", { value })));
  const tabs = h("div.row.tabs.unsaved", { role: "group", "aria-label": t("What to start") });
  const place = h("form.startform", { novalidate: true, on: { submit: (event) => { event.preventDefault(); begin(); } } });
  const whole = h("p.bad", { role: "alert", hidden: true });
  const command = h("pre.command", { tabindex: "0", "aria-label": t("The command that will run") });
  const copy = h("button.quiet", { type: "button", on: { click: copyCommand } }, t("Copy"));
  const button = h("button.main", { type: "submit", form: "start-form", id: "start-button" }, t("Start"));
  place.id = "start-form";
  const list = h("ul.jobs", { "aria-label": t("Jobs") });
  const output = h("div");

  fill(root, h("h1", t("Start")),
    h("p.lead", t("A training or a race as a process of its own. It writes into the first folder of this studio, and goes on when this page is closed.")),
    tabs,
    data.folders.length ? null : h("p.bad", t("This studio has no folder to write to. Open one: recollect studio FOLDER")),
    h("div.startgrid",
      h("div", place),
      h("aside.card.startside", { "aria-label": t("The command that will run") },
        h("h2.first", t("The command")), h("p.note", t("The same in a terminal:")), command, h("div.row", button, copy), whole)),
    names,
    h("h2", t("Jobs")), list, output);

  function drawTabs() {
    fill(tabs, [["training", t("Training")], ["race", t("Race")]].map(([name, label]) =>
      h("button", { type: "button", "aria-pressed": kind === name ? "true" : "false", on: { click: () => open(name, {}) } }, label)));
  }

  // A field: its label, its input, what it means, and the place of its error

  function fieldOf(about, value, onChange) {
    const id = `start-${about.name}`;
    const said = h("p.bad.small", { id: `${id}-problem`, hidden: true });
    const help = h("p.note.small", { id: `${id}-help` }, withCode(about.help || ""), rangeOf(about));
    const common = { id, name: about.name, "aria-describedby": `${id}-help ${id}-problem`, on: { input: onChange, change: onChange } };
    const input = about.kind === "choice"
      ? h("select", common, h("option", { value: "" }, about.default ? t("{value} (default)", { value: about.default }) : t("default")),
        about.choices.filter((each) => each !== about.default).map((each) => h("option", { value: each, selected: each === value }, each)))
      : h("input", { ...common, type: "text", value: value || "", placeholder: about.default || "", autocomplete: "off", spellcheck: "false",
        inputmode: ["whole", "number"].includes(about.kind) ? "decimal" : null, list: ["files", "file"].includes(about.kind) ? "start-files" : null });
    return { about, input, said, place: h("div.startfield", h("label", { htmlFor: id }, about.label || about.name), input, said, help) };
  }

  // `words` between such marks are code
  const withCode = (text) => text.split("`").map((piece, i) => (i % 2 ? h("code", piece) : piece));

  function rangeOf(about) {
    if (about.kind === "whole" && about.least !== undefined) return ` ${t("A whole number from {least}.", { least: about.least })}`;
    if (about.kind === "number" && about.below !== undefined) return ` ${t("From {least} to below {below}.", { least: about.least, below: about.below })}`;
    if (about.kind === "files") return ` ${t("Known sets and files of the folders, with commas between.")}`;
    if (about.kind === "list") return ` ${t("With commas between.")}`;
    return "";
  }

  function showProblems(fields, problems, extra = {}) {
    const byName = new Map(fields.map((field) => [field.about.name, field]));
    for (const field of fields) {
      field.said.hidden = true;
      field.input.removeAttribute("aria-invalid");
    }
    const rest = [];
    for (const { field: name, message } of problems) {
      const field = byName.get(name) || extra[name];
      if (!field) rest.push(message);
      else {
        field.said.textContent = message;
        field.said.hidden = false;
        field.input.setAttribute("aria-invalid", "true");
        const folded = field.input.closest("details");
        if (folded) folded.open = true;
      }
    }
    whole.textContent = rest.join(" ");
    whole.hidden = rest.length === 0;
  }

  const read = (fields) => Object.fromEntries(fields.map((field) => [field.about.name, field.input.value]).filter(([, value]) => value !== ""));

  function moreField(value, onChange) {
    return fieldOf({ name: "more", label: t("Other settings"), kind: "text", help: t("name=value, with blanks between: any setting that has no field above.") }, value, onChange);
  }

  // A training

  async function openTraining(given) {
    const found = await get("/studio/start/training", { task: given.task || "text", model: given.model || null });
    const values = given.values || {};
    const change = () => { keep(); check(); };
    const pick = (name, label, options, value, to) => {
      const id = `start-${name}`;
      const said = h("p.bad.small", { id: `${id}-problem`, hidden: true });
      const input = h("select", { id, name, "aria-describedby": `${id}-problem`, on: { change: (event) => to(event.target.value) } },
        options.map((each) => h("option", { value: each, selected: each === value }, each)));
      return { about: { name }, input, said, place: h("div.startfield", h("label", { htmlFor: id }, label), input, said) };
    };
    const task = pick("task", t("Task"), found.tasks, found.task, (value) => open("training", { task: value, values: {} }));
    const model = pick("model", t("Model"), found.models, found.model, (value) => open("training", { task: found.task, model: value, values: read(fields), params: size.input.value, out: "" }));
    const fields = found.fields.map((about) => fieldOf(about, values[about.name], change));
    const size = fieldOf({ name: "params", label: "params", kind: "number", help: found.params }, given.params, change);
    const out = fieldOf({ name: "out", label: t("Name of the run"), kind: "text", default: found.out, help: t("It becomes a folder in {folder}.", { folder: data.folders[0] || "–" }) }, given.out, change);
    const more = moreField(given.more, change);
    const groups = new Map();
    for (const field of fields.filter((each) => !each.about.open)) {
      if (!groups.has(field.about.group)) groups.set(field.about.group, []);
      groups.get(field.about.group).push(field);
    }
    fill(place,
      h("p.note", found.about),
      h("div.startfields", task.place, model.place, fields.filter((each) => each.about.open).map((each) => each.place), size.place, out.place),
      h("h3", t("All other settings")),
      [...groups].map(([name, own]) => h("details.settings", { open: own.some((each) => each.input.value) }, h("summary", `${name} (${own.length})`), h("div.startfields", own.map((each) => each.place)))),
      more.place);
    form = {
      collect: () => ({ training: { task: found.task, model: found.model, params: size.input.value, out: out.input.value || found.out, values: read(fields), more: more.input.value.split(/\s+/).filter(Boolean) } }),
      problems: (problems) => showProblems([...fields, size, out, more, model, task], problems),
      state: () => ({ form: "training", task: found.task, model: found.model, params: size.input.value, out: out.input.value, set: packed(read(fields)), more: more.input.value }),
    };
  }

  // A race

  async function openRace(given) {
    const found = await get("/studio/start/race");
    const values = given.values || {};
    const change = () => { keep(); check(); };
    const every = [...found.heats.map((heat) => ({ ...heat, value: `task:${heat.name}` })), ...found.ladders.map((heat) => ({ ...heat, value: `ladder:${heat.name}` }))];
    const wanted = given.ladder ? `ladder:${given.ladder}` : `task:${given.task || "recall"}`;
    const heat = every.find((each) => each.value === wanted) || every[0];
    const ladder = heat.value.startsWith("ladder:");
    const select = h("select", { id: "start-heat", on: { change: (event) => {
      const [sort, name] = event.target.value.split(":");
      open("race", sort === "ladder" ? { ladder: name } : { task: name });
    } } },
    h("optgroup", { label: t("Tasks") }, found.heats.map((each) => h("option", { value: `task:${each.name}`, selected: heat.value === `task:${each.name}` }, `${each.name}: ${each.title}`))),
    h("optgroup", { label: t("Ladders: each rung one change") }, found.ladders.map((each) => h("option", { value: `ladder:${each.name}`, selected: heat.value === `ladder:${each.name}` }, `${each.name}: ${each.title}`))));
    const chosen = new Set((given.models || "").split(",").filter(Boolean));
    const boxes = heat.models.map((name) => h("input", { type: "checkbox", value: name, checked: chosen.size === 0 || chosen.has(name), on: { change } }));
    const said = h("p.bad.small", { hidden: true });
    const models = h("fieldset.models", { "aria-describedby": "start-models-help" }, h("legend", t("Models")),
      h("div.row", h("button.quiet", { type: "button", on: { click: () => { boxes.forEach((box) => { box.checked = true; }); change(); } } }, t("all")),
        h("button.quiet", { type: "button", on: { click: () => { boxes.forEach((box) => { box.checked = false; }); change(); } } }, t("none"))),
      h("div.row", heat.models.map((name, i) => h("label.check", boxes[i], name))), said, h("p.note.small", { id: "start-models-help" }, t("Of a race of all models nothing is left out.")));
    const defaults = { equal: "params", budget: String(heat.steps || ""), params: heat.params ? String(heat.params) : "", seeds: "3", jobs: String(found.cores) };
    const fields = found.fields.filter((about) => about.name !== "params" || heat.params).map((about) =>
      fieldOf({ ...about, default: defaults[about.name] || "", choices: about.kind === "choice" ? found.equals : undefined }, values[about.name], change));
    const out = fieldOf({ name: "out", label: t("Name of the race"), kind: "text", default: heat.out, help: t("It becomes a folder in {folder}.", { folder: data.folders[0] || "–" }) }, given.out, change);
    const more = moreField(given.more, change);
    fill(place,
      h("div.startfield", h("label", { htmlFor: "start-heat" }, t("Race")), select),
      h("p.note", heat.question),
      ladder ? h("p.note", heat.rungs.join(" → ")) : models,
      h("div.startfields", fields.map((each) => each.place), out.place, more.place));
    const picked = () => (ladder || boxes.every((box) => box.checked) ? [] : boxes.filter((box) => box.checked).map((box) => box.value));
    form = {
      collect: () => ({ race: { task: ladder ? null : heat.name, ladder: ladder ? heat.name : null, models: picked(), out: out.input.value || heat.out, values: read(fields), more: more.input.value.split(/\s+/).filter(Boolean) } }),
      problems: (problems) => showProblems([...fields, out, more], ladder || boxes.some((box) => box.checked) ? problems : [{ field: "models", message: t("Choose at least one model.") }], { models: { said, input: models } }),
      state: () => ({ form: "race", task: ladder ? "" : heat.name, ladder: ladder ? heat.name : "", models: picked().join(","), out: out.input.value, set: packed(read(fields)), more: more.input.value }),
    };
  }

  const packed = (values) => (Object.keys(values).length ? JSON.stringify(values) : "");

  function unpacked(text) {
    try {
      const found = JSON.parse(text || "{}");
      return Object.fromEntries(Object.entries(found).filter(([, value]) => typeof value === "string"));
    } catch {
      return {};
    }
  }

  async function open(name, given) {
    const own = ++turn;
    kind = name;
    drawTabs();
    if (name === "race") await openRace(given);
    else await openTraining(given);
    if (own !== turn || ended) return;
    keep();
    await check(0);
  }

  function check(wait = PAUSE) {
    clearTimeout(checking);
    button.disabled = true;
    return new Promise((done) => {
      checking = setTimeout(async () => {
        const own = turn;
        try {
          const found = await send("/studio/start/check", form.collect());
          if (own !== turn || ended) return;
          made = found;
          command.textContent = found.command;
          form.problems(found.problems);
          button.disabled = found.problems.length > 0;
        } catch (error) {
          whole.textContent = error.message;
          whole.hidden = false;
        } finally {
          done();
        }
      }, wait);
    });
  }

  async function begin() {
    await check(0);
    if (button.disabled) {
      announce(t("The form has an error."));
      const wrong = place.querySelector("[aria-invalid=true]");
      if (wrong) wrong.focus();
      return;
    }
    button.disabled = true;
    try {
      const job = await post("/studio/start/run", form.collect());
      announce(t("Started: {name}", { name: job.title }));
      await refresh();
      list.scrollIntoView({ block: "nearest" });
    } catch {
      // it is said in the region of problems
    } finally {
      const { out, ...rest } = form.state();
      await open(kind, { ...rest, values: unpacked(rest.set), out: "" });
    }
  }

  async function copyCommand() {
    try {
      await navigator.clipboard.writeText(command.textContent);
      announce(t("The command was copied."));
      copy.classList.add("done");
      setTimeout(() => copy.classList.remove("done"), 1200);
    } catch {
      getSelection().selectAllChildren(command);
    }
  }

  // Jobs

  let watched = "";
  function drawJobs() {
    const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.key : "";
    fill(list, jobs.length ? jobs.map((job) => h("li.job.card",
      h("div.row", h("strong", job.title), h(`span.state.${job.state}`, STATES[job.state] || job.state), h("span.note", new Date(job.started * 1000).toLocaleString(document.documentElement.lang))),
      h("p.mono.small.jobline", job.error || job.line || ""),
      h("div.row.unsaved",
        job.out && job.kind === "train" ? h("a", { href: `#runs?${new URLSearchParams({ runs: job.out })}` }, t("Live curves")) : null,
        job.out && job.kind === "race" ? h("a", { href: `#races?${new URLSearchParams({ race: job.out })}` }, t("Its page")) : null,
        ["running", "stopping"].includes(job.state) ? h("button", { type: "button", "data-key": `stop ${job.id}`, on: { click: () => stop(job) } }, job.state === "stopping" ? t("End at once") : t("Stop and save")) : null,
        job.out && ["stopped", "failed", "ended"].includes(job.state) ? h("button", { type: "button", "data-key": `resume ${job.id}`, on: { click: () => resume(job.out) } }, t("Resume")) : null,
        h("button.quiet", { type: "button", "data-key": `output ${job.id}`, "aria-expanded": watched === job.id ? "true" : "false", on: { click: () => watch(watched === job.id ? "" : job.id) } }, t("Output"))),
      watched === job.id ? output : null)) : h("li.note", t("Nothing was started yet.")));
    if (focused) {
      const again = list.querySelector(`[data-key="${CSS.escape(focused)}"]`);
      if (again) again.focus();
    }
  }

  async function watch(id) {
    watched = id;
    fill(output);
    drawJobs();
    if (id) await readOutput();
  }

  async function readOutput() {
    const found = await get("/studio/start/output", { id: watched });
    if (ended || found.job.id !== watched) return;
    const before = output.querySelector("pre");
    const atEnd = !before || before.scrollTop + before.clientHeight > before.scrollHeight - 20;
    const text = h("pre.command.output", { tabindex: "0", "aria-label": t("Output") }, `$ ${found.job.command}\n${found.output}`);
    fill(output, text);
    if (atEnd) text.scrollTop = text.scrollHeight;
  }

  async function stop(job) {
    await post("/studio/start/stop", { id: job.id });
    announce(job.state === "stopping" ? t("It was ended.") : t("It saves and ends."));
    await refresh();
  }

  async function resume(out) {
    const job = await post("/studio/start/resume", { id: out });
    announce(t("Started: {name}", { name: job.title }));
    await refresh();
  }

  // a link only offers what a button does
  function offerResume(out) {
    const offer = h("div.panel.row", h("span", t("Go on with {run}", { run: out })), h("button.main", { type: "button", on: { click: async () => {
      await resume(out);
      offer.remove();
      keep();
    } } }, t("Resume")));
    tabs.before(offer);
  }

  function take(found) {
    if (!found.jobs) return;
    jobs = found.jobs;
    drawJobs();
    if (watched) readOutput().catch(() => {});
  }

  async function refresh() {
    take(await get("/studio/start/jobs"));
  }

  const state = () => (form ? form.state() : params);
  function keep() {
    context.setState(state());
  }

  await refresh();
  await open(kind, { ...params, values: unpacked(params.set) });
  const end = follow(() => "/studio/start/events", take);
  if (params.resume) offerResume(params.resume);
  return {
    unmount() {
      ended = true;
      end();
      clearTimeout(checking);
    },
    state,
  };
}
