// Numbers as people read them.

export function bytes(count) {
  if (count < 1000) return `${Math.round(count)} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let value = count;
  let unit = -1;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value.toPrecision(3).replace(/\.?0+$/, "")} ${units[unit]}`;
}

export function large(count) {
  const units = ["", "k", "M", "G", "T", "P"];
  let value = count;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return unit ? `${value.toPrecision(3).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "")} ${units[unit]}` : String(Math.round(value));
}

export const percent = (share) => (share >= 0.0995 ? `${Math.round(100 * share)} %` : `${(100 * share).toPrecision(2)} %`);

export const short = (value) => {
  const size = Math.abs(value);
  const sign = value < 0 ? "−" : "";
  if (size === 0) return "0";
  if (size >= 100) return `${sign}${size.toFixed(0)}`;
  if (Number.isInteger(size)) return `${sign}${size}`;
  if (size >= 1) return `${sign}${size.toFixed(2)}`;
  return `${sign}${size >= 0.001 ? trimmed(size.toFixed(3)) : size.toExponential(1)}`;
};

const trimmed = (text) => text.replace(/0+$/, "").replace(/\.$/, "");
