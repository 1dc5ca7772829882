// One session as a conversation: its facts, its turns, and what it trains.

import { turnBoxes } from "./attempt.js";
import { sessionOf } from "../data.js";
import { el, textBox, visible } from "../elements.js";
import { addressOf, stepSession } from "../places.js";
import { problemOverSteps } from "./problem.js";
import { state } from "../state.js";
import { trainingRows } from "../tokens/training_rows.js";

export async function showSession(id) {
  const found = await sessionOf(id).catch((error) => error);
  if (id !== state.current) return; // another one was opened meanwhile
  if (!(found instanceof Error)) {
    drawSession(found, id);
    return;
  }
  const trouble = el("p", {}, `This episode cannot be shown: ${found.message}.`);
  document.getElementById("episode").replaceChildren(stepBar(id), trouble);
}

function drawSession(record, id) {
  const place = `Step ${record.step} · ${record.split} · ${visible(record.env)} ${record.index}`;
  const title = el(
    "h2",
    { id: "episode-title", tabindex: -1 },
    `${place} · episode ${record.session_id}`,
  );
  state.shown = addressOf(id);
  document
    .getElementById("episode")
    .replaceChildren(
      stepBar(id),
      title,
      factsOf(record),
      problemOverSteps(id),
      turnList(record),
      trainingRows(record),
    );
  document.querySelector("main").scrollTop = 0;
  title.focus({ preventScroll: true });
}

// After the list was filtered: the place in it.
export function refreshSession() {
  const { current, shown } = state;
  if (current === null || addressOf(current) !== shown) return;
  document.querySelector("#episode .bar").replaceWith(stepBar(current));
}

function stepBar(id) {
  const at = state.listed.indexOf(id);
  const place =
    at < 0 ? "not in the list as it is filtered" : `${at + 1} of ${state.listed.length}`;
  return el(
    "div",
    { class: "bar" },
    stepButton("‹ previous", at - 1, -1),
    stepButton("next ›", at + 1, 1),
    el("span", {}, place),
  );
}

function stepButton(label, to, by) {
  const node = el("button", { type: "button" }, label);
  node.disabled = to < 0 || to >= state.listed.length;
  node.addEventListener("click", () => stepSession(by));
  return node;
}

function factsOf(record) {
  const shortened = `${record.num_shortened} prompts quote an attempt only in part, to fit`;
  return el(
    "dl",
    { class: "facts" },
    ...(record.context ?? []).flatMap((said) => fact(visible(said.role), textBox(said.content))),
    ...fact("question", textBox(record.question)),
    ...(record.reference ? fact("reference", textBox(record.reference)) : []),
    ...fact("uid", visible(record.uid)),
    ...(record.num_shortened ? fact("shortened", shortened) : []),
  );
}

function fact(name, value) {
  return [el("dt", {}, name), el("dd", {}, value)];
}

function turnList(record) {
  const items = record.turns.map((_, k) => el("li", {}, ...turnBoxes(record, k)));
  return el("ol", { class: "turns", "aria-label": "Turns" }, ...items);
}
