// What passes into the list, and in which order.

import { visible } from "../elements.js";
import { draw, drawFromActive, listBox } from "./list.js";
import { readTexts } from "./search.js";
import { refreshSession } from "../session/session.js";
import { state } from "../state.js";

const OUTCOMES = ["right at first", "fixed", "broken", "unsolved"];
export const form = document.getElementById("filters");

const byColumn = (name) => (a, b) => state.index[name][a] - state.index[name][b];
const ORDERS = {
  "as logged": (a, b) => a - b,
  "newest first": (a, b) => b - a,
  "by problem": (a, b) =>
    byColumn("env")(a, b) || byColumn("problem")(a, b) || byColumn("asked")(a, b) || a - b,
  "most turns": (a, b) => byColumn("turns")(b, a) || a - b,
  "most words of feedback": (a, b) => byColumn("words")(b, a) || a - b,
};

export function fillFilters() {
  const { envs, flags, set, trained, trains } = state.index;
  const number = (sets, bit) => sets.reduce((n, bits) => n + ((bits >> bit) & 1), 0);
  const withNumber = (name) => [name, `${name} (${number(set, flags.indexOf(name))})`];
  const events = flags.filter((name) => !OUTCOMES.includes(name));
  const known = trained
    .map((name, bit) => [name, number(trains, bit)])
    .filter(([, sessions]) => sessions);
  fill(
    "split",
    "train and val",
    ["train", "val"].map((name) => [name, name]),
  );
  fill("outcome", "any outcome", OUTCOMES.map(withNumber));
  fill("event", "whatever happened", events.map(withNumber));
  fill(
    "trains",
    "whatever it trains",
    known.map(([name, n]) => [name, `${name} (${n})`]),
  );
  fill(
    "env",
    "any environment",
    envs.map((name) => [name, visible(name)]),
  );
  if (!form.elements.sort.length) {
    const orders = Object.keys(ORDERS);
    form.elements.sort.append(
      ...orders.map((name) => new Option(name, name)),
    );
  }
  form.elements.env.hidden = envs.length < 2;
  form.elements.trains.hidden = !known.length;
}

function fill(name, all, options) {
  const select = form.elements[name];
  const { value: chosen } = select;
  const made = options.map(([value, label]) => new Option(label, value));
  select.replaceChildren(new Option(all, ""), ...made);
  if (made.some((option) => option.value === chosen)) select.value = chosen;
}

export function filter() {
  const chosen = Object.fromEntries(new FormData(form));
  const passes = conditionFor(chosen);
  const number = state.index.step.length;
  const known = chosen.text ? state.texts.length : number; // the other sessions' texts will follow
  state.listed = [];
  for (let id = 0; id < known; id++) if (passes(id)) state.listed.push(id);
  if (chosen.sort !== "as logged") state.listed.sort(ORDERS[chosen.sort]);
  showCount(known < number);
  if (known < number) waitForTexts();
  state.active = Math.max(0, state.listed.indexOf(state.current));
  drawFromActive();
  refreshSession();
}

// The same after more texts were read: the list stays where it is scrolled to, and at session
// `chosen`.
export function filterInPlace(chosen) {
  const { scrollTop } = listBox;
  filter();
  const at = state.listed.indexOf(chosen);
  if (at >= 0) state.active = at;
  listBox.scrollTop = scrollTop;
  draw();
}

export function filterByStep(step) {
  form.elements.from.value = form.elements.to.value = step;
  filter();
}

// A function of an id: whether the session passes what was chosen.
function conditionFor(chosen) {
  const { env, envs, flags, set, split, step, trained, trains } = state.index;
  const bitsOf = (names, all) =>
    names.filter(Boolean).reduce((bits, name) => bits | (1 << all.indexOf(name)), 0);
  const happened = bitsOf([chosen.outcome, chosen.event], flags);
  const trainedBits = bitsOf([chosen.trains], trained);
  const from = chosen.from === "" ? -Infinity : Number(chosen.from);
  const to = chosen.to === "" ? Infinity : Number(chosen.to);
  const text = chosen.text.toLowerCase();
  return (id) =>
    (set[id] & happened) === happened &&
    (trains[id] & trainedBits) === trainedBits &&
    step[id] >= from &&
    step[id] <= to &&
    (!chosen.split || split[id] === chosen.split) &&
    (!chosen.env || envs[env[id]] === chosen.env) &&
    (!text || state.texts[id].includes(text));
}

function showCount(stillReading) {
  const number = state.listed.length;
  document.getElementById("count").textContent = stillReading
    ? `Reading the texts … ${number} found so far`
    : `${number} of ${state.index.step.length} episodes`;
}

function waitForTexts() {
  if (state.waiting) return;
  const reading = readTexts();
  const again = () => {
    const { active, listed } = state;
    if (form.elements.text.value) filterInPlace(active ? listed[active] : null);
  };
  const failed = (error) => {
    if (state.reading !== reading) return; // another run was chosen
    state.reading = state.waiting = null; // the next search asks again
    document.getElementById("count").textContent = `The texts cannot be read: ${error.message}`;
  };
  state.waiting = reading.then(again, failed);
}
