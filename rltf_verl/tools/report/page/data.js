// The parts of the page's data: unpacked from the page, or asked of the server of a live page.

import { state } from "./state.js";

const MOST_OPEN = 3; // blocks

export const isLive = document.getElementById("live") !== null;

export function part(name) {
  return isLive ? asked(name) : unpacked(name);
}

async function unpacked(name) {
  const bytes = Uint8Array.from(atob(document.getElementById(name).textContent), (c) =>
    c.charCodeAt(0),
  );
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

const GONE = "it is not in the log any more";

async function asked(name) {
  const response = await fetch(name);
  if (response.ok) return response.json();
  throw new Error(response.status === 404 ? GONE : "no answer");
}

// The name of a live block changes when its step has grown.
export function blockName(number) {
  return `${state.run}/${state.index.blocks[number]}`;
}

export async function sessionOf(id) {
  const { session, split, starts, step, uid } = state.index;
  const isIt = (record) =>
    record.session_id === session[id] &&
    record.uid === uid[id] &&
    record.step === step[id] &&
    record.split === split[id];
  const number = starts.findLastIndex((start) => start <= id);
  const found = (await sessionsOf(blockName(number))).find(isIt);
  if (found) return found;
  throw new Error(GONE);
}

async function sessionsOf(name) {
  const { openBlocks } = state;
  const sessions = openBlocks.get(name) || (await part(name));
  openBlocks.delete(name);
  openBlocks.set(name, sessions);
  if (openBlocks.size > MOST_OPEN) openBlocks.delete(openBlocks.keys().next().value);
  return sessions;
}
