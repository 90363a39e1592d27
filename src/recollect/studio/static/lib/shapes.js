// Elements of SVG, as `h` of dom.js makes those of HTML.

const SPACE = "http://www.w3.org/2000/svg";

// shape("path.line", {d: "…", on: {click}}, children)
export function shape(tag, props = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const made = document.createElementNS(SPACE, name);
  if (classes.length) made.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "on") for (const [event, handler] of Object.entries(value)) made.addEventListener(event, handler);
    else if (key === "style") for (const [each, to] of Object.entries(value)) made.style.setProperty(each, to);
    else made.setAttribute(key, typeof value === "number" ? String(Math.round(value * 100) / 100) : value);
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined && child !== false) made.append(child);
  return made;
}

// A polyline through the points that are numbers, broken where one is not
export function path(points) {
  let pen = false;
  let found = "";
  for (const [x, y] of points) {
    if (!Number.isFinite(x) || !Number.isFinite(y)) pen = false;
    else {
      found += `${pen ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
      pen = true;
    }
  }
  return found;
}

// About `count` round numbers from low to high
export function ticks(low, high, count = 5) {
  const raw = (high - low) / Math.max(1, count);
  if (!(raw > 0)) return [low];
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].find((each) => each * size >= raw * 0.999) * size;
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}
