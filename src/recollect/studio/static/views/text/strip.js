// The time line: the characters of the text, and those of a branch below them, in cells of one width.

import { h } from "../../lib/dom.js";
import { t } from "../../lib/messages.js";
import { visible } from "./words.js";

export class Strip {
  constructor({ select, goBack, scrolled }) {
    this.rows = [0, 1].map((line) => h("div.letters", { "data-line": line, "aria-hidden": line ? "true" : null }));
    this.texts = ["", ""];
    this.at = 0;
    this.element = h(
      "div.strip",
      { role: "listbox", tabindex: 0, "aria-label": t("The text, character by character"), "aria-orientation": "horizontal" },
      this.rows,
    );
    this.element.addEventListener("click", (event) => {
      const letter = event.target.closest("[data-at]");
      if (letter) select(Number(letter.dataset.at));
    });
    this.element.addEventListener("scroll", () => scrolled(this.element.scrollLeft), { passive: true });
    this.element.addEventListener("keydown", (event) => {
      const length = this.texts[0].length;
      const moves = { ArrowLeft: this.at - 1, ArrowRight: this.at + 1, Home: 1, End: length, PageUp: this.at - 10, PageDown: this.at + 10 };
      if (event.key in moves && length) {
        event.preventDefault();
        select(Math.max(1, Math.min(length, moves[event.key])));
      } else if (event.key === "Enter" && this.at) {
        event.preventDefault();
        goBack();
      }
    });
  }

  set(line, text, from = 0) {
    const row = this.rows[line];
    const before = this.texts[line];
    let same = 0;
    while (same < text.length && same < before.length && text[same] === before[same]) same += 1;
    while (row.childElementCount > same) row.lastElementChild.remove();
    for (let i = same; i < text.length; i++) {
      row.append(h("span.letter", line ? { "data-at": i + 1 } : { "data-at": i + 1, role: "option", id: `letter-${i + 1}`, "aria-selected": "false", "aria-label": named(text[i]) }, visible(text[i])));
    }
    this.texts[line] = text;
    row.hidden = line === 1 && !text;
    if (line) [...row.children].forEach((each, i) => each.classList.toggle("shared", i < from));
  }

  mark(at) {
    for (const row of this.rows) for (const each of row.querySelectorAll(".chosen")) each.classList.remove("chosen");
    this.rows[0].querySelector('[aria-selected="true"]')?.setAttribute("aria-selected", "false");
    this.at = at;
    const chosen = this.rows[0].children[at - 1];
    if (!chosen) {
      this.element.removeAttribute("aria-activedescendant");
      return;
    }
    chosen.setAttribute("aria-selected", "true");
    chosen.classList.add("chosen");
    this.rows[1].children[at - 1]?.classList.add("chosen");
    this.element.setAttribute("aria-activedescendant", chosen.id);
  }

  show(at, cell) {
    const { scrollLeft, clientWidth } = this.element;
    const x = at * cell;
    if (x > scrollLeft + clientWidth - cell) this.element.scrollLeft = x - clientWidth + 3 * cell;
    else if (x - cell < scrollLeft) this.element.scrollLeft = Math.max(0, x - 3 * cell);
  }
}

const named = (letter) => (letter === " " ? t("blank") : letter === "\n" ? t("new line") : letter);
