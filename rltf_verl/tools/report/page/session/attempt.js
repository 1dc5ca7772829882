// A turn of a conversation: the attempt with its verdict, next to the attempt that it revises, the
// feedback on it, and what its teacher reads.

import { difference } from "./diff.js";
import { el, folded, textBox, visible } from "../elements.js";
import { counted, decimal } from "../numbers.js";
import { state } from "../state.js";
import { trainedBy } from "../tokens/training_rows.js";

// The attempt of turn k and the feedback on it.
export function turnBoxes(record, k) {
  const { withheld, feedback, teacher } = record.turns[k];
  return [
    attemptBox(record, k),
    withheld && feedbackBox(withheld, "Withheld feedback"),
    feedback && feedbackBox({ ...feedback, text: besideNotes(record.turns[k]) }, "Feedback"),
    teacher && teacherBox(teacher, nameOf(k)),
  ].filter(Boolean);
}

const nameOf = (k) => `attempt ${k + 1}`;

// The feedback without the notes that are next to their steps.
function besideNotes(turn) {
  const { notes, text } = turn.feedback;
  if (!notes) return text;
  const whole = notesOn(turn, null).map((note) =>
    note.step === null ? note.text : `Step ${note.step + 1}: ${note.text}`,
  );
  return whole.join("\n") || "Next to its steps.";
}

function teacherBox(teacher, name) {
  const size = counted(teacher.prompt_tokens, "token");
  const summary = el("summary", {}, `what the teacher of ${name} reads (${size})`);
  return el("details", { class: "prompt teacher" }, summary, textBox(teacher.prompt));
}

function attemptBox(record, k) {
  const turn = record.turns[k];
  const head = attemptHead(turn, nameOf(k));
  const box = el("div", { class: "turn" }, ...attemptBody(record, k, head));
  if (turn.prompt) {
    const summary = el("summary", {}, "the message that it answers");
    box.prepend(el("details", { class: "prompt" }, summary, textBox(turn.prompt)));
  }
  box.append(...attemptLines(turn, trainedBy(record, k)));
  return box;
}

function attemptBody(record, k, head) {
  const turn = record.turns[k];
  if (turn.steps) return [head, stepList(turn, record.turns[k - 1])];
  return k === 0 ? [head, textBox(turn.text)] : [pair(record, k - 1, head, turn)];
}

// The steps of a trajectory: what was said, the calls, what came back, and next to it the notes.
// Those that are as in the attempt `before` are pale.
function stepList(turn, before) {
  const kept = (step, i) => JSON.stringify(step) === JSON.stringify(before?.steps?.[i]);
  const items = turn.steps.map((step, i) => {
    const [name, look] = kept(step, i) ? ["as before", "step kept"] : ["", "step"];
    const notes = notesOn(turn, i).map(({ text }) => textBox(text));
    return el(
      "li",
      { class: look },
      el("h4", {}, `step ${i + 1} `, el("span", { class: "soft" }, name)),
      el("div", { class: "done" }, ...playedParts(step)),
      notes.length ? el("aside", { class: "feedback", "aria-label": "Note" }, ...notes) : null,
    );
  });
  return el("ol", { class: "trajectory", "aria-label": "Steps" }, ...items);
}

function playedParts(step) {
  const seen = step.results.map(({ kind, observation }) =>
    el(
      "div",
      { class: kind === "ok" ? "seen" : "seen bad" },
      ...(kind === "ok" ? [] : [el("strong", { class: "wrong" }, kind)]),
      textBox(observation),
    ),
  );
  return [...(step.said ? [textBox(step.said)] : []), ...step.calls.map(callBox), ...seen];
}

// A tool with its arguments, texts as they are.
function callBox([tool, given]) {
  const lines = Object.entries(given).flatMap(([name, value]) => [
    el("dt", {}, visible(name)),
    el("dd", {}, textBox(typeof value === "string" ? value : JSON.stringify(value))),
  ]);
  return el("div", { class: "call" }, el("strong", {}, visible(tool)), el("dl", {}, ...lines));
}

// `step` null: notes on the whole, and on steps that were not played.
function notesOn(turn, step) {
  const place = (note) => (turn.steps?.[note.step] ? note.step : null);
  return (turn.feedback?.notes ?? []).filter((note) => place(note) === step);
}

function attemptHead(turn, name) {
  const { mark, meaning, colour } = verdictOf(turn);
  const end = turn.ended ? "" : " · cut off at the token limit";
  const steps =
    turn.steps && `${counted(turn.steps.length, "step")} · ended: ${inWordsOf(turn.end)}`;
  return el(
    "div",
    { class: "head" },
    el("h3", {}, name[0].toUpperCase() + name.slice(1)),
    el("strong", { class: colour }, `${mark} ${meaning}`),
    el(
      "span",
      { class: "soft" },
      `reward ${decimal(turn.reward)} · ${counted(turn.num_tokens, "token")}${steps ? ` · ${steps}` : end}`,
    ),
  );
}

function inWordsOf(end) {
  return state.page.ends[end] ?? end;
}

function attemptLines(turn, trained) {
  const line = (text, wrong) => el("p", { class: wrong ? "line wrong" : "line" }, text);
  const end = [turn.stop && inWordsOf(turn.stop), turn.error].filter(Boolean).join(" · ");
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
function pair(record, before, head, after) {
  const edits = difference(record.turns[before].text, after.text);
  const marked = (other, tag) =>
    edits
      .filter(([kind]) => kind !== other)
      .flatMap(([kind, text]) => (kind ? [el(tag, {}, ...folded(text))] : folded(text)));
  const { mark, meaning, colour } = verdictOf(record.turns[before]);
  const verdict = el("strong", { class: colour }, `${mark} ${meaning}`);
  const name = el("span", { class: "soft" }, `before: ${nameOf(before)}`);
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
