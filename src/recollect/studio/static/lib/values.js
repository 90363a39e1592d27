// Values of runs as people read them.

export const MISSING = "–";

// 1,234 · 0.01234 · 1.2e-7 · 3.4M
export function brief(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return MISSING;
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return value.toExponential(2);
  if (size >= 1e6) return scaled(value);
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  return String(Number(value.toPrecision(size >= 1000 ? 6 : 4)));
}

// 830 · 12.3k · 4.5M
export function scaled(value, unit = "") {
  if (value === null || value === undefined || !Number.isFinite(value)) return MISSING;
  for (const [bound, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(value) >= bound) return `${Number((value / bound).toPrecision(3))}${unit ? ` ${name}${unit}` : name}`;
  }
  return `${Number(value.toPrecision(3))}${unit && ` ${unit}`}`;
}

// 3 s · 4:05 · 2:01:10
export function clock(seconds) {
  if (seconds === null || seconds === undefined) return MISSING;
  const whole = Math.floor(seconds);
  if (whole < 60) return `${whole} s`;
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (n) => String(n).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

// the figure of validation, which training lowers: what is counted upwards is kept with its sign turned
export function measured(run) {
  if (run.value === null || run.value === undefined) return MISSING;
  const turned = (run.metric || "").startsWith("minus_");
  return brief(turned ? -run.value : run.value);
}

export const metricName = (run) => (run.metric || "").replace(/^minus_/, "");
