// Where the reader is: #overview, #list or #episode/<run>/<step>.<split>/<uid>/<number> in the
// address. It stays right when the page is written again and loaded again.

import { chooseRun, state } from "./state.js";

const narrow = matchMedia("(max-width: 800px)");

export function addressOf(id) {
  const { session, split, step, uid } = state.index;
  const place = `${state.run}/${step[id]}.${split[id]}`;
  return `#episode/${place}/${encodeURIComponent(uid[id])}/${session[id]}`;
}

export function openSession(id) {
  location.hash = addressOf(id);
}

// To the next session of the list (by = 1) or the one before (−1).
export function stepSession(by) {
  const at = state.listed.indexOf(state.current);
  const to = at < 0 ? state.active : at + by;
  if (to < 0 || to >= state.listed.length) return;
  location.replace(addressOf(state.listed[to]));
}

// The run in the address becomes the listed one. Whether it was another one before.
export function chooseRunOfAddress() {
  const run = Number(location.hash.split("/")[1]);
  if (!location.hash.startsWith("#episode/") || run === state.run || !state.page.runs[run]) {
    return false;
  }
  chooseRun(state.page, run);
  return true;
}

// null: the run has no such session.
export function idAt(address) {
  const { length } = state.index.step;
  for (let id = length - 1; id >= 0; id--) if (addressOf(id) === address) return id;
  return null;
}

export function readAddress() {
  state.current = idAt(location.hash);
  const other = location.hash === "#list" ? "list" : "overview";
  document.body.dataset.view = state.current !== null ? "episode" : other;
}

// On a wide screen the list is always there.
export function showList(focused) {
  if (narrow.matches) {
    location.hash = "list";
    document.body.dataset.view = "list"; // at once: what is hidden takes no focus
  }
  focused.focus();
}

export function showOverview() {
  location.hash = "overview";
  document.getElementById("overview-title").focus();
}
