// The list: filters, order, and only those rows in the page that can be seen.

const ROW = 52;
const OUTCOMES = ["right at first", "fixed", "broken", "unsolved"];
const ORDERS = {
  "as logged": (a, b) => a - b,
  "newest first": (a, b) => b - a,
  "by problem": (a, b) => index.env[a] - index.env[b] || index.problem[a] - index.problem[b] || a - b,
  "most turns": (a, b) => index.turns[b] - index.turns[a] || a - b,
  "most words of feedback": (a, b) => index.words[b] - index.words[a] || a - b,
};
const SPOKEN = { "✓": "right", "✗": "wrong", "∅": "no answer", "?": "not graded", "(": "branches:", "|": "or", ")": "" };
const form = document.getElementById("filters"), rows = document.getElementById("rows"), space = document.getElementById("space");

let listed = [];  // ids of the sessions that pass, in order
let active = 0;  // position in it
let current = null;  // id of the open session
let waiting = null;  // promise of the list with all texts

function fillFilters() {
  const fill = (name, all, options) => form.elements[name].append(new Option(all, ""),
    ...options.map(([value, label]) => new Option(label, value)));
  const number = (sets, bit) => sets.reduce((n, set) => n + (set >> bit & 1), 0);
  const counted = (name) => [name, `${name} (${number(index.set, index.flags.indexOf(name))})`];
  const trained = index.trained.map((name, bit) => [name, number(index.trains, bit)]).filter(([, n]) => n);
  fill("split", "train and val", [["train", "train"], ["val", "val"]]);
  fill("outcome", "any outcome", OUTCOMES.map(counted));
  fill("event", "whatever happened", index.flags.filter((f) => !OUTCOMES.includes(f)).map(counted));
  fill("trains", "whatever it trains", trained.map(([name, n]) => [name, `${name} (${n})`]));
  fill("env", "any environment", index.envs.map((name, i) => [i, visible(name)]));
  form.elements.sort.append(...Object.keys(ORDERS).map((name) => new Option(name, name)));
  form.elements.env.hidden = index.envs.length < 2;
  form.elements.trains.hidden = !trained.length;
}

function filter() {
  performance.mark("filter");
  const want = Object.fromEntries(new FormData(form)), text = want.text.toLowerCase();
  const bits = [want.outcome, want.event].filter(Boolean).reduce((set, f) => set | 1 << index.flags.indexOf(f), 0);
  const trains = want.trains ? 1 << index.trained.indexOf(want.trains) : 0, grams = gramsOf(text);
  const from = want.from === "" ? -Infinity : Number(want.from), to = want.to === "" ? Infinity : Number(want.to);
  listed = [];
  const known = text ? texts.length : index.step.length;  // those whose texts are not read yet follow
  for (let id = 0; id < known; id++) {
    if ((index.set[id] & bits) === bits && (index.trains[id] & trains) === trains && index.step[id] >= from && index.step[id] <= to
      && (!want.split || index.split[id] === want.split) && (!want.env || index.env[id] === Number(want.env))
      && (!text || holds(id, text, grams))) listed.push(id);
  }
  if (want.sort !== "as logged") listed.sort(ORDERS[want.sort]);
  document.getElementById("count").textContent = known < index.step.length ? `Reading the texts … ${listed.length} found so far`
    : `${listed.length} of ${index.step.length} sessions`;
  if (known < index.step.length) waitForTexts();
  active = Math.max(0, listed.indexOf(current));
  space.style.height = `${listed.length * ROW}px`;
  rows.scrollTop = Math.max(0, active * ROW - 2 * ROW);
  draw();
  performance.measure("filter", "filter");
}

function waitForTexts() {
  waiting = waiting || readTexts().then(() => { if (form.elements.text.value) filter(); });
}

function draw() {
  const first = Math.max(0, Math.floor(rows.scrollTop / ROW) - 5);
  const last = Math.min(listed.length, Math.ceil((rows.scrollTop + rows.clientHeight) / ROW) + 5);
  const places = new Set([active]);  // the active one must exist for aria-activedescendant
  for (let at = first; at < last; at++) places.add(at);
  space.replaceChildren(...[...places].filter((at) => at < listed.length).sort((a, b) => a - b).map(row));
  if (listed.length) rows.setAttribute("aria-activedescendant", `row-${active}`);
  else rows.removeAttribute("aria-activedescendant");
}

function row(at) {
  const id = listed[at], problem = index.envs.length > 1 ? `${index.envs[index.env[id]]} ${index.problem[id]}` : `problem ${index.problem[id]}`;
  const flags = index.flags.filter((flag, k) => index.set[id] >> k & 1 && flag !== "right at first" && flag !== "unsolved");
  if (index.trains[id] & 1) flags.push("tokens");
  const node = el("div", {
    id: `row-${at}`, role: "option", class: at === active ? "row active" : "row", "aria-selected": id === current,
    "aria-posinset": at + 1, "aria-setsize": listed.length,
    "aria-label": `${spoken(index.verdicts[id])}; step ${index.step[id]}, ${index.split[id]}, ${visible(problem)}; ${flags.join(", ")}; ${visible(index.snippet[id])}`,
  },
  el("div", {}, el("span", { class: "verdicts" }, ...marks(index.verdicts[id])), el("span", { class: "note" }, flags.join(" · ")),
    el("span", { class: "soft" }, `${index.split[id]} ${index.step[id]} · ${visible(problem)}`)),
  el("span", { class: "snippet" }, visible(index.snippet[id])));
  node.style.top = `${at * ROW}px`;
  node.addEventListener("click", () => { active = at; open(id); });
  return node;
}

function marks(verdicts) {
  return [...verdicts].map((mark) => el("span", { class: mark === "✓" ? "right" : "✗∅".includes(mark) ? "wrong" : "soft" }, mark));
}

function spoken(verdicts) {
  return [...verdicts].map((mark) => SPOKEN[mark]).filter(Boolean).join(", ");
}

function choose(at) {
  active = Math.max(0, Math.min(listed.length - 1, at));
  if (active * ROW < rows.scrollTop) rows.scrollTop = active * ROW;
  if ((active + 1) * ROW > rows.scrollTop + rows.clientHeight) rows.scrollTop = (active + 1) * ROW - rows.clientHeight;
  draw();
}
