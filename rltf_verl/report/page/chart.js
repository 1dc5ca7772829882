// One curve over the steps, drawn from numbers that were computed when the page was written.

import { el, svg } from "./elements.js";
import { formatted } from "./numbers.js";

export const SPLITS = ["train", "val"];
const WIDTH = 340;
const HEIGHT = 150;
const LEFT = 40;
const RIGHT = WIDTH - 8;
const TOP = 8;
const BOTTOM = HEIGHT - 20;
const MOST_DOTS = 40; // of a line; one with more points has none

// `onStep` is called with the step that is clicked.
export function curveFigure(curve, onStep) {
  const scales = scalesOf(curve);
  const picture = svg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    role: "img",
    "aria-label": inWords(curve),
  });
  picture.append(...axes(curve, scales));
  for (const split of SPLITS) picture.append(...lineOf(curve[split], split, scales));
  const output = el("output", {}, lastValues(curve));
  readOut(picture, curve, scales, output, onStep);
  const caption = el("figcaption", {}, curve.label, output);
  return el("figure", {}, caption, picture, el("p", {}, curve.help));
}

// The line of a split in the legend.
export function sampleOf(split) {
  const line = svg("line", { class: split, x1: 0, x2: 34, y1: 6, y2: 6 });
  const dots = split === "val" ? [dot(split, 17, 6)] : [];
  return svg("svg", { "aria-hidden": true, viewBox: "0 0 34 12" }, line, ...dots);
}

function stepsOf(curve) {
  return [...new Set(SPLITS.flatMap((split) => curve[split].map(([step]) => step)))];
}

// First and last step, the largest value on the axis, and where a step and a value are drawn.
function scalesOf(curve) {
  const steps = stepsOf(curve);
  const first = steps.reduce((a, b) => Math.min(a, b));
  const last = steps.reduce((a, b) => Math.max(a, b));
  const values = SPLITS.flatMap((split) => curve[split].map(([, value]) => value ?? 0));
  const top = curve.share ? 1 : ceiling(Math.max(...values));
  const x = (step) =>
    LEFT + (RIGHT - LEFT) * (last > first ? (step - first) / (last - first) : 0.5);
  const y = (value) => BOTTOM - ((BOTTOM - TOP) * value) / top;
  const stepAt = (px) => first + ((last - first) * (px - LEFT)) / (RIGHT - LEFT);
  return { first, last, top, x, y, stepAt };
}

function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return [1, 2, 5, 10].map((m) => m * power).find((m) => m >= value) || 1;
}

function axes(curve, { first, last, top, x, y }) {
  const stepLabel = (step, anchor, text) =>
    svg("text", { x: x(step), y: HEIGHT - 5, "text-anchor": anchor }, text);
  const lines = [0, top / 2, top].flatMap((value) => [
    svg("line", { class: "grid", x1: LEFT, x2: RIGHT, y1: y(value), y2: y(value) }),
    svg(
      "text",
      { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end" },
      curve.share ? `${100 * value} %` : String(value),
    ),
  ]);
  const steps = [stepLabel(first, last > first ? "start" : "middle", `step ${first}`)];
  if (last > first) steps.push(stepLabel(last, "end", String(last)));
  return [...lines, ...steps];
}

function dot(split, x, y) {
  return svg("circle", { class: `dot-${split}`, cx: x, cy: y, r: 2.6 });
}

// A line with a gap where a step has no value.
function lineOf(points, split, { x, y }) {
  let path = "";
  let pen = "M";
  for (const [step, value] of points) {
    if (value !== null) path += `${pen}${x(step).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = value === null ? "M" : "L";
  }
  const valued = points.filter(([, value]) => value !== null);
  const dots = valued.map(([step, value]) => dot(split, x(step), y(value)));
  return [svg("path", { class: split, d: path }), ...(dots.length <= MOST_DOTS ? dots : [])];
}

function lastValues(curve) {
  const lastOf = (split) => formatted(curve[split][curve[split].length - 1][1], curve.share);
  return SPLITS.filter((split) => curve[split].length)
    .map((split) => `${split} ${lastOf(split)}`)
    .join(" · ");
}

function inWords(curve) {
  const ofSplit = (split) => {
    const [from, start] = curve[split][0];
    const [to, end] = curve[split][curve[split].length - 1];
    const value = (number) => formatted(number, curve.share);
    return `${split}: ${value(start)} at step ${from}, ${value(end)} at step ${to}`;
  };
  const sentences = SPLITS.filter((split) => curve[split].length).map(ofSplit);
  return `${curve.label}. ${sentences.join("; ")}`;
}

// Under the pointer: the nearest step's numbers; a click lists its sessions. The table of all curves
// has the same for the keyboard.
function readOut(picture, curve, { x, stepAt }, output, onStep) {
  const marker = svg("line", { class: "at", y1: TOP, y2: BOTTOM, visibility: "hidden" });
  const steps = stepsOf(curve);
  const values = Object.fromEntries(SPLITS.map((split) => [split, new Map(curve[split])]));
  const valuesAt = (step) =>
    SPLITS.filter((split) => values[split].has(step)).map(
      (split) => `${split} ${formatted(values[split].get(step), curve.share)}`,
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
    output.textContent = lastValues(curve);
  });
  picture.addEventListener("click", () => {
    if (nearest !== null) onStep(nearest);
  });
}
