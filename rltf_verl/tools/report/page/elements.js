// Elements and texts of models. Text reaches the page as text nodes, never as markup.

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

export function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export function table(head, lines, label) {
  const cells = (tag, line) =>
    line.map((cell) => el(tag, tag === "th" ? { scope: "col" } : {}, String(cell)));
  return el(
    "div",
    { class: "wide", tabindex: 0, role: "region", "aria-label": label },
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, ...cells("th", head))),
      el("tbody", {}, ...lines.map((line) => el("tr", {}, ...cells("td", line)))),
    ),
  );
}

// Control characters, and those that turn the direction of what follows.
const UNSEEN =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

// They are shown instead of obeyed.
export function visible(text) {
  const codeOf = (c) => c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
  return String(text).replace(UNSEEN, (c) => `[U+${codeOf(c)}]`);
}

const LONG_TEXT = 4000; // characters; of a longer text only the ends are shown at first
const END = 1000; // characters of either end

export function textBox(text, ...children) {
  return el("pre", {}, ...(children.length ? children : folded(text)));
}

// Nodes of a text; in place of the middle of a long one a button that shows it.
export function folded(text) {
  if (text.length <= LONG_TEXT) return [visible(text)];
  const from = beforePair(text, END);
  const to = beforePair(text, text.length - END);
  const button = el("button", { type: "button", class: "fold" }, `show ${to - from} characters`);
  button.addEventListener("click", () => button.replaceWith(visible(text.slice(from, to))));
  return [visible(text.slice(0, from)), button, visible(text.slice(to))];
}

// A position that does not split a surrogate pair.
function beforePair(text, at) {
  return (text.charCodeAt(at) & 0xfc00) === 0xdc00 ? at - 1 : at;
}
