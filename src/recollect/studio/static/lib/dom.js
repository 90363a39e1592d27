// Elements without markup in strings: nothing that a run or a text holds can become an element.

// h("p.note", {on: {click}, style: {width: "3px"}, "aria-label": "…"}, "text", child, [more])
export function h(tag, props, ...children) {
  const [name, ...classes] = tag.split(".");
  const made = document.createElement(name || "div");
  if (classes.length) made.className = classes.join(" ");
  const given = props && typeof props === "object" && !(props instanceof Node) && !Array.isArray(props) ? props : null;
  if (given) {
    for (const [key, value] of Object.entries(given)) {
      if (value === undefined || value === null || value === false) continue;
      if (key === "on") for (const [event, handler] of Object.entries(value)) made.addEventListener(event, handler);
      else if (key === "style") for (const [each, to] of Object.entries(value)) made.style.setProperty(each, to);
      else if (key in PROPERTIES) made[key] = value;
      else made.setAttribute(key, value === true ? "" : String(value));
    }
    append(made, children);
  } else append(made, [props, ...children]);
  return made;
}

const PROPERTIES = { value: 1, checked: 1, disabled: 1, hidden: 1, textContent: 1, htmlFor: 1, selected: 1, width: 1, height: 1, tabIndex: 1 };

function append(place, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) place.append(child);
  }
}

export function fill(place, ...children) {
  place.replaceChildren();
  append(place, children);
  return place;
}

// SVG that the server drew, as an element; its scripts, if somebody planted one, are not taken over.
export function svg(text) {
  const parsed = new DOMParser().parseFromString(text, "text/html").querySelector("svg");
  for (const script of parsed.querySelectorAll("script")) script.remove();
  return document.importNode(parsed, true);
}

// Calls with the newest arguments, at most once a picture of the screen.
export function onFrame(draw) {
  let waiting = 0;
  let last;
  const call = (...given) => {
    last = given;
    waiting ||= requestAnimationFrame(() => {
      waiting = 0;
      draw(...last);
    });
  };
  call.cancel = () => {
    cancelAnimationFrame(waiting);
    waiting = 0;
  };
  return call;
}
