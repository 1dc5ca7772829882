// The text of a row token by token, coloured by one of its numbers.

import { el, visible } from "../elements.js";
import { decimal, signed } from "../numbers.js";
import { state } from "../state.js";
import { moveAmong } from "./keys.js";
import { classOfToken, largestAdvantage, legendSwatches, measureChoice } from "./scale.js";

const LONG_TOKEN = 1000; // characters; no marks in a longer one
const MOST_READ_OUT = 60; // characters of a token under the pointer
const PIECE = 300; // tokens after which a new piece of the text begins; the browser lays out only
// pieces in sight

// `rows`: per box the columns of its tokens, null where the log has none. A row that lacks its middle
// says in `left_out` at which position, how many tokens, and what to show there.
export function showTokens(section, boxes, rows) {
  const painters = rows.map((row, i) => row && fillRow(boxes[i], row, i)).filter(Boolean);
  const most = largestAdvantage(rows.filter(Boolean));
  const legend = el("p", { class: "scale" });
  const paint = () => {
    legend.replaceChildren(...legendSwatches(most));
    for (const paintRow of painters) paintRow(most);
  };
  section.firstChild.after(measureChoice(paint), legend);
  paint();
}

// Fills a row's box; returns what colours its tokens.
function fillRow(box, row, i) {
  const help = "Point at a token, or move with the arrow keys.";
  const readout = el("p", { class: "readout", role: "status" }, help);
  const text = el("div", {
    class: "tokens",
    tabindex: 0,
    role: "application",
    "aria-label": `Row ${i + 1}, token by token; arrow keys move`,
  });
  const spans = row.text.map(tokenSpan);
  const positions = new Map(spans.map((span, k) => [span, k]));
  const positionOf = (node) => positions.get(node.closest(".t"));
  const tell = (k) => {
    readout.textContent = inNumbers(row, k);
  };
  text.append(...textPieces(spans, row));
  box.append(readout, text);
  text.addEventListener("pointerover", (event) => {
    const k = positionOf(event.target);
    if (k !== undefined) tell(k);
  });
  moveAmong(text, spans, positionOf, tell);
  return (most) =>
    spans.forEach((span, k) => {
      span.className = classOfToken(row, k, most);
    });
}

// A piece ends where a line does, or else at some white space: a line that breaks without a ↵ is
// one that goes on.
function textPieces(spans, { text, left_out: leftOut }) {
  const pieces = [];
  let from = 0;
  for (let k = 1; k <= spans.length; k++) {
    const size = k - from;
    const atLineEnd = size >= PIECE && text[k - 1].endsWith("\n");
    const atSpace = size >= 3 * PIECE && /^\s/.test(text[k] || " ");
    const atGap = k === leftOut?.at;
    if (!atLineEnd && !atSpace && !atGap && k < spans.length) continue;
    pieces.push(el("div", { dir: "auto" }, ...spans.slice(from, k)));
    if (atGap) pieces.push(el("p", { class: "left-out" }, leftOut.note));
    from = k;
  }
  return pieces;
}

// Line ends, tabs, and tokens without a text of their own have a mark to be seen by. It is drawn by
// the style: no text.
function tokenSpan(text) {
  if (text === "") return el("span", {}, mark("◌"));
  const parts = text.length > LONG_TOKEN ? [text] : text.split(/([\n\t])/).filter(Boolean);
  return el("span", {}, ...parts.flatMap(withMark));
}

function withMark(text) {
  if (text === "\n") return [mark("↵"), text];
  return text === "\t" ? [mark("⇥"), text] : [visible(text)];
}

function mark(sign) {
  return el("i", { "data-mark": sign, "aria-hidden": true });
}

function inNumbers(row, k) {
  const isContext = row.role[k] < 0;
  const role = Object.keys(state.index.roles)[row.role[k]] || "custom objective";
  const numbers = [
    `advantage ${signed(row.advantage[k])}`,
    `log\u2011prob ${decimal(row.log_prob[k])}`,
    `gap ${signed(row.gap[k])}`,
  ];
  const facts = [placeOf(row, k), quoted(row.text[k])];
  if (isContext) facts.push("context, trains nothing");
  else facts.push(role, ...numbers);
  if (row.masked[k]) facts.push("masked: below the floor");
  return facts.join(" · ");
}

function placeOf({ text, left_out: leftOut }, k) {
  const missing = leftOut?.number ?? 0;
  const before = missing && k >= leftOut.at ? missing : 0;
  return `token ${before + k + 1} of ${text.length + missing}`;
}

function quoted(text) {
  const begin = JSON.stringify(visible(text.slice(0, MOST_READ_OUT)));
  return text.length > MOST_READ_OUT ? `${begin} …` : begin;
}
