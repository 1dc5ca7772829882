// The overview: warnings, the runs in numbers, their charts in groups, and the charts as a table.

import { chartFigure, lastOf, sampleOf, sampleOfWarning } from "./chart.js";
import { el, table, visible } from "../elements.js";
import { formatted } from "../numbers.js";
import { state } from "../state.js";

const SPLITS = { train: "training", val: "validation" };
const COLOURS = 4; // of runs, as in overview.css
const LEADS = /^First answer right$|^Right after turn 2$/; // read first, so they are larger

// `onStep` is called with the step that is chosen in a chart.
export function drawOverview(onStep) {
  const { runs } = state.page;
  const charts = chartsOf(runs);
  const once = charts.every(({ lines }) => lines.every(({ points }) => points.length === 1));
  const section = document.getElementById("overview");
  section.replaceChildren(
    document.getElementById("overview-title"),
    ...runs.flatMap((run) => warningLines(run, runs.length > 1)),
    ...(once ? numbersOfOneStep(runs, charts) : curves(runs, charts, onStep)),
  );
}

function curves(runs, charts, onStep) {
  const groups = [...new Set(charts.map(({ group }) => group))];
  return [
    ...summary(runs, charts),
    legend(charts),
    ...groups.flatMap((name) => groupOf(name, charts, onStep)),
    ...(groups.includes("Optimisation")
      ? []
      : [note("Add file to trainer.logger for loss and speed.")]),
    chartsTable(charts),
  ];
}

function note(...words) {
  return el("p", { class: "soft" }, ...words);
}

// Of each number one chart, with the lines of all runs; the first run that has it decides its place.
function chartsOf(runs) {
  const charts = new Map();
  runs.forEach((run, place) => {
    for (const { group, label, help, share, ...lines } of run.charts) {
      if (!charts.has(label)) charts.set(label, { group, label, help, share, lines: [] });
      for (const split of Object.keys(SPLITS)) {
        const points = lines[split];
        const name = runs.length > 1 ? `${visible(run.name)} ${split}` : split;
        const look = runs.length > 1 ? `${split} run${place % COLOURS}` : split;
        if (points.length) charts.get(label).lines.push({ name, look, split, place, points });
      }
    }
  });
  return [...charts.values()];
}

function groupOf(name, charts, onStep) {
  const figure = (chart) =>
    chartFigure(chart, LEADS.test(chart.label), state.index.warnings, onStep);
  const drawn = charts.filter(({ group }) => group === name).map(figure);
  return [el("h3", {}, name), el("div", { class: "charts" }, ...drawn)];
}

function warningLines({ name, warnings }, several) {
  const whose = several ? `${visible(name)}: ` : "";
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
    ...past.map((one) => note(`${whose}${one.name}: steps ${one.from}–${one.to}, over.`)),
  ];
}

// Of each run and split its name, episodes and stops.
function partsOf(runs) {
  return runs.flatMap((run, place) =>
    run.splits.map((one) => {
      const name = runs.length > 1 ? `${visible(run.name)} ${one.split}` : one.split;
      return { ...one, name, place };
    }),
  );
}

// An evaluation: a line per number, with what it is of.
function numbersOfOneStep(runs, charts) {
  const parts = partsOf(runs);
  const valueOf = ({ lines, share }, part) => {
    const points = lineOfPart(lines, part)?.points ?? [];
    const [[, value, number]] = points.length ? points : [[null, null, null]];
    return `${formatted(value, share)}${number === null ? "" : ` of ${number}`}`;
  };
  const lines = charts.map((chart) => [
    chart.label,
    ...parts.map((part) => valueOf(chart, part)),
    chart.help,
  ]);
  const episodes = ["Episodes", ...parts.map((part) => part.episodes), ""];
  const head = ["", ...parts.map(({ name }) => name), ""];
  return [table(head, [episodes, ...lines], "Numbers"), note(`${endsOf(runs)}.`)];
}

// One line per run and split: its episodes, and each share at its first and last step.
function summary(runs, charts) {
  const counted = ({ lines }) => lines.some(({ points }) => points[0][2] !== null);
  const shares = charts.filter((chart) => chart.share && counted(chart)); // of the episode log
  const lines = partsOf(runs).map((part) => [
    part.name,
    part.episodes,
    ...shares.map(({ lines }) => fromTo(lineOfPart(lines, part))),
  ]);
  const head = ["", "episodes", ...shares.map(({ label }) => label)];
  const words = `First step → last step. ${endsOf(runs)}.`;
  return lines.length ? [table(head, lines, "Summary"), note(words)] : [];
}

function endsOf(runs) {
  const ends = partsOf(runs).map(({ name, stops }) => {
    const counts = Object.entries(stops).map(([stop, number]) => `${stop} ${number}`);
    return `${name} ${counts.join(", ")}`;
  });
  return `How episodes ended: ${ends.join("; ")}`;
}

function lineOfPart(lines, { place, split }) {
  return lines.find((one) => one.place === place && one.split === split);
}

function fromTo(line) {
  const valued = line?.points.filter(([, value]) => value !== null) ?? [];
  if (!valued.length) return "–";
  const [from, to] = [valued[0], lastOf(valued)].map(([, value]) => formatted(value, true));
  return valued.length > 1 ? `${from.replace(" %", "")} → ${to.replace(" ", "\u00a0")}` : to;
}

function legend(charts) {
  const looks = new Map(charts.flatMap(({ lines }) => lines.map(({ look, name }) => [look, name])));
  const samples = [...looks].map(([look, name]) =>
    el("span", {}, sampleOf(look), SPLITS[name] ?? name),
  );
  const warned = el("span", {}, sampleOfWarning(), "a warning");
  return el(
    "p",
    { class: "legend" },
    ...samples,
    ...(state.index.warnings.length ? [warned] : []),
    el("span", {}, "large, dark dot: many episodes; small, pale one: few"),
    el("span", {}, "click a step to list its episodes"),
  );
}

// Filled when it is opened.
function chartsTable(charts) {
  const details = el("details", {}, el("summary", {}, "The charts as a table"));
  const fill = () => {
    if (!details.open || details.children.length > 1) return;
    for (const [split, title] of Object.entries(SPLITS)) {
      const columns = charts.flatMap(({ label, share, lines }) =>
        lines
          .filter((line) => line.split === split)
          .map(({ name, points }) => ({
            head: name === split ? label : `${label}, ${name}`,
            share,
            values: new Map(points),
          })),
      );
      if (columns.length) details.append(el("h4", {}, title), tableOf(columns, title));
    }
  };
  details.addEventListener("toggle", fill);
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
