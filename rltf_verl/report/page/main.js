// Starts the page; the keys that work everywhere.

import { unpacked } from "./data.js";
import { filter, filterByStep, fillFilters, form } from "./filters.js";
import { activate, draw, listBox, onListKey } from "./list.js";
import { drawOverview } from "./overview.js";
import { readAddress, showList, showOverview, stepSession } from "./places.js";
import { readTexts } from "./search.js";
import { showSession } from "./session.js";
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
  state.index = await unpacked("index");
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
  requestIdleCallback(() => readTexts()); // so that they are there when somebody searches
}

start().catch((error) => {
  document.getElementById("loading").textContent = `This page cannot be shown: ${error.message}`;
});
