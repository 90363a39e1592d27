// The colours of the page as numbers, for canvases. They are those of the report's drawings.

let colours = {};
let signs = {};
let looks = {};

export function setColours(about) {
  ({ colours, signs, looks } = about);
}

export const isDark = () => {
  const chosen = document.documentElement.style.colorScheme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

// "ink", "paper", "series-0" … as #rrggbb in the theme that is shown
export const colour = (name) => colours[name][isDark() ? 1 : 0];

// The colour of a model: the same as in every figure
export const colourOf = (model) => `series-${looks[model] ? looks[model][0] : 9}`;
export const variableOf = (model) => `var(--${colourOf(model)})`;

export function rgb(hex) {
  const value = parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

const tables = new Map();

// 256 colours as bytes r g b: "diverging" from below (−1) over paper (0) to above (1), "sequential" from paper (0) to 1
export function palette(kind, end) {
  const paper = rgb(colour("paper"));
  const key = `${kind} ${end || ""} ${paper}`;
  if (!tables.has(key)) {
    const found = new Uint8ClampedArray(256 * 3);
    const top = end ? rgb(colour(end)) : signs.above;
    for (let i = 0; i < 256; i++) {
      const share = kind === "diverging" ? Math.abs(i - 127.5) / 127.5 : i / 255;
      const target = kind === "diverging" && i < 127.5 ? signs.below : top;
      for (let c = 0; c < 3; c++) found[3 * i + c] = paper[c] + (target[c] - paper[c]) * share ** 0.8;
    }
    tables.set(key, found);
  }
  return tables.get(key);
}
