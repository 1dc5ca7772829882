// The overview: the whole run in numbers, its curves, and the curves as a table.

import { curveFigure, sampleOf, SPLITS } from "./chart.js";
import { el, table } from "./elements.js";
import { formatted } from "./numbers.js";
import { state } from "./state.js";

// `onStep` is called with the step that is chosen in a curve.
export function drawOverview(onStep) {
  const { curves } = state.index;
  const drawn = curves.filter((curve) => curve.train.length || curve.val.length);
  const without = curves.filter((curve) => !drawn.includes(curve)).map((curve) => curve.label);
  const missing = `No numbers in this log for: ${without.join(", ")}.`;
  const figures = drawn.map((curve) => curveFigure(curve, onStep));
  document
    .getElementById("overview")
    .append(
      totalsTable(),
      endings(),
      legend(),
      el("div", { id: "charts" }, ...figures),
      without.length ? el("p", { class: "soft" }, missing) : "",
      curvesTable(drawn),
    );
}

// Head and value of each column; `last` holds the numbers of the last turn.
const TOTALS = [
  ["", ({ run }) => run.split],
  ["sessions", ({ run }) => run.sessions],
  ["steps", ({ run }) => `${run.first_step}–${run.last_step}`],
  ["first right", ({ run }) => formatted(run.turns[0]?.acc, true)],
  ["solved", ({ last }) => formatted(last?.solved, true)],
  ["fixed", ({ run }) => formatted(run.revisions.fixed, true)],
  ["broken", ({ run }) => formatted(run.revisions.broken, true)],
  ["changed", ({ run }) => formatted(run.revisions.plasticity, true)],
  ["friction", ({ run }) => formatted(run.friction, true)],
  ["words", ({ run }) => formatted(run.feedback.words, false)],
  ["no\u2011op", ({ run }) => formatted(run.feedback.no_op, true)],
  ["leaks", ({ run }) => formatted(run.feedback.leak_share, true)],
];

function totalsTable() {
  const lines = state.index.totals.map((run) => {
    const last = run.turns[run.turns.length - 1];
    return TOTALS.map(([, valueOf]) => valueOf({ run, last }));
  });
  const head = TOTALS.map(([name]) => name);
  return table(head, lines, "The whole run");
}

function endings() {
  const countsOf = (run) =>
    Object.entries(run.stops)
      .map(([stop, number]) => `${stop} ${number}`)
      .join(", ");
  const runs = state.index.totals.map((run) => `${run.split} ${countsOf(run)}`);
  return el("p", { class: "soft" }, `How sessions ended: ${runs.join("; ")}.`);
}

function legend() {
  const nameOf = (split) => (split === "val" ? "validation" : "training");
  const samples = SPLITS.map((split) => el("span", {}, sampleOf(split), nameOf(split)));
  const help = el("span", {}, "click a step to list its sessions");
  return el("p", { class: "legend" }, ...samples, help);
}

// Filled when it is opened.
function curvesTable(curves) {
  const details = el("details", {}, el("summary", {}, "The curves as a table"));
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    for (const split of SPLITS) {
      const drawn = curves.filter((curve) => curve[split].length);
      if (!drawn.length) continue;
      const title = split === "val" ? "Validation" : "Training";
      details.append(el("h3", {}, title), tableOf(drawn, split));
    }
  });
  return details;
}

function tableOf(curves, split) {
  const columns = curves.map((curve) => new Map(curve[split]));
  const lineOf = (step) => columns.map((values, i) => formatted(values.get(step), curves[i].share));
  const lines = curves[0][split].map(([step]) => [step, ...lineOf(step)]);
  return table(["step", ...curves.map((curve) => curve.label)], lines, split);
}
