// The numbers that may colour a token, their levels and legends.

import { el } from "../elements.js";
import { decimal } from "../numbers.js";
import { state } from "../state.js";

const NATS = [0.1, 0.5, 1, 2, 5]; // where one colour of gaps and log-probs ends and the next begins
const LEVELS = 4; // colours of advantages on either side of 0

// `most`: the largest size of an advantage in the session.
const MEASURES = {
  advantage: {
    label: "advantage",
    levelOf: (row, k, most) => levelOfAdvantage(row.advantage[k], most),
    swatches: advantageSwatches,
  },
  gap: {
    label: "log\u2011prob gap",
    levelOf: (row, k) => levelOfNats(Math.abs(row.gap[k])),
    swatches: () => natsSwatches("±", "gap"),
  },
  log_prob: {
    label: "log\u2011prob",
    levelOf: (row, k) => levelOfNats(-row.log_prob[k]),
    swatches: () => natsSwatches("−", "log\u2011prob"),
  },
};

export function largestAdvantage(rows) {
  const larger = (most, advantage) => Math.max(most, Math.abs(advantage) || 0);
  return rows.reduce((most, row) => row.advantage.reduce(larger, most), 0);
}

export function classOfToken(row, k, most) {
  const level = row.role[k] < 0 ? "context" : MEASURES[state.measure].levelOf(row, k, most);
  return `t ${level}${row.masked[k] ? " masked" : ""}`;
}

export function legendSwatches(most) {
  return [
    ...MEASURES[state.measure].swatches(most),
    swatch("masked", "masked: below the log\u2011prob floor, trains less or nothing"),
    swatch("context", "context: trains nothing"),
  ];
}

export function measureChoice(onChange) {
  const title = el("legend", {}, "Colour tokens by");
  const choice = el(
    "fieldset",
    { class: "measures" },
    title,
    ...Object.entries(MEASURES).map(radio),
  );
  choice.addEventListener("change", (event) => {
    state.measure = event.target.value;
    onChange();
  });
  return choice;
}

function radio([name, { label }]) {
  const input = el("input", { type: "radio", name: "measure", value: name });
  input.checked = name === state.measure;
  return el("label", {}, input, ` ${label}`);
}

function levelOfAdvantage(advantage, most) {
  if (!(Math.abs(advantage) > 0)) return "zero";
  return `${advantage > 0 ? "p" : "n"}${Math.ceil((LEVELS * Math.abs(advantage)) / most)}`;
}

function levelOfNats(nats) {
  const at = NATS.findIndex((bound) => nats < bound);
  return `s${at < 0 ? NATS.length : at}`;
}

function swatch(level, label) {
  return el("span", { class: `t ${level}` }, label);
}

function advantageSwatches(most) {
  if (!most) return [swatch("zero", "advantage 0")];
  const bound = (k) => decimal(Number(((most * k) / LEVELS).toPrecision(2)));
  const range = (k, sign) => `${k ? sign : ""}${bound(k)} to ${sign}${bound(k + 1)}`;
  const side = (name, sign) =>
    [...Array(LEVELS).keys()].map((k) => swatch(`${name}${k + 1}`, range(k, sign)));
  return [...side("n", "−").reverse(), swatch("zero", "0"), ...side("p", "+")];
}

function natsSwatches(sign, label) {
  const between = NATS.slice(1).map((bound, k) =>
    swatch(`s${k + 1}`, `${sign}${NATS[k]} to ${sign}${bound}`),
  );
  return [
    swatch("s0", `${label} within ${sign}${NATS[0]} nats`),
    ...between,
    swatch(`s${NATS.length}`, `beyond ${sign}${NATS[NATS.length - 1]}`),
  ];
}
