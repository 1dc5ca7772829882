// A live page: asks its server what is new, and puts it in the place of what was shown.

import { isLive, liveIndex } from "./data.js";
import { el, visible } from "./elements.js";
import { state } from "./state.js";

const ASK_MS = 2000;
const box = document.getElementById("status");

// `onIndex` is called with each later index.
export async function firstIndex(onIndex) {
  const found = await liveIndex(state.run, "");
  take(found, onIndex);
  return found.index;
}

export function follow(onIndex) {
  if (!isLive) return;
  const ask = async () => {
    if (!document.hidden) await once(onIndex);
    setTimeout(ask, ASK_MS);
  };
  setTimeout(ask, ASK_MS);
  document.addEventListener("visibilitychange", () => !document.hidden && once(onIndex));
}

async function once(onIndex) {
  const run = state.run;
  try {
    const found = await liveIndex(run, state.version);
    if (run !== state.run) return; // another run was chosen meanwhile
    take(found, onIndex);
    if (found.index) onIndex(found.index);
  } catch (error) {
    box.className = "lost";
    box.textContent = `The server does not answer (${error.message}).`;
  }
}

function take(found, onIndex) {
  state.version = found.version;
  const runs = found.runs.length > 1 ? runChoice(found.runs, onIndex) : "";
  const focused = box.contains(document.activeElement);
  if (focused) return; // a list that is open would close
  box.className = "";
  box.replaceChildren(el("span", {}, statusOf(found.runs[state.run], found.now)), runs);
}

function statusOf(run, now) {
  if (run.waits) return `Waiting. ${visible(run.waits)}`;
  const firing = run.firing.length ? ` · ⚠ ${run.firing.join(", ")}` : "";
  return `● step ${run.step}, written ${ago(now - run.changed)} ago${firing}`;
}

function ago(seconds) {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

function runChoice(runs, onIndex) {
  const select = el("select", { "aria-label": "Run whose episodes are listed" });
  select.append(...runs.map((run, i) => new Option(visible(run.name), i)));
  select.value = state.run;
  select.addEventListener("change", () => {
    state.run = Number(select.value);
    state.version = "";
    select.blur();
    once(onIndex);
  });
  return select;
}

// What stays the same of a session when others come before it in the list.
export function keyOf(id) {
  const { run, step, split, uid, session } = state.index;
  return [run, step[id], split[id], session[id], uid[id]].join("\n");
}

// The session with this key in the index of now; null if it has none.
export function idOf(key) {
  const { length } = state.index.step;
  for (let id = length - 1; id >= 0; id--) if (keyOf(id) === key) return id;
  return null;
}
