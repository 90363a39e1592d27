// Races of the folders, and the page of one, which fills while it runs.

import { fill, h } from "../lib/dom.js";
import { follow } from "../lib/live.js";
import { brief } from "../lib/values.js";

export async function mount(root, params, context) {
  const { t, get, announce } = context;
  const STATES = { running: t("running"), finished: t("finished"), stopped: t("stopped") };
  let races = [];
  let chosen = params.race || "";
  let shown = null; // {id, sign}
  let ended = false;
  let loading = false;

  const list = h("nav.racelist", { "aria-label": t("Races") });
  const status = h("div.racestatus", { role: "status" });
  const page = h("article.report", { "aria-label": t("The page of the race") });
  const nothing = h("div.panel", { hidden: true }, h("p", t("No race lies in the folders of this studio yet.")),
    h("p", h("a", { href: "#start?form=race" }, t("Start a race"))));
  fill(root, h("h1", t("Races")),
    h("p.lead", t("Every model on the same task, on equal terms. The page of a race that runs fills as its entries end.")),
    nothing, list, status, page);

  const sum = (race, key) => race.heats.reduce((total, heat) => total + (heat[key] || 0), 0);

  function drawList() {
    nothing.hidden = races.length > 0;
    fill(list, races.map((race) => {
      const missing = race.heats.some((heat) => heat.missing === null) ? null : sum(race, "missing");
      const done = sum(race, "ended");
      return h("button.race", { type: "button", "aria-pressed": race.id === chosen ? "true" : "false", on: { click: () => choose(race.id) } },
        h("strong", race.name), h("span.note", race.title), h("span.row.tight",
          h(`span.state.${race.state}`, STATES[race.state] || race.state),
          h("span.note", missing === null ? t("{done} entries ended", { done }) : t("{done} of {all} entries ended", { done, all: done + missing }))));
    }));
  }

  function drawStatus() {
    const race = races.find((each) => each.id === chosen);
    if (!race) {
      fill(status);
      return;
    }
    const running = race.heats.flatMap((heat) => heat.running);
    const ids = race.heats.flatMap((heat) => heat.runs || []);
    const all = sum(race, "ended") + sum(race, "missing");
    fill(status,
      race.error ? h("p.bad", race.error) : null,
      race.state === "running" && all ? h("progress", { max: all, value: sum(race, "ended"), "aria-label": t("entries that have ended") }) : null,
      running.length ? h("ul.runningnow", running.map((each) => h("li",
        h("strong", each.entry), h("span.note", ` ${t("seed {seed}", { seed: each.seed })}`),
        h("span.n", ` ${each.steps ? t("step {step} of {steps}", { step: brief(each.step), steps: brief(each.steps) }) : t("step {step}", { step: brief(each.step) })}`),
        each.loss === null ? null : h("span.note", ` ${t("loss {loss}", { loss: brief(each.loss) })}`)))) : null,
      h("p.row.unsaved",
        ids.length ? h("a", { href: `#runs?${new URLSearchParams({ runs: ids.slice(0, 60).join("|") })}` }, t("Curves of its runs")) : null,
        race.state === "stopped" && !race.error && race.heats.some((heat) => heat.missing) ? h("a", { href: `#start?${new URLSearchParams({ resume: race.id })}` }, t("Go on with it")) : null));
  }

  function choose(id) {
    chosen = id;
    context.setState(state());
    drawList();
    drawStatus();
    load();
  }

  // The page comes from the server as it would be written into the race's folder; only its inside is taken.
  async function load() {
    const race = races.find((each) => each.id === chosen);
    if (!race || race.error || loading) {
      if (!race || race.error) fill(page);
      return;
    }
    if (shown && shown.id === race.id && shown.sign === race.sign) return;
    loading = true;
    try {
      const found = await get("/studio/races/page", { race: race.id });
      if (ended) return;
      const opened = new Set([...page.querySelectorAll("details")].map((each, i) => (each.open ? i : -1)));
      const same = shown && shown.id === race.id;
      const parsed = new DOMParser().parseFromString(found.page, "text/html");
      for (const script of parsed.querySelectorAll("script, style, link, meta, iframe, object")) script.remove();
      for (const link of parsed.querySelectorAll("a[href^='#']")) turnLink(link);
      const top = scrollY;
      page.replaceChildren(...[...parsed.body.childNodes].map((each) => document.importNode(each, true)));
      for (const title of page.querySelectorAll("h1")) title.replaceWith(h("h2.racetitle", title.textContent));
      for (const link of page.querySelectorAll("a[data-to]")) link.addEventListener("click", goTo);
      if (same) {
        page.querySelectorAll("details").forEach((each, i) => { each.open = opened.has(i); });
        scrollTo(0, top);
        announce(t("The page of the race has new results."));
      }
      shown = { id: race.id, sign: found.sign };
    } catch {
      shown = { id: race.id, sign: race.sign };
    } finally {
      loading = false;
    }
    const now = races.find((each) => each.id === chosen);
    if (!ended && now && shown && (shown.id !== now.id)) load();
  }

  // links inside the page: the address of the view stays
  function turnLink(link) {
    link.setAttribute("data-to", link.getAttribute("href").slice(1));
    link.setAttribute("href", location.hash || "#races");
  }

  function goTo(event) {
    event.preventDefault();
    const target = page.querySelector(`[id="${CSS.escape(event.currentTarget.dataset.to)}"]`);
    if (!target) return;
    const folded = target.closest("details");
    if (folded) folded.open = true;
    for (const inside of target.querySelectorAll(":scope > details")) inside.open = true;
    target.scrollIntoView({ block: "start" });
  }

  function take(found) {
    if (!found.races) return;
    races = found.races;
    if (!races.some((race) => race.id === chosen) && !params.race) chosen = races.length ? races[0].id : "";
    drawList();
    drawStatus();
    load();
  }

  const state = () => ({ race: chosen });
  take(await get("/studio/races/list"));
  if (params.race && !races.some((race) => race.id === params.race)) context.problem(t("This race is not in the folders of the studio: {race}", { race: params.race }));
  const end = follow(() => "/studio/races/events", take);
  return {
    unmount() {
      ended = true;
      end();
    },
    state,
  };
}
