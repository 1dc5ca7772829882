// The keyboard among the tokens of a row: one is marked; arrows move it, also to the line above or below.

function moves(text, spans, tell, place) {
  let at = -1;
  const mark = (k) => {
    spans[at]?.removeAttribute("data-at");
    at = Math.max(0, Math.min(spans.length - 1, k));
    if (!spans.length) return;
    spans[at].setAttribute("data-at", "");
    spans[at].scrollIntoView({ block: "nearest" });
    tell(at);
  };
  text.addEventListener("focus", () => { if (at < 0 && text.matches(":focus-visible")) mark(0); });
  text.addEventListener("click", (event) => {
    const k = place.get(event.target.closest(".t"));
    if (k !== undefined) mark(k);
  });
  text.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const to = { ArrowRight: () => at + 1, ArrowLeft: () => at - 1, Home: () => 0, End: () => spans.length - 1,
      ArrowDown: () => onNextLine(spans, at, 1), ArrowUp: () => onNextLine(spans, at, -1) }[event.key];
    if (!to) return;
    event.preventDefault();
    mark(to());
  });
}

// The token of the next line (by = 1) or that before (−1) that begins nearest to where this one does.
function onNextLine(spans, at, by) {
  const begin = (k) => spans[k].getClientRects()[0] || spans[k].getBoundingClientRect();
  const from = begin(Math.max(0, at));
  let line = null, best = at;
  for (let k = at + by; k >= 0 && k < spans.length; k += by) {
    const here = begin(k);
    if (Math.abs(here.top - from.top) < from.height / 2) continue;
    if (line !== null && Math.abs(here.top - line) > from.height / 2) break;
    if (line === null || Math.abs(here.left - from.left) <= Math.abs(begin(best).left - from.left)) best = k;
    line = here.top;
  }
  return best;
}
