// A live page asks its server every second where the runs stand, and takes a newer index.

import { isLive, part } from "./data.js";
import { visible } from "./elements.js";
import { state } from "./state.js";

const ASK_MS = 1000; // the server looks at the disk as often
const box = document.getElementById("status");

// The index; null if it is still the same.
export async function newIndex() {
  if (!isLive) return part("index");
  const { index, now, states, version } = await part(`index?${state.version}`);
  state.version = version;
  const run = index?.runs[state.run] ?? state.index;
  box.className = "";
  box.textContent = statusWords(states[state.run], now, run.warnings);
  return index ?? null;
}

// `onIndex` is called with each newer index.
export function follow(onIndex) {
  if (!isLive) return;
  const ask = async () => {
    try {
      const index = document.hidden ? null : await newIndex();
      if (index) onIndex(index);
    } catch (error) {
      box.className = "lost";
      box.textContent = `The server does not answer (${error.message}).`;
    }
    setTimeout(ask, ASK_MS);
  };
  setTimeout(ask, ASK_MS);
}

function statusWords({ changed, step, trouble }, now, warnings) {
  if (trouble) return `Waiting. ${visible(trouble)}`;
  const firing = warnings.filter(({ to }) => to === null).map(({ name }) => name);
  const words = firing.length ? ` · ⚠ ${firing.join(", ")}` : "";
  return `● step ${step}, written ${ago(now - changed)} ago${words}`;
}

function ago(seconds) {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}
