// A map of numbers on a canvas: rows × columns, coloured, with a scale beside it and its values by pointer and keys.

import { h } from "./dom.js";
import { palette } from "./colour.js";
import { explain, hideTip, showTip } from "./tip.js";
import { short } from "./numbers.js";

// heatmap({label, kind: "diverging"|"sequential", colour, cell: [w, h], say(row, column, value), pick(row, column)})
// .set({data, rows, columns, low, high}) draws; .mark(column, row) frames one.
export function heatmap({ label, kind = "sequential", colour, cell = [6, 4], least = 0, say, pick }) {
  const canvas = h("canvas.map", { tabindex: 0, role: pick ? "application" : "img", "aria-label": label });
  let now = { rows: 0, columns: 0, data: null, low: 0, high: 1 };
  let at = [0, 0];
  let marked = null;
  const pen = canvas.getContext("2d");

  function draw() {
    const { rows, columns, data, low, high } = now;
    const ratio = 1;
    const wide = Math.max(1, columns);
    const tall = Math.max(1, rows);
    const across = cell[0];
    canvas.width = wide * across * ratio;
    canvas.height = tall * cell[1] * ratio;
    canvas.style.width = `${Math.max(least, wide * across)}px`;
    canvas.style.height = `${tall * cell[1]}px`;
    if (!data || !rows || !columns) return;
    const table = palette(kind, colour);
    const image = new ImageData(columns, rows);
    const scale = 255 / (high - low || 1);
    for (let i = 0; i < rows * columns; i++) {
      const level = Math.max(0, Math.min(255, Math.round((data[i] - low) * scale))) || 0;
      image.data[4 * i] = table[3 * level];
      image.data[4 * i + 1] = table[3 * level + 1];
      image.data[4 * i + 2] = table[3 * level + 2];
      image.data[4 * i + 3] = 255;
    }
    const small = new OffscreenCanvas(columns, rows);
    small.getContext("2d").putImageData(image, 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(small, 0, 0, canvas.width, canvas.height);
    if (marked) {
      pen.strokeStyle = getComputedStyle(canvas).color;
      pen.lineWidth = 1.5;
      const [column, row] = marked;
      pen.strokeRect(column * across + 0.5, (row ?? 0) * cell[1] + 0.5, across - 1, (row === undefined ? tall : 1) * cell[1] - 1);
    }
  }

  function find(event) {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * now.columns);
    const row = Math.floor(((event.clientY - box.top) / box.height) * now.rows);
    return row >= 0 && row < now.rows && column >= 0 && column < now.columns ? [row, column] : null;
  }

  const describe = ([row, column]) => {
    const value = now.data[row * now.columns + column];
    return say ? say(row, column, value) : `${row}, ${column}: ${short(value)}`;
  };
  explain(canvas, (event) => {
    const found = find(event);
    return found && describe(found);
  });
  canvas.addEventListener("click", (event) => {
    const found = find(event);
    if (found && pick) pick(...found);
  });
  const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  canvas.addEventListener("keydown", (event) => {
    if (!now.rows || !now.columns) return;
    const move = MOVES[event.key];
    if (move) {
      at = [Math.max(0, Math.min(now.rows - 1, at[0] + move[0])), Math.max(0, Math.min(now.columns - 1, at[1] + move[1]))];
      const box = canvas.getBoundingClientRect();
      const text = describe(at);
      showTip(text, box.left + ((at[1] + 0.5) * box.width) / now.columns, box.top + ((at[0] + 0.5) * box.height) / now.rows);
      canvas.setAttribute("aria-label", `${label}: ${text}`);
      event.preventDefault();
      event.stopPropagation();
    } else if (event.key === "Enter" && pick) {
      pick(...at);
      event.preventDefault();
    }
  });
  canvas.addEventListener("blur", hideTip);
  const redraw = () => draw();
  document.addEventListener("themechange", redraw);
  return {
    element: canvas,
    set(values) {
      now = { ...now, ...values };
      at = [Math.min(at[0], Math.max(0, now.rows - 1)), Math.min(at[1], Math.max(0, now.columns - 1))];
      draw();
    },
    mark(column, row) {
      marked = column === null || column === undefined ? null : [column, row];
      draw();
    },
    resize(across, down) {
      cell = [across, down];
      draw();
    },
    end: () => document.removeEventListener("themechange", redraw),
  };
}

// The scale of maps: a strip of the palette with the numbers at its ends
export function scale({ kind = "sequential", colour, low, high, label }) {
  let drawn = false;
  const strip = h("canvas.ramp", { "aria-hidden": "true", width: 64, height: 8 });
  const draw = () => {
    if (drawn && !strip.isConnected) {
      document.removeEventListener("themechange", draw);
      return;
    }
    drawn = true;
    const table = palette(kind, colour);
    const pen = strip.getContext("2d");
    for (let x = 0; x < 64; x++) {
      const i = Math.round((x * 255) / 63);
      pen.fillStyle = `rgb(${table[3 * i]},${table[3 * i + 1]},${table[3 * i + 2]})`;
      pen.fillRect(x, 0, 1, 8);
    }
  };
  draw();
  document.addEventListener("themechange", draw);
  return h("span.scale", label ? `${label} ` : null, h("span.n", String(low)), strip, h("span.n", String(high)));
}
