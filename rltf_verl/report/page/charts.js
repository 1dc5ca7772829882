// The overview: curves over the steps, drawn from numbers that were computed when the page was written.

const SPLITS = ["train", "val"];
const WIDTH = 340, HEIGHT = 150, LEFT = 40, RIGHT = 8, TOP = 8, BOTTOM = 20;

function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function shown(value, share) {
  if (value === null || value === undefined) return "–";
  return share ? `${(100 * value).toFixed(1)} %` : String(Number(value.toFixed(1)));
}

function overview(onStep) {
  const drawn = index.curves.filter((c) => c.train.length || c.val.length);
  const without = index.curves.filter((c) => !drawn.includes(c)).map((c) => c.label);
  const charts = el("div", { id: "charts" }, ...drawn.map((c) => chart(c, onStep)));
  document.getElementById("overview").append(
    totals(), ends(), legend(), charts,
    without.length ? el("p", { class: "soft" }, `No numbers in this log for: ${without.join(", ")}.`) : "",
    numbers(drawn));
}

function totals() {
  const head = ["", "sessions", "steps", "first right", "solved", "fixed", "broken", "changed", "friction", "words", "no\u2011op", "leaks"];
  const lines = index.totals.map((s) => {
    const last = s.turns[s.turns.length - 1];
    return [s.split, s.sessions, `${s.first_step}–${s.last_step}`, shown(s.turns[0]?.acc, true), shown(last?.solved, true),
      shown(s.revisions.fixed, true), shown(s.revisions.broken, true), shown(s.revisions.plasticity, true),
      shown(s.friction, true), shown(s.feedback.words, false), shown(s.feedback.no_op, true), shown(s.feedback.leak_share, true)];
  });
  return table(head, lines, "The whole run");
}

function ends() {
  const told = index.totals.map((s) => `${s.split} ${Object.entries(s.stops).map(([stop, num]) => `${stop} ${num}`).join(", ")}`);
  return el("p", { class: "soft" }, `How sessions ended: ${told.join("; ")}.`);
}

function table(head, lines, label) {
  const cells = (tag, line) => line.map((cell) => el(tag, tag === "th" ? { scope: "col" } : {}, String(cell)));
  return el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": label },
    el("table", {}, el("thead", {}, el("tr", {}, ...cells("th", head))),
      el("tbody", {}, ...lines.map((line) => el("tr", {}, ...cells("td", line))))));
}

function legend() {
  const sample = (split) => el("span", {}, svg("svg", { "aria-hidden": true, viewBox: "0 0 34 12" },
    svg("line", { class: split, x1: 0, x2: 34, y1: 6, y2: 6 }), ...(split === "val" ? [dot(split, 17, 6)] : [])),
  split === "val" ? "validation" : "training");
  return el("p", { class: "legend" }, ...SPLITS.map(sample), el("span", {}, "click a step to list its sessions"));
}

function dot(split, x, y) {
  return svg("circle", { class: `dot-${split}`, cx: x, cy: y, r: 2.6 });
}

function chart(curve, onStep) {
  const points = SPLITS.flatMap((split) => curve[split].map(([step]) => step));
  const first = points.reduce((a, b) => Math.min(a, b)), last = points.reduce((a, b) => Math.max(a, b));
  const most = curve.share ? 1 : ceiling(Math.max(...SPLITS.flatMap((s) => curve[s].map(([, v]) => v ?? 0))));
  const x = (step) => LEFT + (WIDTH - LEFT - RIGHT) * (last > first ? (step - first) / (last - first) : 0.5);
  const y = (value) => HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / most;
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": inWords(curve) });
  picture.append(...axes(curve, first, last, most, x, y));
  for (const split of SPLITS) picture.append(...line(curve[split], split, x, y));
  const output = el("output", {}, lastValues(curve));
  const figure = el("figure", {}, el("figcaption", {}, curve.label, output), picture, el("p", {}, curve.help));
  readOut(picture, curve, { first, last, x, output, onStep });
  return figure;
}

function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return [1, 2, 5, 10].map((m) => m * power).find((m) => m >= value) || 1;
}

function axes(curve, first, last, most, x, y) {
  const out = [];
  for (const value of [0, most / 2, most]) {
    out.push(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }));
    out.push(svg("text", { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end" }, curve.share ? `${100 * value} %` : String(value)));
  }
  out.push(svg("text", { x: x(first), y: HEIGHT - 5, "text-anchor": last > first ? "start" : "middle" }, `step ${first}`));
  if (last > first) out.push(svg("text", { x: x(last), y: HEIGHT - 5, "text-anchor": "end" }, String(last)));
  return out;
}

function line(points, split, x, y) {
  let path = "", pen = "M";
  for (const [step, value] of points) {
    if (value !== null) path += `${pen}${x(step).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = value === null ? "M" : "L";
  }
  const marked = points.filter(([, value]) => value !== null);
  const dots = marked.length <= 40 ? marked.map(([step, value]) => dot(split, x(step), y(value))) : [];
  return [svg("path", { class: split, d: path }), ...dots];
}

function lastValues(curve) {
  return SPLITS.filter((s) => curve[s].length).map((s) => {
    const [, value] = curve[s][curve[s].length - 1];
    return `${s} ${shown(value, curve.share)}`;
  }).join(" · ");
}

function inWords(curve) {
  const told = SPLITS.filter((s) => curve[s].length).map((s) => {
    const [from, start] = curve[s][0], [to, end] = curve[s][curve[s].length - 1];
    return `${s}: ${shown(start, curve.share)} at step ${from}, ${shown(end, curve.share)} at step ${to}`;
  });
  return `${curve.label}. ${told.join("; ")}`;
}

// Under the pointer: the nearest step's numbers; a click lists its sessions. The table below has the same for the keyboard.
function readOut(picture, curve, { first, last, x, output, onStep }) {
  const marker = svg("line", { class: "at", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  const steps = [...new Set(SPLITS.flatMap((s) => curve[s].map(([step]) => step)))];
  const values = Object.fromEntries(SPLITS.map((s) => [s, new Map(curve[s])]));
  let at = null;
  picture.append(marker);
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect(), px = (event.clientX - box.left) * WIDTH / box.width;
    const step = first + (last - first) * (px - LEFT) / (WIDTH - LEFT - RIGHT);
    at = steps.reduce((best, one) => (Math.abs(one - step) < Math.abs(best - step) ? one : best));
    marker.setAttribute("x1", x(at));
    marker.setAttribute("x2", x(at));
    marker.setAttribute("visibility", "visible");
    const here = SPLITS.filter((s) => values[s].has(at)).map((s) => `${s} ${shown(values[s].get(at), curve.share)}`);
    output.textContent = `step ${at}: ${here.join(" · ")}`;
  });
  picture.addEventListener("pointerleave", () => {
    marker.setAttribute("visibility", "hidden");
    output.textContent = lastValues(curve);
  });
  picture.addEventListener("click", () => { if (at !== null) onStep(at); });
}

function numbers(curves) {
  const details = el("details", {}, el("summary", {}, "The curves as a table"));
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    for (const split of SPLITS) {
      const drawn = curves.filter((c) => c[split].length);
      if (!drawn.length) continue;
      const columns = drawn.map((c) => new Map(c[split]));
      const lines = drawn[0][split].map(([step]) => [step, ...columns.map((c, i) => shown(c.get(step), drawn[i].share))]);
      details.append(el("h3", {}, split === "val" ? "Validation" : "Training"), table(["step", ...drawn.map((c) => c.label)], lines, split));
    }
  });
  return details;
}
