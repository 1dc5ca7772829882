// One problem followed over the steps: what became of it each time that it was played.

import { el } from "../elements.js";
import { legendOfMarks, marksOf, problemOf } from "../list/list.js";
import { addressOf } from "../places.js";
import { state } from "../state.js";

const MOST_STEPS = 200;

// The sessions of the problem of session `id`, step by step, each a link.
export function problemOverSteps(id) {
  const steps = stepsOfProblem(id);
  const shown = [...steps].slice(-MOST_STEPS);
  const items = shown.map(([step, ids]) =>
    el("li", {}, el("span", { class: "soft" }, `step ${step}`), ...ids.map((one) => link(one, id))),
  );
  const more = steps.size > shown.length ? `, the last ${shown.length} of them here` : "";
  const title = `${state.index.split[id]}, ${problemOf(id)}: ${countOf(steps)}${more}`;
  return el(
    "details",
    { id: "problem", open: "" },
    el("summary", {}, `This problem over the steps (${title})`),
    el("ol", { class: "steps" }, ...items),
    legendOfMarks(),
  );
}

function countOf(steps) {
  return steps.size === 1 ? "played in one step" : `played in ${steps.size} steps`;
}

function stepsOfProblem(id) {
  const { asked, problem, split, step } = state.index;
  const steps = new Map();
  for (let one = 0; one < step.length; one++) {
    if (asked[one] !== asked[id] || problem[one] !== problem[id]) continue;
    if (split[one] !== split[id]) continue;
    if (!steps.has(step[one])) steps.set(step[one], []);
    steps.get(step[one]).push(one);
  }
  return steps;
}

function link(one, id) {
  const { step, session, verdicts } = state.index;
  return el(
    "a",
    {
      href: addressOf(one),
      "aria-current": one === id ? "true" : null,
      "aria-label": `step ${step[one]}, episode ${session[one]}: ${verdicts[one]}`,
    },
    ...marksOf(verdicts[one]),
  );
}
