// A turn of a conversation: the attempt with its verdict and what changed, the feedback on it, and
// what its teacher reads.

import { difference } from "./diff.js";
import { el, textBox, visible } from "../elements.js";
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
  const body = el("div", {}, textBox(turn.text));
  const box = el("div", { class: "turn" }, head, body);
  if (turn.prompt) {
    const summary = el("summary", {}, "the message that it answers");
    box.prepend(el("details", { class: "prompt" }, summary, textBox(turn.prompt)));
  }
  if (turn.parent !== null) compare(head, body, record.turns[turn.parent].text, turn.text);
  box.append(...attemptLines(turn, trainedBy(record, k)));
  return box;
}

function attemptHead(turn, name) {
  const { mark, meaning, colour } = verdictOf(turn);
  const end = turn.ended ? "" : " · cut off at the token limit";
  return el(
    "div",
    {},
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

// Shows what changed against the attempt before; the button shows the attempt as it is.
function compare(head, body, before, after) {
  const toggle = el("button", { type: "button", "aria-pressed": false }, "changes");
  const edits = difference(before, after).map(([kind, text]) =>
    kind ? el(kind > 0 ? "ins" : "del", {}, visible(text)) : visible(text),
  );
  const edited = textBox(after, ...edits);
  const plain = body.firstChild;
  toggle.addEventListener("click", () => {
    const on = toggle.getAttribute("aria-pressed") !== "true";
    toggle.setAttribute("aria-pressed", on);
    toggle.textContent = on ? "changes: marked" : "changes";
    body.replaceChildren(on ? edited : plain);
  });
  head.append(toggle);
  toggle.click();
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
