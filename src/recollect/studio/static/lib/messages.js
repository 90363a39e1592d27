// `t` gives an English sentence with {places} filled in, in the language of the page. The catalogue comes from the .po file.

let known = {};
export let lang = "en";

export async function speak(code) {
  const response = await fetch(`/studio/static/messages.${code}.json`);
  known = response.ok ? await response.json() : {};
  lang = code;
  document.documentElement.lang = code === "zh" ? "zh-Hans" : "en";
}

export function t(text, values = {}) {
  const found = known[text] || text;
  return found.replace(/\{(\w+)[^{}]*\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}
