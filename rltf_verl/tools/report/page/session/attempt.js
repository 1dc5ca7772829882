// A turn of a conversation: the attempt with its verdict, next to the attempt that it revises, the
// feedback on it, and what its teacher reads.

import { difference } from "./diff.js";
import { el, folded, textBox, visible } from "../elements.js";
import { counted, decimal } from "../numbers.js";
import { trainedBy } from "../tokens/training_rows.js";

// The attempt of turn k and the feedback on it.
export function turnBoxes(record, k) {
  const { withheld, feedback, teacher } = record.turns[k];
  return [
    attemptBox(record, k),
    withheld && feedbackBox(withheld, "Withheld feedback"),
    feedback && feedbackBox(feedback, "Feedback"),
    teacher && teacherBox(teacher, record.names[k]),
  ].filter(Boolean);
}

function teacherBox(teacher, name) {
  const size = counted(teacher.prompt_tokens, "token");
  const summary = el("summary", {}, `what the teacher of ${name} reads (${size})`);
  return el("details", { class: "prompt teacher" }, summary, textBox(teacher.prompt));
}

function attemptBox(record, k) {
  const turn = record.turns[k];
  const head = attemptHead(turn, record.names[k]);
  const body =
    turn.parent === null ? [head, textBox(turn.text)] : [pair(record, turn.parent, k, head)];
  if (turn.steps) body.push(stepsBox(turn));
  const box = el("div", { class: "turn" }, ...body);
  if (turn.prompt) {
    const summary = el("summary", {}, "the message that it answers");
    box.prepend(el("details", { class: "prompt" }, summary, textBox(turn.prompt)));
  }
  box.append(...attemptLines(turn, trainedBy(record, k)));
  return box;
}

// The steps of a trajectory, folded: what was sampled, and what the environment answered.
function stepsBox(turn) {
  const steps = turn.steps.flatMap((step, i) => [
    el("h4", {}, `step ${i + 1}`),
    textBox(step.text),
    ...step.results.flatMap((result) => [
      el("p", { class: result.kind === "ok" ? "line" : "line wrong" }, result.kind),
      textBox(result.observation),
    ]),
  ]);
  const summary = `${counted(turn.steps.length, "step")}, which ended: ${turn.end}`;
  return el("details", { class: "prompt" }, el("summary", {}, summary), ...steps);
}

function attemptHead(turn, name) {
  const { mark, meaning, colour } = verdictOf(turn);
  const end = turn.ended ? "" : " · cut off at the token limit";
  return el(
    "div",
    { class: "head" },
    el("h3", {}, name[0].toUpperCase() + name.slice(1)),
    el("strong", { class: colour }, `${mark} ${meaning}`),
    el(
      "span",
      { class: "soft" },
      `reward ${decimal(turn.reward)} · ${counted(turn.num_tokens, "token")}${end}`,
    ),
  );
}

function attemptLines(turn, trained) {
  const line = (text, wrong) => el("p", { class: wrong ? "line wrong" : "line" }, text);
  const end = [turn.stop, turn.error].filter(Boolean).join(" · ");
  return [
    turn.grade.parsed !== null && line(`answer: ${visible(turn.grade.parsed)}`),
    turn.grade.error && line(`grader: ${visible(turn.grade.error)}`, true),
    turn.stop && line(`end: ${visible(end)}`, turn.error),
    trained && line(`trains: ${trained}`),
  ].filter(Boolean);
}

function verdictOf(turn) {
  if (turn.stop === "ungraded") return { mark: "?", meaning: "not graded", colour: "note" };
  if (turn.grade.correct) return { mark: "✓", meaning: "right", colour: "right" };
  if (turn.grade.format_ok) return { mark: "✗", meaning: "wrong", colour: "wrong" };
  return { mark: "∅", meaning: "wrong, no answer found", colour: "wrong" };
}

// Attempt `before` next to its revision `after`: on the left the words that are gone are marked, on
// the right, under `head`, the added ones.
function pair(record, before, after, head) {
  const edits = difference(record.turns[before].text, record.turns[after].text);
  const marked = (other, tag) =>
    edits
      .filter(([kind]) => kind !== other)
      .flatMap(([kind, text]) => (kind ? [el(tag, {}, ...folded(text))] : folded(text)));
  const { mark, meaning, colour } = verdictOf(record.turns[before]);
  const verdict = el("strong", { class: colour }, `${mark} ${meaning}`);
  const name = el("span", { class: "soft" }, `before: ${record.names[before]}`);
  const left = el("div", {}, el("div", { class: "head" }, name, verdict));
  left.append(textBox("", ...marked(1, "del")));
  const right = el("div", {}, head, textBox("", ...marked(-1, "ins")));
  return el("div", { class: "pair" }, left, right);
}

function feedbackBox(feedback, label) {
  const facts = [
    feedback.fallback && "fixed sentence, the provider failed",
    feedback.sees_reference && "saw the reference",
    `${Number(feedback.latency_s).toFixed(2)} s`,
    feedback.cached && "cached",
  ].filter(Boolean);
  const box = el(
    "section",
    { class: label === "Feedback" ? "feedback" : "feedback withheld", "aria-label": label },
    el(
      "h4",
      {},
      `${label} · ${visible(feedback.provider)} `,
      el("span", { class: "soft" }, facts.join(" · ")),
    ),
    textBox(feedback.text),
  );
  if (feedback.leak)
    box.append(el("p", { class: "line wrong" }, `leak: ${visible(feedback.leak)}`));
  if (feedback.original) {
    box.append(el("p", { class: "line" }, `instead of: ${visible(feedback.original)}`));
  }
  return box;
}
