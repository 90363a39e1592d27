// The course: chapters as pages, whose commands are buttons.

import { fill, h } from "../lib/dom.js";
import { part } from "../lib/pages.js";

const LOOK = 700; // ms between two looks at what a command prints

export async function mount(root, params, context) {
  const { t, get, post, announce } = context;
  const STATES = { running: t("running"), stopping: t("stopping"), finished: t("finished"), stopped: t("stopped"), failed: t("failed"), ended: t("ended") };
  let ended = false;
  let chapters = (await get("/studio/course/chapters")).chapters;
  const begun = chapters.find((each) => each.section);
  let chosen = Number(params.chapter) || (begun ? begun.number : 1);
  let section = params.section || "";
  let turn = 0;
  const timers = new Set();
  const watching = new IntersectionObserver(onSeen, { rootMargin: "-20% 0px -70% 0px" });

  const list = h("ol.chapters", { "aria-label": t("Chapters") });
  const page = h("article.chapter");
  fill(root, h("h1", t("Course")),
    h("p.lead", t("Thirteen chapters, from counting to memories that are trained while they read. The code runs here, in a folder of its own.")),
    h("div.coursegrid", h("nav.chapternav", { "aria-label": t("Chapters") }, list), page));

  function drawList() {
    fill(list, chapters.map((each) => h("li", h("button.quiet", { type: "button", "aria-current": each.number === chosen ? "page" : null, on: { click: () => open(each.number) } },
      h("span.number.n", String(each.number)), h("span.grow", each.title), each.finished ? h("span.holds", { role: "img", "aria-label": t("finished") }, "✓") : null))));
  }

  async function open(number, to = "") {
    const own = ++turn;
    chosen = number;
    section = to;
    drawList();
    const found = await get("/studio/course/chapter", { chapter: number });
    if (ended || own !== turn) return;
    watching.disconnect();
    fill(page,
      h("h2.chaptertitle", `${found.number}. ${found.title}`),
      found.sections.map((each) => {
        const place = h("section.part", { id: `section-${each.key}`, "data-key": each.key }, h("h3", each.heading), drawParts(found, each));
        watching.observe(place);
        return place;
      }),
      h("p.row.unsaved.chapterend", finishButton(found),
        chapters.some((each) => each.number === number + 1) ? h("button", { type: "button", on: { click: () => open(number + 1) } }, t("Next chapter")) : null));
    const target = to && page.querySelector(`[data-key="${CSS.escape(to)}"]`);
    if (target) target.scrollIntoView();
    else if (own > 1) scrollTo(0, 0);
    keep();
    if (own > 1) announce(`${found.number}. ${found.title}`);
  }

  function finishButton(found) {
    const about = chapters.find((each) => each.number === found.number);
    return h("button.main", { type: "button", on: { click: async () => {
      await post("/studio/course/place", { chapter: found.number, finished: about.finished ? "no" : "yes" });
      chapters = (await get("/studio/course/chapters")).chapters;
      drawList();
      page.querySelector(".chapterend .main").replaceWith(finishButton(found));
    } } }, about.finished ? t("Not finished after all") : t("I have finished this chapter"));
  }

  function drawParts(chapter, about) {
    const found = [];
    for (const each of about.parts) {
      if (["python", "sh"].includes(each.kind)) {
        const next = about.parts[each.number + 1];
        found.push(runnable(chapter, about, each, next && next.kind === "printed" ? next : null));
      } else if (each.kind === "printed" && found.length && ["python", "sh"].includes((about.parts[each.number - 1] || {}).kind)) continue;
      else found.push(part(each, { t, figures: "/studio/course/figure/" }));
    }
    return found;
  }

  // A piece of code with the button that runs it; until then what it printed when the page was made
  function runnable(chapter, about, each, printed) {
    const predict = about.key === "experiment" ? h("input.grow", { type: "text", "aria-label": t("What do you expect?"), placeholder: t("What do you expect? Write it before you run it.") }) : null;
    const status = h("span.note", { role: "status" });
    const shown = h("pre.printed", { tabindex: "0", "aria-label": t("Output") }, printed ? printed.text : "");
    const caption = h("p.note.small", printed ? t("What it printed when this page was made:") : "");
    const expected = h("p.note", { hidden: true });
    let job = null;
    const button = h("button.main", { type: "button", on: { click: begin } }, t("Run"));
    const stopping = h("button", { type: "button", hidden: true, on: { click: () => post("/studio/start/stop", { id: job }) } }, t("Stop"));
    const afresh = h("button.quiet", { type: "button", on: { click: () => begin(true) } }, t("Run in an emptied folder"));

    async function begin(empty) {
      button.disabled = true;
      try {
        const started = await post("/studio/course/run", { chapter: chapter.number, section: about.key, part: each.number, afresh: empty === true });
        job = started.id;
        shown.textContent = "";
        shown.hidden = false;
        caption.textContent = t("What it prints now:");
        if (predict && predict.value) {
          expected.textContent = t("You expected: {guess}", { guess: predict.value });
          expected.hidden = false;
        }
        stopping.hidden = false;
        look();
      } catch {
        button.disabled = false;
      }
    }

    async function look() {
      if (ended) return;
      try {
        const found = await get("/studio/start/output", { id: job });
        if (ended) return;
        shown.textContent = found.output;
        status.textContent = STATES[found.job.state] || found.job.state;
        status.className = `note state ${found.job.state}`;
        if (["running", "stopping"].includes(found.job.state)) {
          const timer = setTimeout(() => { timers.delete(timer); look(); }, LOOK);
          timers.add(timer);
          return;
        }
      } catch {
        // it is said in the region of problems
      }
      button.disabled = false;
      stopping.hidden = true;
    }

    shown.hidden = !printed;
    return h("div.runnable", h("pre.code", { tabindex: "0", "aria-label": each.kind === "sh" ? t("Commands") : t("Code") }, each.text),
      h("div.row.unsaved", predict, button, stopping, afresh, status), expected, caption, shown);
  }

  // where the reader is, remembered as `recollect learn` does
  let waiting = 0;
  function onSeen(entries) {
    const seen = entries.find((each) => each.isIntersecting);
    if (!seen || seen.target.dataset.key === section) return;
    section = seen.target.dataset.key;
    keep();
    clearTimeout(waiting);
    waiting = setTimeout(() => post("/studio/course/place", { chapter: chosen, section }).catch(() => {}), 1500);
  }

  const state = () => ({ chapter: chosen, section });
  function keep() {
    context.setState(state());
  }

  drawList();
  try {
    await open(chosen, section || (params.chapter ? "" : begun ? begun.section : ""));
  } catch (error) {
    if (chosen === 1) throw error;
    await open(1);
  }
  return {
    unmount() {
      ended = true;
      watching.disconnect();
      clearTimeout(waiting);
      for (const timer of timers) clearTimeout(timer);
    },
    state,
  };
}
