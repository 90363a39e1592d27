// Pages that the server made of Markdown: parts as elements. Their HTML is the package's own, and holds no script.

import { h, svg } from "./dom.js";

export function html(text, tag = "div") {
  const parsed = new DOMParser().parseFromString(text, "text/html");
  for (const each of parsed.querySelectorAll("script, style, iframe, object, link, meta")) each.remove();
  const place = h(`${tag}.prose`);
  for (const table of parsed.querySelectorAll("table")) {
    const scroll = parsed.createElement("div");
    scroll.className = "scroll";
    table.replaceWith(scroll);
    scroll.append(table);
  }
  place.append(...[...parsed.body.childNodes].map((each) => document.importNode(each, true)));
  return place;
}

// `codeOf(part)` draws a piece of code that can be run
export function part(about, { t, figures, codeOf }) {
  if (about.kind === "text") return html(about.html);
  if (about.kind === "formula") return h("div.formula.scroll", { tabindex: "0", role: "region", "aria-label": t("Formula") }, html(about.html, "div"));
  if (about.kind === "figure") return h("figure", h("img.figure", { src: `${figures}${encodeURIComponent(about.file)}`, alt: about.caption, loading: "lazy" }), h("figcaption.note", about.caption));
  if (about.kind === "answer") return h("details.answer", h("summary", about.summary), html(about.html));
  if (about.kind === "printed") return h("pre.printed", { tabindex: "0" }, about.text);
  return codeOf ? codeOf(about) : h("pre.code", { tabindex: "0" }, about.text);
}

export { svg };
