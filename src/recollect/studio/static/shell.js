// The frame of every view: menu, language, theme, the link that reopens what is seen, and the view as a file.
//
// A view is a module views/NAME.js with mount(root, params, context) → {unmount(), state()}. `params` are strings, as
// the link has them; `context` is {get, post, remove, stream, t, lang, setState(params), announce(text), problem(error)}.

import { fill, h } from "./lib/dom.js";
import { get, post, remove, stream, Refused } from "./lib/http.js";
import { lang, speak, t } from "./lib/messages.js";
import { isDark, setColours } from "./lib/colour.js";
import { hideTip } from "./lib/tip.js";
import { saveView } from "./lib/save.js";

const KEYS = { theme: "recollect-theme", lang: "recollect-lang" };
const main = document.getElementById("main");
const said = document.getElementById("said");
const problem = document.getElementById("problem");
const skip = document.getElementById("skip");
let about = null;
let shown = null; // {name, view, lang}
let opening = 0;

function announce(text) {
  said.textContent = text;
}

function showProblem(error) {
  if (error && error.name === "AbortError") return;
  const text = error instanceof Error ? error.message : String(error);
  if (!(error instanceof Refused) && error instanceof Error) console.error(error);
  fill(problem, h("span", text), h("button.quiet", { type: "button", on: { click: clearProblem }, "aria-label": t("Close") }, "×"));
  problem.hidden = false;
}

function clearProblem() {
  problem.hidden = true;
}

// #name?key=value&…
export function readHash(hash) {
  const [name, ...rest] = hash.replace(/^#/, "").split("?");
  return { name: decodeURIComponent(name), params: Object.fromEntries(new URLSearchParams(rest.join("?"))) };
}

export function writeHash(name, params) {
  const given = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
  return `#${encodeURIComponent(name)}${query ? `?${query}` : ""}`;
}

function contextOf(name, turn) {
  const guarded = (call) => async (...given) => {
    try {
      const found = await call(...given);
      return found;
    } catch (error) {
      showProblem(error);
      throw error;
    }
  };
  return {
    get: guarded(get),
    post: guarded(post),
    remove: guarded(remove),
    stream: guarded(stream),
    t,
    lang,
    about,
    announce,
    problem: showProblem,
    clearProblem,
    setState(params) {
      if (turn !== opening) return; // another view was opened meanwhile
      const hash = writeHash(name, params);
      if (hash !== location.hash) history.replaceState(null, "", hash);
    },
    go: (view, params = {}) => (location.hash = writeHash(view, params)),
  };
}

async function open() {
  const turn = ++opening;
  const { name: asked, params } = readHash(location.hash);
  const name = about.views.some((view) => view.name === asked) ? asked : about.views[0].name;
  if (shown) shown.view.unmount();
  shown = null;
  hideTip();
  clearProblem();
  for (const link of document.querySelectorAll("#views a")) {
    if (link.dataset.name === name) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "center" }); // on a phone the menu scrolls
    } else link.removeAttribute("aria-current");
  }
  const view = about.views.find((each) => each.name === name);
  document.title = `${t(view.title)} · recollect`;
  for (const link of document.querySelectorAll("link[data-views]")) {
    link.media = link.dataset.views.split(" ").includes(name) ? "all" : "not all";
  }
  const root = h(`section.view.${name}`, { "aria-busy": "true" });
  fill(main, root);
  const module = await import(`./views/${name}.js`);
  if (turn !== opening) return;
  try {
    const made = await module.mount(root, params, contextOf(name, turn));
    if (turn !== opening) made.unmount();
    else shown = { name, view: made };
  } catch (error) {
    showProblem(error);
  } finally {
    root.removeAttribute("aria-busy");
  }
}

function currentLink() {
  const { name } = readHash(location.hash);
  const view = shown ? shown.name : name;
  return `${location.origin}/${writeHash(view, shown ? shown.view.state() : {})}`;
}

async function copyLink() {
  const link = currentLink();
  history.replaceState(null, "", link.slice(location.origin.length + 1));
  try {
    await navigator.clipboard.writeText(link);
    announce(t("The link that reopens this view was copied."));
  } catch {
    announce(t("The address of the page is the link that reopens this view."));
  }
  flash(document.getElementById("copy"));
}

function flash(button) {
  button.classList.add("done");
  setTimeout(() => button.classList.remove("done"), 1200);
}

async function keepView() {
  try {
    await saveView(shown ? shown.name : "view");
    announce(t("The view was saved as one file."));
    flash(document.getElementById("save"));
  } catch (error) {
    showProblem(error);
  }
}

function setTheme(dark) {
  document.documentElement.style.colorScheme = dark ? "dark" : "light";
  try {
    localStorage.setItem(KEYS.theme, dark ? "dark" : "light");
  } catch {
    // a browser that keeps nothing
  }
  drawTop();
  document.dispatchEvent(new Event("themechange"));
}

async function setLanguage(code) {
  const state = shown ? { name: shown.name, params: shown.view.state() } : null;
  await speak(code);
  try {
    localStorage.setItem(KEYS.lang, code);
  } catch {
    // a browser that keeps nothing
  }
  if (state) history.replaceState(null, "", writeHash(state.name, state.params));
  drawTop();
  await open();
}

const NAMES = { en: "English", zh: "中文" };

function drawTop() {
  const focused = document.activeElement && document.activeElement.id;
  const dark = isDark();
  skip.textContent = t("Skip to the content");
  fill(
    document.getElementById("top"),
    h("a.brand", { href: `#${about.views[0].name}` }, h("img", { src: "/studio/static/icon.svg", alt: "", width: 22, height: 22 }), "recollect"),
    h(
      "nav",
      { id: "views", "aria-label": t("Views") },
      about.views.map((view) => h("a", { href: `#${view.name}`, "data-name": view.name, "aria-current": readHash(location.hash).name === view.name ? "page" : null }, t(view.title))),
    ),
    h(
      "div.tools.unsaved",
      { role: "group", "aria-label": t("Page") },
      h("button.quiet", { id: "copy", type: "button", on: { click: copyLink } }, t("Copy link")),
      h("button.quiet", { id: "save", type: "button", on: { click: keepView } }, t("Save view")),
      about.languages.filter((code) => code !== lang).map((code) =>
        h("button.quiet", { id: `lang-${code}`, type: "button", lang: code === "zh" ? "zh-Hans" : code, on: { click: () => setLanguage(code) } }, NAMES[code] || code),
      ),
      h("button.quiet", { id: "theme", type: "button", on: { click: () => setTheme(!isDark()) } }, dark ? t("Light page") : t("Dark page")),
    ),
  );
  if (focused && document.getElementById(focused)) document.getElementById(focused).focus();
}

function stored(key, allowed) {
  try {
    const found = localStorage.getItem(KEYS[key]);
    return allowed.includes(found) ? found : null;
  } catch {
    return null;
  }
}

// Ctrl+digit and Alt+digit belong to browsers: g and a digit open a view, where nothing is being typed
let before = "";
function onKey(event) {
  const typing = event.target.closest("input, textarea, select, canvas, [contenteditable]");
  if (typing || event.ctrlKey || event.altKey || event.metaKey) return;
  if (before === "g" && /^[1-9]$/.test(event.key) && about.views[event.key - 1]) location.hash = `#${about.views[event.key - 1].name}`;
  before = event.key;
}

async function start() {
  try {
    about = await get("/studio/about");
  } catch (error) {
    showProblem(error);
    return;
  }
  setColours(about);
  const theme = stored("theme", ["light", "dark"]);
  if (theme) document.documentElement.style.colorScheme = theme;
  await speak(stored("lang", about.languages) || about.lang);
  drawTop();
  skip.addEventListener("click", () => main.focus());
  addEventListener("hashchange", open);
  addEventListener("keydown", onKey);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    drawTop();
    document.dispatchEvent(new Event("themechange"));
  });
  await open();
}

start();
