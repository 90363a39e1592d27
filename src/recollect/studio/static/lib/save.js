// The view as one file: the elements as they stand, the styles, canvases as pictures. It needs no server and no script.

const DROPPED = "#skip, #said, #problem, #tip, .unsaved, script";

async function styles() {
  const sheets = [...document.querySelectorAll('link[rel="stylesheet"]')].filter((link) => link.media !== "not all");
  return (await Promise.all(sheets.map(async (link) => (await fetch(link.href)).text()))).join("\n");
}

// A picture that the page has loaded, as data
async function asData(address) {
  if (!address || address.startsWith("data:")) return address;
  const blob = await (await fetch(address)).blob();
  return new Promise((done) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.readAsDataURL(blob);
  });
}

export async function saveView(title) {
  const copy = document.documentElement.cloneNode(true);
  const images = [...document.querySelectorAll("img")].map((image) => asData(image.currentSrc || image.src));
  for (const [i, image] of [...copy.querySelectorAll("img")].entries()) image.src = await images[i];
  const drawn = document.querySelectorAll("canvas");
  copy.querySelectorAll("canvas").forEach((place, i) => {
    const image = document.createElement("img");
    image.src = drawn[i].toDataURL("image/png");
    image.alt = drawn[i].getAttribute("aria-label") || "";
    image.className = place.className;
    image.style.cssText = place.style.cssText;
    place.replaceWith(image);
  });
  const fields = document.querySelectorAll("input, textarea, select");
  copy.querySelectorAll("input, textarea, select").forEach((place, i) => {
    const field = fields[i];
    if (field.type === "checkbox" || field.type === "radio") place.toggleAttribute("checked", field.checked);
    else if (place.localName === "textarea") place.textContent = field.value;
    else if (place.localName === "select") [...place.options].forEach((each, j) => each.toggleAttribute("selected", j === field.selectedIndex));
    else place.setAttribute("value", field.value);
    place.setAttribute("disabled", "");
  });
  copy.querySelectorAll(DROPPED).forEach((each) => each.remove());
  copy.querySelectorAll("link, meta[http-equiv]").forEach((each) => each.remove());
  copy.querySelectorAll("button").forEach((each) => each.setAttribute("disabled", ""));
  copy.querySelectorAll("a[href^='#']").forEach((each) => each.removeAttribute("href"));
  const head = copy.querySelector("head");
  const policy = document.createElement("meta");
  policy.httpEquiv = "Content-Security-Policy";
  policy.content = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
  const style = document.createElement("style");
  style.textContent = await styles();
  const icon = document.createElement("link");
  icon.rel = "icon";
  icon.href = "data:,";
  head.prepend(policy);
  head.append(icon, style);
  copy.classList.add("saved");
  const blob = new Blob([`<!doctype html>\n${copy.outerHTML}`], { type: "text/html" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `recollect-${title}.html`;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
