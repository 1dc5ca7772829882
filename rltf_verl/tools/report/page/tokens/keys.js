// The keyboard among the tokens of a row: one is marked; arrows move the mark, also to the line
// above or below.

// `tell` is called with the position of the token that is marked.
export function moveAmong(text, spans, positionOf, tell) {
  let at = -1;
  const mark = (k) => {
    spans[at]?.removeAttribute("data-at");
    at = Math.max(0, Math.min(spans.length - 1, k));
    if (!spans.length) return;
    spans[at].setAttribute("data-at", "");
    spans[at].scrollIntoView({ block: "nearest" });
    tell(at);
  };
  const moves = {
    ArrowRight: () => at + 1,
    ArrowLeft: () => at - 1,
    Home: () => 0,
    End: () => spans.length - 1,
    ArrowDown: () => onNextLine(spans, at, 1),
    ArrowUp: () => onNextLine(spans, at, -1),
  };
  text.addEventListener("focus", () => {
    if (at < 0 && text.matches(":focus-visible")) mark(0);
  });
  text.addEventListener("click", (event) => {
    const k = positionOf(event.target);
    if (k !== undefined) mark(k);
  });
  text.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    mark(move());
  });
}

// The token of the next line (by = 1) or that before (−1) that begins nearest to where this one does.
function onNextLine(spans, at, by) {
  const begin = (k) => spans[k].getClientRects()[0] || spans[k].getBoundingClientRect();
  const from = begin(Math.max(0, at));
  const half = from.height / 2;
  const distance = (rect) => Math.abs(rect.left - from.left);
  let top = null; // of the line
  let best = at;
  for (let k = at + by; k >= 0 && k < spans.length; k += by) {
    const here = begin(k);
    if (Math.abs(here.top - from.top) < half) continue; // still on the same line
    if (top !== null && Math.abs(here.top - top) > half) break; // beyond the next one
    if (top === null || distance(here) <= distance(begin(best))) best = k;
    top = here.top;
  }
  return best;
}
