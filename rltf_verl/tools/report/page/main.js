// Starts the page; the keys that work everywhere.

import { part } from "./data.js";
import { visible } from "./elements.js";
import { fillFilters, filter, filterByStep, form } from "./list/filters.js";
import { activate, draw, legendOfMarks, listBox, onListKey } from "./list/list.js";
import { drawOverview } from "./overview/overview.js";
import { chooseRunOfAddress, readAddress, showList, showOverview, stepSession } from "./places.js";
import { forgetTexts, readTexts } from "./list/search.js";
import { showSession } from "./session/session.js";
import { chooseRun, state } from "./state.js";

const runChoice = document.getElementById("run");

function followAddress() {
  if (chooseRunOfAddress()) listRun();
  readAddress();
  const at = state.listed.indexOf(state.current);
  if (at >= 0) activate(at);
  else draw();
  if (state.current !== null) showSession(state.current);
}

// The list of the run that was chosen.
function listRun() {
  runChoice.value = state.run;
  forgetTexts();
  fillFilters();
  filter();
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

function onRun() {
  chooseRun(state.page, Number(runChoice.value));
  listRun();
  location.hash = "list";
}

// The file of a run that trains is written again and again. The overview stays where it is
// scrolled to; an open episode and a filtered list stay until the reader leaves them.
function reloadAfter(seconds) {
  const main = document.querySelector("main");
  let filtered = false;
  main.scrollTop = history.state?.scrolled ?? 0;
  form.addEventListener("input", () => (filtered = true));
  form.addEventListener("reset", () => (filtered = false));
  setInterval(() => {
    if (filtered || listBox.scrollTop || document.body.dataset.view !== "overview") return;
    history.replaceState({ scrolled: main.scrollTop }, "");
    location.reload();
  }, 1000 * seconds);
}

async function start() {
  chooseRun(await part("index"), 0);
  document.getElementById("marks").append(legendOfMarks());
  const { runs } = state.page;
  runChoice.append(...runs.map(({ name }, k) => new Option(visible(name), k)));
  runChoice.hidden = runs.length < 2;
  chooseRunOfAddress();
  drawOverview(onStep);
  document.getElementById("loading").hidden = true;
  listRun();
  followAddress();
  form.addEventListener("input", filter);
  form.addEventListener("reset", () => setTimeout(filter));
  form.addEventListener("submit", (event) => event.preventDefault());
  runChoice.addEventListener("change", onRun);
  listBox.addEventListener("scroll", draw);
  listBox.addEventListener("keydown", onListKey);
  addEventListener("keydown", onKey);
  addEventListener("hashchange", followAddress);
  addEventListener("resize", draw);
  if (state.page.reload_s !== null) reloadAfter(state.page.reload_s);
  performance.measure("load");
  setTimeout(readTexts); // so that a search finds them read
}

start().catch((error) => {
  document.getElementById("loading").textContent = `This page cannot be shown: ${error.message}`;
});
