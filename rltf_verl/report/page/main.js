// Where the reader is (#overview, #list, #session-<number>), and the keys.

const narrow = matchMedia("(max-width: 800px)");

function open(id) {
  location.hash = `session-${id}`;
}

function step(by) {
  const at = listed.indexOf(current), to = at < 0 ? active : at + by;
  if (to < 0 || to >= listed.length) return;
  location.replace(`#session-${listed[to]}`);
}

function follow() {
  const id = /^#session-(\d+)$/.exec(location.hash)?.[1];
  current = id !== undefined && Number(id) < index.step.length ? Number(id) : null;
  document.body.dataset.view = current !== null ? "episode" : location.hash === "#list" ? "list" : "overview";
  if (current !== null) {
    if (listed.includes(current)) choose(listed.indexOf(current));
    else draw();
    showEpisode(current);
  } else draw();
}

// On a wide screen the list is always there.
function showList(focused) {
  if (narrow.matches) {
    location.hash = "list";
    document.body.dataset.view = "list";  // at once: what is hidden takes no focus
  }
  focused.focus();
}

function onStep(step) {
  form.elements.from.value = form.elements.to.value = step;
  filter();
  showList(rows);
}

function onListKey(event) {
  const page = Math.max(1, Math.floor(rows.clientHeight / ROW) - 1);
  const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
  if (by !== undefined) choose(active + by);
  else if (event.key === "Enter" && listed.length) open(listed[active]);
  else return;
  event.preventDefault();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") return escape(event);
  if (event.target.closest("input, select, textarea")) {
    if (event.key === "Enter") event.preventDefault();
    return;
  }
  if (event.key === "/") {
    event.preventDefault();
    showList(form.elements.text);
  } else if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
}

// Out of a session or a filter into the list; out of the list to the overview.
function escape(event) {
  event.preventDefault();
  if (document.activeElement !== rows) return showList(rows);
  location.hash = "overview";
  document.getElementById("overview-title").focus();
}

async function start() {
  index = await unpacked("index");
  fillFilters();
  overview(onStep);
  document.getElementById("loading").hidden = true;
  filter();
  follow();
  form.addEventListener("input", filter);
  form.addEventListener("reset", () => setTimeout(filter));
  form.addEventListener("submit", (event) => event.preventDefault());
  rows.addEventListener("scroll", draw);
  rows.addEventListener("keydown", onListKey);
  addEventListener("keydown", onKey);
  addEventListener("hashchange", follow);
  addEventListener("resize", draw);
  performance.measure("load");
  requestIdleCallback(() => readTexts());  // so that they are there when somebody searches
}

start().catch((error) => { document.getElementById("loading").textContent = `This page cannot be shown: ${error.message}`; });
