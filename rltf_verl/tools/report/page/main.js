// Starts the page; the keys that work everywhere.

import { isLive, unpacked } from "./data.js";
import { fillFilters, filter, filterByStep, filterInPlace, form } from "./list/filters.js";
import { activate, draw, legendOfMarks, listBox, onListKey } from "./list/list.js";
import { firstIndex, follow, idOf, keyOf } from "./live.js";
import { drawOverview } from "./overview/overview.js";
import { readAddress, renumber, showList, showOverview, stepSession } from "./places.js";
import { forgetTexts, readTexts } from "./list/search.js";
import { showSession } from "./session/session.js";
import { state } from "./state.js";

function followAddress() {
  readAddress();
  const at = state.listed.indexOf(state.current);
  if (at >= 0) activate(at);
  else draw();
  if (state.current !== null) showSession(state.current);
}

function onStep(step) {
  filterByStep(step);
  showList(listBox);
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    onEscape(event);
  } else if (event.target.closest("input, select, textarea")) {
    if (event.key === "Enter") event.preventDefault();
  } else if (event.key === "/") {
    event.preventDefault();
    showList(form.elements.text);
  } else if (event.key === "j") stepSession(1);
  else if (event.key === "k") stepSession(-1);
}

// Out of a session or a filter into the list; out of the list to the overview.
function onEscape(event) {
  event.preventDefault();
  if (document.activeElement === listBox) showOverview();
  else showList(listBox);
}

async function start() {
  state.index = isLive ? await firstIndex(renew) : await unpacked("index");
  document.getElementById("marks").append(legendOfMarks());
  fillFilters();
  drawOverview(onStep);
  document.getElementById("loading").hidden = true;
  filter();
  followAddress();
  form.addEventListener("input", filter);
  form.addEventListener("reset", () => setTimeout(filter));
  form.addEventListener("submit", (event) => event.preventDefault());
  listBox.addEventListener("scroll", draw);
  listBox.addEventListener("keydown", onListKey);
  addEventListener("keydown", onKey);
  addEventListener("hashchange", followAddress);
  addEventListener("resize", draw);
  performance.measure("load");
  // So that they are there when somebody searches; a live page asks for them then.
  if (!isLive) setTimeout(readTexts);
  follow(renew);
}

// A live page has a new index: everything that was numbered by the old one gets its new number.
function renew(index) {
  const { current, listed, active, shownId } = state;
  const { run } = state.index;
  const keys = [current, listed[active], shownId].map((id) => (id == null ? null : keyOf(id)));
  state.index = index;
  const [open, chosen, shown] = keys.map((key) => (key === null ? null : idOf(key)));
  forgetTexts();
  fillFilters();
  state.shownId = shown;
  if (open !== null) renumber(open);
  else state.current = null;
  if (current !== null && index.run !== run) location.hash = "overview";
  drawOverview(onStep);
  filterInPlace(chosen);
}

start().catch((error) => {
  document.getElementById("loading").textContent = `This page cannot be shown: ${error.message}`;
});
