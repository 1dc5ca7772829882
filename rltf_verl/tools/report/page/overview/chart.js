// One chart over the steps, drawn from numbers that were computed in Python.
//
// A chart has `label`, `help`, `share` (whether its numbers are shares) and `lines`, each with
// `name`, `look` (classes of overview.css) and `points` [[step, value or null, number or null], …];
// the last is how many episodes (or revisions, or texts) a value is the mean of.

import { el, svg } from "../elements.js";
import { formatted } from "../numbers.js";

const WIDTHS = { lead: 520, usual: 340 };
const HEIGHT = 150;
const LEFT = 48; // room for "−0.005" and "2.5e−4"
const TOP = 8;
const BOTTOM = HEIGHT - 20;
const MOST_DOTS = 100; // of a line; one with more points has none

// `isLead`: it is a wide one; `marks`: [{name, from, to}], steps where a warning begins and is over
// (or null); `onStep` is called with the step that is clicked.
export function chartFigure(chart, isLead, marks, onStep) {
  const width = isLead && innerWidth > 800 ? WIDTHS.lead : WIDTHS.usual;
  const scales = scalesOf(chart, width);
  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${HEIGHT}`,
    role: "img",
    "aria-label": inWords(chart),
  });
  picture.append(...marks.flatMap((mark) => stretchOf(mark, scales)), ...axes(chart, scales));
  for (const line of chart.lines) picture.append(...lineOf(line, scales));
  const many = chart.lines.length > 2;
  const output = el("output", many ? { class: "many" } : {}, lastValues(chart));
  readOut(picture, chart, scales, output, onStep);
  const caption = el("figcaption", {}, chart.label, output);
  return el("figure", isLead ? { class: "lead" } : {}, caption, picture, el("p", {}, chart.help));
}

// A line of this look, for the legend.
export function sampleOf(look) {
  const line = svg("line", { class: look, x1: 0, x2: 34, y1: 6, y2: 6 });
  return svg("svg", { "aria-hidden": true, viewBox: "0 0 34 12" }, line, dot(look, 17, 6, 100));
}

export function sampleOfWarning() {
  const area = svg("rect", { class: "warned", x: 4, y: 0, width: 30, height: 12 });
  const edge = svg("line", { class: "warns", x1: 4, x2: 4, y1: 0, y2: 12 });
  return svg("svg", { "aria-hidden": true, viewBox: "0 0 34 12" }, area, edge);
}

function stepsOf(chart) {
  return [...new Set(chart.lines.flatMap(({ points }) => points.map(([step]) => step)))];
}

// First and last step, the ends of the axis of values, and where a step and a value are drawn.
function scalesOf(chart, width) {
  const right = width - 8;
  const steps = stepsOf(chart);
  const first = steps.reduce((a, b) => Math.min(a, b));
  const last = steps.reduce((a, b) => Math.max(a, b));
  const values = chart.lines.flatMap(({ points }) => points.map(([, value]) => value ?? 0));
  const most = values.reduce((a, b) => Math.max(a, b), 0);
  const least = values.reduce((a, b) => Math.min(a, b), 0);
  const low = least < 0 ? -ceiling(-least) : 0;
  const top = chart.share ? 1 : most > 0 || low === 0 ? ceiling(most) : 0;
  const x = (step) =>
    LEFT + (right - LEFT) * (last > first ? (step - first) / (last - first) : 0.5);
  const y = (value) => BOTTOM - ((BOTTOM - TOP) * (value - low)) / (top - low);
  const stepAt = (px) => first + ((last - first) * (px - LEFT)) / (right - LEFT);
  return { first, last, low, top, width, right, x, y, stepAt };
}

function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return [1, 2, 5, 10].map((m) => m * power).find((m) => m >= value) || 1;
}

function axes(chart, { first, last, low, right, top, x, y }) {
  const stepLabel = (step, anchor, text) =>
    svg("text", { x: x(step), y: HEIGHT - 5, "text-anchor": anchor }, text);
  const ticks = low < 0 ? [...new Set([low, 0, top])] : [low, top / 2, top];
  const lines = ticks.flatMap((value) => [
    svg("line", { class: "grid", x1: LEFT, x2: right, y1: y(value), y2: y(value) }),
    svg(
      "text",
      { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end" },
      chart.share ? `${100 * value} %` : short(value),
    ),
  ]);
  const steps = [stepLabel(first, last > first ? "start" : "middle", `step ${first}`)];
  if (last > first) steps.push(stepLabel(last, "end", String(last)));
  return [...lines, ...steps];
}

function short(value) {
  const size = Math.abs(value);
  if (size && size < 0.001) return Number(value.toPrecision(3)).toExponential().replace(/-/g, "−");
  const text = size >= 10000 ? `${value / 1000}k` : String(Number(value.toPrecision(3)));
  return text.replace("-", "−");
}

// From 0 (one episode) to 1 (500 or more); a number that is not known is as 20.
function weightOf(number) {
  return Math.min(1, Math.log(Math.max(1, number ?? 20)) / Math.log(500));
}

function dot(look, x, y, number) {
  const weight = weightOf(number);
  const opacity = 0.4 + 0.6 * weight;
  return svg("circle", { class: `dot ${look}`, cx: x, cy: y, r: 1.2 + 2.6 * weight, opacity });
}

// The steps of a warning, as far as the chart has them.
function stretchOf({ name, from, to }, { first, last, x }) {
  if (from > last || (to !== null && to < first)) return [];
  const start = x(Math.max(from, first));
  const end = x(Math.min(to ?? last, last));
  const title = svg("title", {}, to === null ? `${name}, since ${from}` : `${name}, ${from}–${to}`);
  const place = { x: start, y: TOP, width: Math.max(1, end - start), height: BOTTOM - TOP };
  return [
    svg("rect", { class: "warned", ...place }, title),
    svg("line", { class: "warns", x1: start, x2: start, y1: TOP, y2: BOTTOM }),
  ];
}

// A line with a gap where a step has no value; pale where few episodes are behind its points.
function lineOf({ points, look }, { x, y }) {
  let path = "";
  let pen = "M";
  for (const [step, value] of points) {
    if (value !== null) path += `${pen}${x(step).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = value === null ? "M" : "L";
  }
  const valued = points.filter(([, value]) => value !== null);
  const weights = valued.map(([, , number]) => weightOf(number)).sort((a, b) => a - b);
  const opacity = 0.4 + 0.6 * weights[Math.floor(weights.length / 2)];
  const dots = valued.length <= MOST_DOTS ? valued : [];
  return [
    svg("path", { class: look, d: path, opacity }),
    ...dots.map(([step, value, number]) => dot(look, x(step), y(value), number)),
  ];
}

export function lastOf(items) {
  return items[items.length - 1];
}

// Of each line its last value, with the step where that is not the line's last one.
function lastValues({ lines, share }) {
  const words = ({ name, points }) => {
    const [step, value] = lastOf(points.filter(([, value]) => value !== null));
    const place = step === lastOf(points)[0] ? "" : ` (step ${step})`;
    return `${name} ${formatted(value, share)}${place}`;
  };
  return lines.map(words).join(" · ");
}

function inWords(chart) {
  const value = (number) => formatted(number, chart.share);
  const sentences = chart.lines.map(({ name, points }) => {
    const valued = points.filter(([, value]) => value !== null);
    const [from, start] = valued[0];
    const [to, end] = lastOf(valued);
    return `${name}: ${value(start)} at step ${from}, ${value(end)} at step ${to}`;
  });
  return `${chart.label}. ${sentences.join("; ")}`;
}

// Under the pointer: the nearest step's numbers; a click lists its sessions. The table of all curves
// has the same for the keyboard.
function readOut(picture, chart, { width, x, stepAt }, output, onStep) {
  const marker = svg("line", { class: "at", y1: TOP, y2: BOTTOM, visibility: "hidden" });
  const steps = stepsOf(chart);
  const words = ({ name }, [, value, number]) =>
    `${name} ${formatted(value, chart.share)}${number === null ? "" : ` of ${number}`}`;
  const valuesAt = (step) =>
    chart.lines.flatMap((line) =>
      line.points.filter((point) => point[0] === step).map((point) => words(line, point)),
    );
  let nearest = null;
  picture.append(marker);
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const pointed = stepAt(((event.clientX - box.left) * width) / box.width);
    const distance = (step) => Math.abs(step - pointed);
    nearest = steps.reduce((best, step) => (distance(step) < distance(best) ? step : best));
    marker.setAttribute("x1", x(nearest));
    marker.setAttribute("x2", x(nearest));
    marker.setAttribute("visibility", "visible");
    output.textContent = `step ${nearest}: ${valuesAt(nearest).join(" · ")}`;
  });
  picture.addEventListener("pointerleave", () => {
    marker.setAttribute("visibility", "hidden");
    output.textContent = lastValues(chart);
  });
  picture.addEventListener("click", () => {
    if (nearest !== null) onStep(nearest);
  });
}
