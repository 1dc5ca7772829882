// One session as a conversation: attempts, verdicts, feedback set apart, branches.

let shownId = null;

async function showEpisode(id) {
  const record = await session(id);
  if (id !== current) return;  // another one was opened meanwhile
  const place = `Step ${record.step} · ${record.split} · ${visible(record.env)} ${record.index} · session ${record.session_id}`;
  const at = listed.indexOf(id), bar = el("div", { class: "bar" }, button("‹ previous", -1), button("next ›", 1),
    el("span", {}, at < 0 ? "not in the list as it is filtered" : `${at + 1} of ${listed.length}`));
  const title = el("h2", { id: "episode-title", tabindex: -1 }, place);
  const facts = el("dl", { class: "facts" }, ...fact("question", pre(record.question)), ...fact("reference", pre(record.reference)),
    ...fact("uid", visible(record.uid)),
    ...(record.num_shortened ? fact("shortened", `${record.num_shortened} prompts quote an attempt only in part, to fit`) : []));
  shownId = id;
  document.getElementById("episode").replaceChildren(bar, title, facts, branch(record, [0], 0), trains(record, id));
  document.querySelector("main").scrollTop = 0;
  title.focus({ preventScroll: true });
}

function button(label, by) {
  const node = el("button", { type: "button" }, label), to = listed.indexOf(current) + by;
  node.disabled = to < 0 || to >= listed.length;
  node.addEventListener("click", () => step(by));
  return node;
}

function fact(name, value) {
  return [el("dt", {}, name), el("dd", {}, value)];
}

// The turns at `places`, each with what follows it: the one revision after it, several ones set in.
function branch(record, places, depth) {
  const turns = record.turns, list = el("ol", { class: "turns", "aria-label": depth ? `${places.length} branches` : "Turns" });
  for (let k of places) {
    while (k !== undefined && k < turns.length) {
      const here = k, after = turns.map((turn, j) => (turn.parent === here ? j : -1)).filter((j) => j >= 0);
      const item = el("li", {}, ...attempt(record, k));
      if (after.length > 1) item.append(branch(record, after, depth + 1));
      list.append(item);
      k = after.length === 1 ? after[0] : undefined;
    }
  }
  return list;
}

function attempt(record, k) {
  const turn = record.turns[k], [mark, told, colour] = verdictOf(turn), name = record.names[k];
  const head = el("div", {}, el("h3", {}, name[0].toUpperCase() + name.slice(1)), el("strong", { class: colour }, `${mark} ${told}`),
    el("span", { class: "soft" }, `reward ${turn.reward} · ${turn.num_tokens} token${turn.num_tokens === 1 ? "" : "s"}${turn.ended ? "" : " · cut off at the token limit"}`));
  const body = el("div", {}, pre(turn.text)), box = el("div", { class: "turn" }, head, body);
  if (turn.prompt) box.prepend(el("details", { class: "prompt" }, el("summary", {}, "the message that it answers"), pre(turn.prompt)));
  if (turn.parent !== null) compare(head, body, record.turns[turn.parent].text, turn.text);
  if (turn.grade.parsed !== null) box.append(el("p", { class: "line" }, `answer: ${visible(turn.grade.parsed)}`));
  if (turn.grade.error) box.append(el("p", { class: "line wrong" }, `grader: ${visible(turn.grade.error)}`));
  if (turn.stop) box.append(el("p", { class: turn.error ? "line wrong" : "line" }, `end: ${visible([turn.stop, turn.error].filter(Boolean).join(" · "))}`));
  const taught = trainedBy(record, k);
  if (taught) box.append(el("p", { class: "line" }, `trains: ${taught}`));
  return [box, turn.withheld && said(turn.withheld, "Withheld feedback"), turn.feedback && said(turn.feedback, "Feedback")].filter(Boolean);
}

function verdictOf(turn) {
  if (turn.stop === "ungraded") return ["?", "not graded", "note"];
  if (turn.grade.correct) return ["✓", "right", "right"];
  return turn.grade.format_ok ? ["✗", "wrong", "wrong"] : ["∅", "wrong, no answer found", "wrong"];
}

// Shows what changed against the attempt before; the button shows the attempt as it is.
function compare(head, body, before, after) {
  const toggle = el("button", { type: "button", "aria-pressed": false }, "changes");
  const edited = el("pre", after.length > 2000 ? { tabindex: 0 } : {}, ...diff(before, after).map(([kind, text]) =>
    kind ? el(kind > 0 ? "ins" : "del", {}, visible(text)) : visible(text)));
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

function said(feedback, what) {
  const facts = [feedback.fallback ? "fixed sentence, the provider failed" : null, feedback.sees_reference ? "saw the reference" : null,
    `${Number(feedback.latency_s).toFixed(2)} s`, feedback.cached ? "cached" : null].filter(Boolean);
  const box = el("section", { class: what === "Feedback" ? "said" : "said withheld", "aria-label": what },
    el("h4", {}, `${what} · ${visible(feedback.provider)} `, el("span", { class: "soft" }, facts.join(" · "))), pre(feedback.text));
  if (feedback.leak) box.append(el("p", { class: "line wrong" }, `leak: ${visible(feedback.leak)}`));
  if (feedback.original) box.append(el("p", { class: "line" }, `instead of: ${visible(feedback.original)}`));
  return box;
}
