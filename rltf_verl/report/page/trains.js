// Under a conversation: what the session trains, row by row.

const OF_TURN = ["attempt", "distill", "imitate"];  // roles whose tokens are an attempt's own

function trains(record, id) {
  if (!record.rows) return "";
  const own = el("section", { class: "trains", "aria-labelledby": "trains-title" }, el("h3", { id: "trains-title" }, "What it trains"));
  const known = (index.trains[id] & 1) === 1, boxes = record.rows.map(trainedRow);
  if (!boxes.length) own.append(el("p", { class: "soft" }, "Nothing."));
  if (!known && boxes.length) own.append(el("p", { class: "soft" }, "The log holds the tokens of a few sessions of each step; of this one only means."));
  own.append(...boxes);
  if (known) tokensOf(id).then((columns) => { if (id === shownId) showTokens(own, boxes, columns); });
  return own;
}

function trainedRow(row, i) {
  return el("section", { class: "trained", "aria-label": `Row ${i + 1}` },
    el("h4", {}, `Row ${i + 1}: ${row.title}`), ...row.parts.map(trainedPart));
}

function trainedPart(part) {
  const numbers = [`${part.tokens} token${part.tokens === 1 ? "" : "s"}`, `advantage ${signed(part.advantage)}`,
    `masked ${shown(finite(part.masked), true)}`, `mean log\u2011prob ${decimal(part.log_prob)}`, `mean gap ${signed(part.gap)}`];
  return el("div", { class: "part" },
    el("p", {}, el("strong", { class: "role" }, visible(part.role)), ` ${part.what} `, el("span", { class: "soft" }, index.roles[part.role] || "")),
    el("p", { class: "numbers" }, direction(part.advantage), ...numbers.map((told) => el("span", {}, told))));
}

// More of it or less of it, also for those who see no colours.
function direction(advantage) {
  if (advantage > 0) return el("span", { class: "up" }, "▲ more likely");
  return advantage < 0 ? el("span", { class: "down" }, "▼ less likely") : el("span", { class: "soft" }, "◆ no change");
}

// In one line, which rows an attempt's tokens are trained in.
function trainedBy(record, k) {
  const found = (record.rows || []).flatMap((row, i) => row.parts.filter((part) => part.turn === k && OF_TURN.includes(part.role))
    .map((part) => `row ${i + 1}, ${visible(part.role)} ${signed(part.advantage)}`));
  return found.join(" · ");
}

function finite(value) {
  return Number.isFinite(value) ? value : null;
}

// A log may hold "nan" in place of a number.
function decimal(value) {
  return Number.isFinite(value) ? String(Number(value.toPrecision(3))).replace("-", "−") : visible(value);
}

function signed(value) {
  return (value > 0 ? "+" : "") + decimal(value);
}
