// The text of a row token by token, coloured by one of its numbers.

const NATS = [0.1, 0.5, 1, 2, 5];  // where one colour of gaps and log-probs ends and the next begins
const LEVELS = 4;  // colours of advantages on either side of 0
const MEASURES = {
  advantage: { label: "advantage", level: (row, k, most) => ofAdvantage(row.advantage[k], most), scale: advantageScale },
  gap: { label: "log\u2011prob gap", level: (row, k) => ofNats(Math.abs(row.gap[k])), scale: () => natsScale("±", "gap") },
  log_prob: { label: "log\u2011prob", level: (row, k) => ofNats(-row.log_prob[k]), scale: () => natsScale("−", "log\u2011prob") },
};
const MOST_MARKS = 1000;
const PIECE = 300;  // tokens after which a new piece of the text begins; the browser lays out only pieces in sight
let measure = "advantage";

// `rows`: per box the columns of its tokens, null where nobody knows them.
function showTokens(section, boxes, rows) {
  const painters = rows.map((row, i) => row && tokenRow(boxes[i], row, i)).filter(Boolean);
  const most = rows.filter(Boolean).reduce((m, row) => row.advantage.reduce((n, a) => Math.max(n, Math.abs(a) || 0), m), 0);
  const legend = el("p", { class: "scale" });
  const choice = el("fieldset", { class: "measures" }, el("legend", {}, "Colour tokens by"), ...Object.entries(MEASURES).map(radio));
  const paint = () => {
    legend.replaceChildren(...MEASURES[measure].scale(most), swatch("masked", "masked: below the log\u2011prob floor, trains nothing"),
      swatch("context", "context: trains nothing"));
    for (const one of painters) one(most);
  };
  choice.addEventListener("change", (event) => { measure = event.target.value; paint(); });
  section.firstChild.after(choice, legend);
  paint();
}

function radio([name, { label }]) {
  const input = el("input", { type: "radio", name: "measure", value: name });
  input.checked = name === measure;
  return el("label", {}, input, ` ${label}`);
}

function ofAdvantage(advantage, most) {
  if (!(Math.abs(advantage) > 0)) return "zero";
  return `${advantage > 0 ? "p" : "n"}${Math.ceil(LEVELS * Math.abs(advantage) / most)}`;
}

function ofNats(nats) {
  const at = NATS.findIndex((bound) => nats < bound);
  return `s${at < 0 ? NATS.length : at}`;
}

function swatch(level, told) {
  return el("span", { class: `t ${level}` }, told);
}

function advantageScale(most) {
  if (!most) return [swatch("zero", "advantage 0")];
  const bound = (k) => decimal(Number((most * k / LEVELS).toPrecision(2)));
  const side = (name, sign) => [...Array(LEVELS).keys()].map((k) => swatch(`${name}${k + 1}`, `${k ? sign : ""}${bound(k)} to ${sign}${bound(k + 1)}`));
  return [...side("n", "−").reverse(), swatch("zero", "0"), ...side("p", "+")];
}

function natsScale(sign, of) {
  const first = swatch("s0", `${of} within ${sign}${NATS[0]} nats`);
  const between = NATS.slice(1).map((bound, k) => swatch(`s${k + 1}`, `${sign}${NATS[k]} to ${sign}${bound}`));
  return [first, ...between, swatch(`s${NATS.length}`, `beyond ${sign}${NATS[NATS.length - 1]}`)];
}

// Fills a row's box; returns what colours its tokens.
function tokenRow(box, row, i) {
  const told = el("p", { class: "told", role: "status" }, "Point at a token, or move with the arrow keys.");
  const text = el("div", { class: "tokens", tabindex: 0, role: "application", "aria-label": `Row ${i + 1}, token by token; arrow keys move` });
  const spans = row.text.map(tokenSpan), place = new Map(spans.map((span, k) => [span, k]));
  const tell = (k) => { told.textContent = inNumbers(row, k); };
  text.append(...textPieces(spans, row.text));
  box.append(told, text);
  text.addEventListener("pointerover", (event) => {
    const k = place.get(event.target.closest(".t"));
    if (k !== undefined) tell(k);
  });
  moves(text, spans, tell, place);
  return (most) => spans.forEach((span, k) => {
    const level = row.role[k] < 0 ? "context" : MEASURES[measure].level(row, k, most);
    span.className = `t ${level}${row.masked[k] ? " masked" : ""}`;
  });
}

// A piece ends where a line does, or else at some white space: a line that breaks without a ↵ is one that goes on.
function textPieces(spans, text) {
  const out = [];
  for (let from = 0, k = 1; k <= spans.length; k++) {
    const long = k - from >= PIECE && (text[k - 1].endsWith("\n") || (k - from >= 3 * PIECE && /^\s/.test(text[k] || " ")));
    if (!long && k < spans.length) continue;
    out.push(el("div", { dir: "auto" }, ...spans.slice(from, k)));
    from = k;
  }
  return out;
}

// Line ends, tabs, and tokens without a text of their own have a mark to be seen by. It is drawn by the style: no text.
function tokenSpan(piece) {
  const parts = piece === "" ? ["◌"] : piece.length > MOST_MARKS ? [piece] : piece.split(/([\n\t])/).filter(Boolean);
  const mark = (sign) => el("i", { "data-mark": sign, "aria-hidden": true });
  return el("span", {}, ...parts.flatMap((part) => {
    if (part === "\n") return [mark("↵"), "\n"];
    return part === "\t" ? [mark("⇥"), "\t"] : piece === "" ? [mark(part)] : [visible(part)];
  }));
}

function inNumbers(row, k) {
  const text = JSON.stringify(visible(row.text[k].slice(0, 60))) + (row.text[k].length > 60 ? " …" : "");
  const role = row.role[k] < 0 ? "context, trains nothing" : Object.keys(index.roles)[row.role[k]] || `role ${row.role[k]}`;
  const numbers = row.role[k] < 0 ? [] : [`advantage ${signed(row.advantage[k])}`, `log\u2011prob ${decimal(row.log_prob[k])}`, `gap ${signed(row.gap[k])}`];
  return [`token ${k + 1} of ${row.text.length}`, text, role, ...numbers, row.masked[k] ? "masked: below the floor" : ""].filter(Boolean).join(" · ");
}
