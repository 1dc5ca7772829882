// One chart over the steps, drawn from numbers that were computed in Python.
//
// A chart has `label`, `help`, `share` (whether its numbers are shares) and `lines`, each with
// `name`, `look` (classes of overview.css) and `points` [[step, value or null], …].

import { el, svg } from "../elements.js";
import { formatted } from "../numbers.js";

const WIDTH = 340;
const HEIGHT = 150;
const LEFT = 48; // room for "−0.005" and "2.5e−4"
const RIGHT = WIDTH - 8;
const TOP = 8;
const BOTTOM = HEIGHT - 20;
const MOST_DOTS = 40; // of a line; one with more points has none

// `marks`: [{name, from, to}], steps where a warning begins and is over (or null); `onStep` is called
// with the step that is clicked.
export function chartFigure(chart, marks, onStep) {
  const scales = scalesOf(chart);
  const picture = svg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    role: "img",
    "aria-label": inWords(chart),
  });
  picture.append(...marks.flatMap((mark) => stretchOf(mark, scales)), ...axes(chart, scales));
  for (const line of chart.lines) picture.append(...lineOf(line, scales));
  const many = chart.lines.length > 2;
  const output = el("output", many ? { class: "many" } : {}, lastValues(chart));
  readOut(picture, chart, scales, output, onStep);
  const caption = el("figcaption", {}, chart.label, output);
  return el("figure", {}, caption, picture, el("p", {}, chart.help));
}

// A line of this look, for the legend.
export function sampleOf(look) {
  const line = svg("line", { class: look, x1: 0, x2: 34, y1: 6, y2: 6 });
  return svg("svg", { "aria-hidden": true, viewBox: "0 0 34 12" }, line, dot(look, 17, 6));
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
function scalesOf(chart) {
  const steps = stepsOf(chart);
  const first = steps.reduce((a, b) => Math.min(a, b));
  const last = steps.reduce((a, b) => Math.max(a, b));
  const values = chart.lines.flatMap(({ points }) => points.map(([, value]) => value ?? 0));
  const most = values.reduce((a, b) => Math.max(a, b), 0);
  const least = values.reduce((a, b) => Math.min(a, b), 0);
  const low = least < 0 ? -ceiling(-least) : 0;
  const top = chart.share ? 1 : most > 0 || low === 0 ? ceiling(most) : 0;
  const x = (step) =>
    LEFT + (RIGHT - LEFT) * (last > first ? (step - first) / (last - first) : 0.5);
  const y = (value) => BOTTOM - ((BOTTOM - TOP) * (value - low)) / (top - low);
  const stepAt = (px) => first + ((last - first) * (px - LEFT)) / (RIGHT - LEFT);
  return { first, last, low, top, x, y, stepAt };
}

function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return [1, 2, 5, 10].map((m) => m * power).find((m) => m >= value) || 1;
}

function axes(chart, { first, last, low, top, x, y }) {
  const stepLabel = (step, anchor, text) =>
    svg("text", { x: x(step), y: HEIGHT - 5, "text-anchor": anchor }, text);
  const ticks = low < 0 ? [...new Set([low, 0, top])] : [low, top / 2, top];
  const lines = ticks.flatMap((value) => [
    svg("line", { class: "grid", x1: LEFT, x2: RIGHT, y1: y(value), y2: y(value) }),
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

function dot(look, x, y) {
  return svg("circle", { class: `dot ${look}`, cx: x, cy: y, r: 2.6 });
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

// A line with a gap where a step has no value.
function lineOf({ points, look }, { x, y }) {
  let path = "";
  let pen = "M";
  for (const [step, value] of points) {
    if (value !== null) path += `${pen}${x(step).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = value === null ? "M" : "L";
  }
  const valued = points.filter(([, value]) => value !== null);
  const dots = valued.length <= MOST_DOTS ? valued : [];
  return [
    svg("path", { class: look, d: path }),
    ...dots.map(([step, value]) => dot(look, x(step), y(value))),
  ];
}

function lastValues(chart) {
  const lastOf = (points) => formatted(points[points.length - 1][1], chart.share);
  return chart.lines.map(({ name, points }) => `${name} ${lastOf(points)}`).join(" · ");
}

function inWords(chart) {
  const value = (number) => formatted(number, chart.share);
  const sentences = chart.lines.map(({ name, points }) => {
    const [from, start] = points[0];
    const [to, end] = points[points.length - 1];
    return `${name}: ${value(start)} at step ${from}, ${value(end)} at step ${to}`;
  });
  return `${chart.label}. ${sentences.join("; ")}`;
}

// Under the pointer: the nearest step's numbers; a click lists its sessions. The table of all curves
// has the same for the keyboard.
function readOut(picture, chart, { x, stepAt }, output, onStep) {
  const marker = svg("line", { class: "at", y1: TOP, y2: BOTTOM, visibility: "hidden" });
  const steps = stepsOf(chart);
  const values = chart.lines.map(({ points }) => new Map(points));
  const valuesAt = (step) =>
    chart.lines.flatMap(({ name }, i) =>
      values[i].has(step) ? [`${name} ${formatted(values[i].get(step), chart.share)}`] : [],
    );
  let nearest = null;
  picture.append(marker);
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const pointed = stepAt(((event.clientX - box.left) * WIDTH) / box.width);
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
