// The lineage: a map to walk, and what is to be known of the memory that stands chosen on it.

import { fill, h, svg } from "../lib/dom.js";
import { part } from "../lib/pages.js";
import { brief, scaled } from "../lib/values.js";

export async function mount(root, params, context) {
  const { t, get, announce } = context;
  let chosen = params.layer || "rnn";
  let ended = false;
  let drawnAt = 0;
  let turn = 0;
  const map = h("div.lineagemap.scroll", { role: "region", tabindex: "0", "aria-label": t("Map of the lineage") });
  const about = h("article.idea", { "aria-live": "polite" });

  fill(root, h("h1", t("The lineage")),
    h("p.lead", t("Every memory is a state, a rule to update it and a rule to read it. Each came after another and changed something: walk along the lines, with the arrow keys too.")),
    map, about);

  async function drawMap() {
    drawnAt = Math.floor(map.clientWidth);
    const found = await get("/studio/lineage/map", { layer: chosen, width: drawnAt });
    if (ended) return;
    const focused = map.contains(document.activeElement) && document.activeElement !== map;
    fill(map, svg(found.svg));
    for (const node of map.querySelectorAll(".idea")) {
      node.addEventListener("click", () => choose(node.dataset.name));
      node.addEventListener("keydown", onKey);
    }
    const own = map.querySelector('.idea[aria-pressed="true"]');
    if (focused && own) own.focus();
  }

  // arrow keys go to the nearest idea on that side
  function onKey(event) {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      choose(event.currentTarget.dataset.name);
      return;
    }
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!way) return;
    event.preventDefault();
    const middle = (node) => {
      const box = node.getBoundingClientRect();
      return [box.left + box.width / 2, box.top + box.height / 2];
    };
    const [x, y] = middle(event.currentTarget);
    let best = null;
    for (const node of map.querySelectorAll(".idea")) {
      const [a, b] = middle(node);
      const along = (a - x) * way[0] + (b - y) * way[1];
      const aside = Math.abs((a - x) * way[1]) + Math.abs((b - y) * way[0]);
      if (along > 4 && (!best || along + 2 * aside < best.far)) best = { node, far: along + 2 * aside };
    }
    if (best) {
      best.node.focus();
      choose(best.node.dataset.name);
    }
  }

  async function choose(name) {
    chosen = name;
    context.setState(state());
    await Promise.all([drawMap(), describe()]);
  }

  const link = (name) => h("button.quiet.linklike", { type: "button", on: { click: () => choose(name) } }, name);
  const listed = (names) => names.flatMap((name, i) => (i ? [", ", link(name)] : [link(name)]));

  async function describe() {
    const own = ++turn;
    const found = await get("/studio/lineage/layer", { layer: chosen });
    if (ended || own !== turn) return;
    const { card, cost } = found;
    const lines = ["STATE", "UPDATE", "READ"].filter((name) => card[name]).map((name) => h("div", h("dt", name), h("dd.mono", card[name])));
    const costs = cost ? [
      [t("grows"), card.grows], [t("fast form"), card.fast],
      [t("parameters at width 64"), brief(cost.params)], [t("work of a step"), `${scaled(cost.flops)} FLOPs`],
      [t("state after 1, 100, 1,000 steps"), ["1", "100", "1000"].map((steps) => scaled(cost.bytes[steps], "B")).join(" · ")],
    ].filter(([, text]) => text).map(([name, text]) => h("div", h("dt", name), h("dd", text))) : [];
    fill(about,
      h("header", h("h2", found.name, h("span.note.year", ` ${found.year}`)), h("p.change", found.change)),
      h("p.note", found.after.length ? [t("After"), " ", listed(found.after), ". "] : null, found.next.length ? [t("Then came"), " ", listed(found.next), "."] : null),
      h("p.row.unsaved",
        found.lanes.length ? h("a.button.main", { href: `#text?${new URLSearchParams({ lanes: found.lanes.join(",") })}` }, t("Try it in a lane")) : null,
        found.model !== null ? h("a.button", { href: `#start?${new URLSearchParams({ task: "text", model: found.model })}` }, t("Train one")) : null,
        h("a.button", { href: `#course?chapter=${found.chapter}` }, t("Chapter {number} of the course", { number: found.chapter }))),
      h("div.twofold",
        h("section", h("h3", t("What it is")), card.summary ? h("p", card.summary) : null, h("dl", lines)),
        costs.length ? h("section", h("h3", t("What it costs")), h("dl", costs)) : null),
      found.claims.length ? h("section", h("h3", t("What the books say, tried")), h("ul.claims", found.claims.map((claim) =>
        h("li", h(`span.badge.${claim.style}`, `${claim.sign} ${claim.verdict}`), h("span", ` ${claim.statement}`), h("details", h("summary", t("What was measured")), h("p.note", claim.summary)))))) : null,
      found.page.length ? h("details.layerpage", { open: params.page === "1" }, h("summary", t("Its page: {title}", { title: found.title })), found.page.map((each) => part(each, { t, figures: "" }))) : null);
    about.querySelector("details.layerpage")?.addEventListener("toggle", () => context.setState(state()));
    announce(`${found.name}: ${found.change}`);
  }

  const state = () => ({ layer: chosen, page: about.querySelector("details.layerpage")?.open ? "1" : "" });
  try {
    await Promise.all([drawMap(), describe()]);
  } catch (error) {
    if (chosen === "rnn") throw error;
    chosen = "rnn";
    await Promise.all([drawMap(), describe()]);
  }
  const resized = new ResizeObserver(() => Math.abs(map.clientWidth - drawnAt) > 40 && drawMap().catch(() => {}));
  resized.observe(map);
  return {
    unmount() {
      ended = true;
      resized.disconnect();
    },
    state,
  };
}
