// Where the reader is: #overview, #list or #session-<number> in the address.

import { state } from "./state.js";

const narrow = matchMedia("(max-width: 800px)");

export function openSession(id) {
  location.hash = `session-${id}`;
}

// To the next session of the list (by = 1) or the one before (−1).
export function stepSession(by) {
  const at = state.listed.indexOf(state.current);
  const to = at < 0 ? state.active : at + by;
  if (to < 0 || to >= state.listed.length) return;
  location.replace(`#session-${state.listed[to]}`);
}

// The session that is open has another number now.
export function renumber(id) {
  state.current = id;
  history.replaceState(null, "", `#session-${id}`);
}

export function readAddress() {
  const id = /^#session-(\d+)$/.exec(location.hash)?.[1];
  state.current = id !== undefined && Number(id) < state.index.step.length ? Number(id) : null;
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
