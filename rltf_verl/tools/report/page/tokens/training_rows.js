// Under a conversation: what the session trains, row by row.

import { part } from "../data.js";
import { el, visible } from "../elements.js";
import { counted, decimal, percent, signed } from "../numbers.js";
import { state } from "../state.js";
import { showTokens } from "./tokens.js";

const OF_FEEDBACK = ["critique", "feedback_modeling"]; // roles whose tokens are not an attempt's own

export function trainingRows(record) {
  if (!record.rows) return "";
  const boxes = record.rows.map(rowBox);
  const note = noteOn(boxes, record.tokens);
  const section = el(
    "section",
    { class: "trains", "aria-labelledby": "trains-title" },
    el("h3", { id: "trains-title" }, "What it trains"),
    note && el("p", { class: "soft" }, note),
    ...boxes,
  );
  if (record.tokens) {
    part(`${state.run}/${record.tokens}`).then(
      (rows) => showTokens(section, boxes, rows),
      (error) => section.append(el("p", {}, `No tokens: ${error.message}.`)),
    );
  }
  return section;
}

function noteOn(boxes, tokensKnown) {
  if (!boxes.length) return "Nothing.";
  if (tokensKnown) return null;
  return "The log holds the tokens of a few episodes of each step; of this one only means.";
}

function rowBox(row, i) {
  return el(
    "section",
    { class: "trained", "aria-label": `Row ${i + 1}` },
    el("h4", {}, `Row ${i + 1}: ${row.title}`),
    ...row.parts.map(partBox),
  );
}

function partBox(part) {
  const numbers = [
    counted(part.tokens, "token"),
    `advantage ${signed(part.advantage)}`,
    `masked ${percent(part.masked)}`,
    `mean log\u2011prob ${decimal(part.log_prob)}`,
    `mean gap ${signed(part.gap)}`,
  ];
  return el(
    "div",
    { class: "part" },
    el(
      "p",
      {},
      el("strong", { class: "role" }, visible(part.role)),
      ` ${part.what} `,
      el("span", { class: "soft" }, state.index.roles[part.role] || ""),
    ),
    el(
      "p",
      { class: "numbers" },
      direction(part.advantage),
      ...numbers.map((number) => el("span", {}, number)),
    ),
  );
}

// More of it or less of it, also for those who see no colours.
function direction(advantage) {
  if (advantage > 0) return el("span", { class: "up" }, "▲ more likely");
  if (advantage < 0) return el("span", { class: "down" }, "▼ less likely");
  return el("span", { class: "soft" }, "◆ no change");
}

// In one line, which rows an attempt's tokens are trained in.
export function trainedBy(record, k) {
  const own = (part) => part.turn === k && !OF_FEEDBACK.includes(part.role);
  const inRow = (row, i) =>
    row.parts
      .filter(own)
      .map((part) => `row ${i + 1}, ${visible(part.role)} ${signed(part.advantage)}`);
  return (record.rows || []).flatMap(inRow).join(" · ");
}
