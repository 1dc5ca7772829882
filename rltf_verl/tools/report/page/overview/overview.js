// The overview: the whole run in numbers, its curves, and the curves as a table.

import { chartFigure, sampleOf, sampleOfWarning } from "./chart.js";
import { isLive } from "../data.js";
import { el, table, visible } from "../elements.js";
import { formatted } from "../numbers.js";
import { state } from "../state.js";

const SPLITS = ["train", "val"];
const COLOURS = 4; // of runs, as in overview.css

// `onStep` is called with the step that is chosen in a chart. A live page draws all of it again.
export function drawOverview(onStep) {
  const { totals, warnings } = state.index;
  const charts = chartsOf(runsShown());
  const drawn = charts.filter((chart) => chart.lines.length);
  const without = charts.filter((chart) => !drawn.includes(chart)).map((chart) => chart.label);
  const section = document.getElementById("overview");
  const open = Boolean(section.querySelector("details")?.open);
  section.replaceChildren(
    document.getElementById("overview-title"),
    ...runsShown().flatMap(warningLines),
    ...(totals.length ? [...totalsTable(), endings()] : []),
    ...(drawn.length ? [legend(drawn)] : []),
    el("div", { id: "charts" }, ...drawn.map((chart) => chartFigure(chart, warnings, onStep))),
    ...notesOn(drawn, without),
    ...(drawn.length ? [curvesTable(drawn, open)] : []),
  );
}

// The run whose sessions are listed, and the others of a live page, each with its own place.
function runsShown() {
  const { others = [], run = 0 } = state.index;
  const runs = [...others];
  runs.splice(run, 0, state.index); // in the order in which they were given
  return runs.map((one, place) => ({ ...one, place, alone: runs.length === 1 }));
}

// Of each number one chart, with the lines of all runs.
function chartsOf(runs) {
  const charts = new Map();
  for (const run of runs) {
    for (const curve of run.curves) {
      const { label, help, share } = curve;
      if (!charts.has(label)) charts.set(label, { label, help, share, lines: [] });
      for (const split of SPLITS) {
        const points = curve[split];
        if (points.length) charts.get(label).lines.push(lineOf(run, split, points));
      }
    }
  }
  return [...charts.values()];
}

function lineOf({ name, place, alone }, split, points) {
  if (alone) return { name: split, look: split, split, points };
  const look = `${split} run${place % COLOURS}`;
  return { name: `${visible(name)} ${split}`, look, split, points };
}

function warningLines({ name, alone, warnings }) {
  const whose = alone ? "" : `${visible(name)}: `;
  const firing = warnings.filter(({ to }) => to === null);
  const past = warnings.filter(({ to }) => to !== null).slice(-3);
  return [
    ...firing.map((one) =>
      el(
        "p",
        { class: "warning" },
        el("strong", {}, `⚠ ${whose}${one.name}`),
        ` since step ${one.from}: ${one.advice}.`,
      ),
    ),
    ...past.map((one) =>
      el("p", { class: "soft" }, `${whose}${one.name}: steps ${one.from}–${one.to}, over.`),
    ),
  ];
}

// Head and value of each column; `last` holds the numbers of the last turn.
const TOTALS = [
  ["", ({ run }) => run.split],
  ["episodes", ({ run }) => run.sessions],
  ["steps", ({ run }) => `${run.first_step}–${run.last_step}`],
  ["first right", ({ run }) => formatted(run.turns[0]?.acc, true)],
  ["solved", ({ last }) => formatted(last?.solved, true)],
  ["fixed", ({ run }) => formatted(run.revisions.fixed, true)],
  ["broken", ({ run }) => formatted(run.revisions.broken, true)],
  ["plasticity", ({ run }) => formatted(run.revisions.plasticity, true)],
  ["friction", ({ run }) => formatted(run.friction, true)],
  ["words", ({ run }) => formatted(run.feedback.words, false)],
  ["no\u2011op", ({ run }) => formatted(run.feedback.no_op, true)],
  ["leaks", ({ run }) => formatted(run.feedback.leak_share, true)],
];

// A live page has those of the last step of each split only.
function totalsTable() {
  const lines = state.index.totals.map((run) => {
    const last = run.turns[run.turns.length - 1];
    return TOTALS.map(([, valueOf]) => valueOf({ run, last }));
  });
  const head = TOTALS.map(([name]) => name);
  const part = isLive ? "the newest steps" : "the whole run";
  const { name, others = [] } = state.index;
  const title = others.length ? `${visible(name)}: ${part}` : part[0].toUpperCase() + part.slice(1);
  return [el("h3", {}, title), table(head, lines, title)];
}

function endings() {
  const countsOf = (run) =>
    Object.entries(run.stops)
      .map(([stop, number]) => `${stop} ${number}`)
      .join(", ");
  const runs = state.index.totals.map((run) => `${run.split} ${countsOf(run)}`);
  return el("p", { class: "soft" }, `How episodes ended: ${runs.join("; ")}.`);
}

function legend(charts) {
  const looks = new Map(charts.flatMap(({ lines }) => lines.map(({ look, name }) => [look, name])));
  const nameOf = (name) => ({ train: "training", val: "validation" })[name] ?? name;
  const samples = [...looks].map(([look, name]) => el("span", {}, sampleOf(look), nameOf(name)));
  const warned = el("span", {}, sampleOfWarning(), "a warning");
  return el(
    "p",
    { class: "legend" },
    ...samples,
    ...(state.index.warnings.length ? [warned] : []),
    el("span", {}, "click a step to list its episodes"),
  );
}

function notesOn(drawn, without) {
  const note = (text) => el("p", { class: "soft" }, text);
  const logged = drawn.some(({ label }) => label === "Loss");
  return [
    ...(drawn.length && without.length
      ? [note(`No numbers in this log for: ${without.join(", ")}.`)]
      : []),
    ...(logged || !drawn.length
      ? []
      : [note("Loss, entropy and the like are drawn where trainer.logger contains file.")]),
  ];
}

// Filled when it is opened.
function curvesTable(charts, open) {
  const details = el("details", {}, el("summary", {}, "The curves as a table"));
  const fill = () => {
    if (!details.open || details.children.length > 1) return;
    for (const split of SPLITS) {
      const columns = charts.flatMap(({ label, share, lines }) =>
        lines
          .filter((line) => line.split === split)
          .map(({ name, points }) => ({
            head: name === split ? label : `${label}, ${name}`,
            share,
            values: new Map(points),
          })),
      );
      if (!columns.length) continue;
      const title = split === "val" ? "Validation" : "Training";
      details.append(el("h3", {}, title), tableOf(columns, title));
    }
  };
  details.addEventListener("toggle", fill);
  details.open = open;
  return details;
}

function tableOf(columns, title) {
  const steps = [...new Set(columns.flatMap(({ values }) => [...values.keys()]))];
  steps.sort((a, b) => a - b);
  const lines = steps.map((step) => [
    step,
    ...columns.map(({ values, share }) => formatted(values.get(step), share)),
  ]);
  return table(["step", ...columns.map(({ head }) => head)], lines, title);
}
