// The parts of the page's data, unpacked.

import { state } from "./state.js";

const MOST_OPEN = 3; // blocks

export async function part(name) {
  const bytes = Uint8Array.from(atob(document.getElementById(name).textContent), (c) =>
    c.charCodeAt(0),
  );
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

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
  throw new Error("it is not on the page");
}

async function sessionsOf(name) {
  const { openBlocks } = state;
  const sessions = openBlocks.get(name) || (await part(name));
  openBlocks.delete(name);
  openBlocks.set(name, sessions);
  if (openBlocks.size > MOST_OPEN) openBlocks.delete(openBlocks.keys().next().value);
  return sessions;
}
