// The list: only those rows are in the page that can be seen.

import { el, visible } from "../elements.js";
import { openSession } from "../places.js";
import { state } from "../state.js";

const ROW_HEIGHT = 52; // as in list.css
const MARGIN = 5; // rows above and below those in sight
const SPOKEN = {
  "✓": "right",
  "✗": "wrong",
  "∅": "no answer",
  "?": "not graded",
};
export const listBox = document.getElementById("rows");
const space = document.getElementById("space");

// After state.listed or state.active changed.
export function drawFromActive() {
  space.style.height = `${state.listed.length * ROW_HEIGHT}px`;
  listBox.scrollTop = Math.max(0, (state.active - 2) * ROW_HEIGHT);
  draw();
}

export function draw() {
  const { listed, active } = state;
  const { scrollTop, clientHeight } = listBox;
  const first = Math.max(0, Math.floor(scrollTop / ROW_HEIGHT) - MARGIN);
  const bottom = Math.ceil((scrollTop + clientHeight) / ROW_HEIGHT);
  const last = Math.min(listed.length, bottom + MARGIN);
  const positions = new Set([active]); // the active one must exist for aria-activedescendant
  for (let at = first; at < last; at++) positions.add(at);
  const drawn = [...positions].filter((at) => at < listed.length).sort((a, b) => a - b);
  space.replaceChildren(...drawn.map(rowAt));
  if (listed.length) listBox.setAttribute("aria-activedescendant", `row-${active}`);
  else listBox.removeAttribute("aria-activedescendant");
}

// Makes the row at a position the active one and scrolls to it.
export function activate(at) {
  state.active = Math.max(0, Math.min(state.listed.length - 1, at));
  const top = state.active * ROW_HEIGHT;
  const bottom = top + ROW_HEIGHT;
  if (top < listBox.scrollTop) listBox.scrollTop = top;
  if (bottom > listBox.scrollTop + listBox.clientHeight) {
    listBox.scrollTop = bottom - listBox.clientHeight;
  }
  draw();
}

export function onListKey(event) {
  const page = Math.max(1, Math.floor(listBox.clientHeight / ROW_HEIGHT) - 1);
  const moves = {
    ArrowDown: 1,
    ArrowUp: -1,
    PageDown: page,
    PageUp: -page,
    Home: -Infinity,
    End: Infinity,
  };
  const by = moves[event.key];
  if (by !== undefined) activate(state.active + by);
  else if (event.key === "Enter" && state.listed.length) openSession(state.listed[state.active]);
  else return;
  event.preventDefault();
}

function rowAt(at) {
  const id = state.listed[at];
  const { split, step, snippet, verdicts } = state.index;
  const flags = flagsOf(id);
  const problem = visible(problemOf(id));
  const place = `step ${step[id]}, ${split[id]}, ${problem}`;
  const node = el(
    "div",
    {
      id: `row-${at}`,
      role: "option",
      class: at === state.active ? "row active" : "row",
      "aria-selected": id === state.current,
      "aria-posinset": at + 1,
      "aria-setsize": state.listed.length,
      "aria-label": [spoken(verdicts[id]), place, flags.join(", "), visible(snippet[id])].join(
        "; ",
      ),
    },
    el(
      "div",
      {},
      el("span", { class: "verdicts" }, ...marksOf(verdicts[id])),
      el("span", { class: "note" }, flags.join(" · ")),
      el("span", { class: "soft" }, `${split[id]} ${step[id]} · ${problem}`),
    ),
    el("span", { class: "snippet" }, visible(snippet[id])),
  );
  node.style.top = `${at * ROW_HEIGHT}px`;
  node.addEventListener("click", () => {
    state.active = at;
    openSession(id);
  });
  return node;
}

export function problemOf(id) {
  const { envs, env, problem } = state.index;
  return `${envs.length > 1 ? envs[env[id]] : "problem"} ${problem[id]}`;
}

// What the verdicts do not show already.
function flagsOf(id) {
  const { flags, set, trains } = state.index;
  const shown = flags.filter(
    (flag, k) => (set[id] >> k) & 1 && flag !== "right at first" && flag !== "unsolved",
  );
  return trains[id] & 1 ? [...shown, "tokens"] : shown;
}

const MEANINGS = [
  ["✓", "right"],
  ["✗", "wrong"],
  ["∅", "wrong, no answer found"],
  ["?", "not graded"],
];

export function legendOfMarks() {
  const items = MEANINGS.map(([mark, meaning]) =>
    el("span", {}, el("strong", {}, ...marksOf(mark)), ` ${meaning}`),
  );
  return el("p", { class: "legend marks" }, ...items, el("span", {}, "one mark per attempt"));
}

export function marksOf(verdicts) {
  const colourOf = (mark) => (mark === "✓" ? "right" : "✗∅".includes(mark) ? "wrong" : "soft");
  return [...verdicts].map((mark) => el("span", { class: colourOf(mark) }, mark));
}

function spoken(verdicts) {
  return [...verdicts].map((mark) => SPOKEN[mark]).join(", ");
}
