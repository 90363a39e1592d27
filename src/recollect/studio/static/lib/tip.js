// One tooltip for the page: shown on hover and on focus, closed by Escape; what has it is described by it.

import { h } from "./dom.js";

const tip = h("div", { id: "tip", role: "tooltip", hidden: true });

function place(x, y) {
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${y + 18 + box.height > innerHeight ? Math.max(8, y - box.height - 10) : y + 18}px`;
}

export function showTip(text, x, y) {
  if (!tip.isConnected) document.body.append(tip);
  if (tip.textContent !== text) tip.textContent = text;
  place(x, y);
}

export function hideTip() {
  tip.hidden = true;
}

addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
addEventListener("scroll", hideTip, { passive: true, capture: true });

// `say(event)` returns the text for a place of the element, or nothing
export function explain(element, say) {
  const over = (event) => {
    const text = say(event);
    if (text) showTip(text, event.clientX, event.clientY);
    else hideTip();
  };
  element.addEventListener("pointermove", over);
  element.addEventListener("pointerleave", hideTip);
  element.addEventListener("blur", hideTip);
}
