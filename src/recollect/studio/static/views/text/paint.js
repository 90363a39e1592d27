// Drawing of lanes: only what the time line shows of them, so that a long text costs no more than a short one.

import { colour, palette, rgb } from "../../lib/colour.js";

export function prepare(canvas, width, height) {
  const ratio = Math.min(2, devicePixelRatio || 1);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

const byteOf = (value, low, high) => Math.max(0, Math.min(255, Math.round(((value - low) * 255) / (high - low || 1))));

// A small image of rows × columns, whose number at (row, column) is `at(row, column)`; NaN is left open
export function imageOf(rows, columns, at, { kind, low, high, tone }) {
  const table = palette(kind, tone);
  const image = new ImageData(Math.max(1, columns), Math.max(1, rows));
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const value = at(row, column);
      if (Number.isNaN(value)) continue;
      const level = 3 * byteOf(value, low, high);
      const place = 4 * (row * columns + column);
      image.data[place] = table[level];
      image.data[place + 1] = table[level + 1];
      image.data[place + 2] = table[level + 2];
      image.data[place + 3] = 255;
    }
  }
  const small = new OffscreenCanvas(image.width, image.height);
  small.getContext("2d").putImageData(image, 0, 0);
  return small;
}

export function drawImage(pen, image, x, y, width, height) {
  pen.imageSmoothingEnabled = false;
  pen.drawImage(image, x, y, width, height);
}

export function frameColumn(pen, x, width, height) {
  pen.strokeStyle = colour("ink");
  pen.lineWidth = 1;
  pen.strokeRect(Math.round(x) + 0.5, 0.5, width - 1, height - 1);
}

// Bars of surprise, in bits, under each character; those of a branch are hollow
export function drawBars(pen, columns, spans, view, cell, height, tone, most, hollow) {
  const [r, g, b] = rgb(colour(tone));
  for (let i = 0; i < columns.length; i++) {
    const from = i ? columns.ends[i - 1] : 0;
    const x = from * cell - view.scroll;
    const wide = (columns.ends[i] - from) * cell;
    if (x + wide < 0 || x > view.width) continue;
    const bits = columns.surprise[i];
    if (Number.isNaN(bits)) continue;
    const tall = Math.max(1, (Math.min(bits, most) / most) * (height - 2));
    const ink = `rgba(${r},${g},${b},${0.35 + 0.65 * Math.min(1, bits / most)})`;
    if (hollow) {
      pen.strokeStyle = ink;
      pen.lineWidth = 1.5;
      pen.strokeRect(x + 1.75, height - tall + 0.75, Math.max(1, wide - 3.5), tall);
      continue;
    }
    pen.fillStyle = ink;
    pen.fillRect(x + 1, height - tall, Math.max(1, wide - 2), tall);
  }
  pen.strokeStyle = colour("rule");
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(0, height - 0.5);
  pen.lineTo(Math.min(view.width, Math.max(0, spans * cell - view.scroll)), height - 0.5);
  pen.stroke();
}
