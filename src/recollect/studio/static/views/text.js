// One text, read by every memory.

import { fill, h } from "../lib/dom.js";

export async function mount(root, params, context) {
  const { t, get } = context;
  const found = await get("/studio/text/runs");
  fill(root, h("h1", t("One text, every memory")), h("ul", found.runs.map((name) => h("li", name))));
  return { unmount() {}, state: () => params };
}
