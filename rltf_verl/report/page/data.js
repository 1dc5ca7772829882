// The index and the blocks of sessions, unpacked when they are needed.

import { state } from "./state.js";

const MOST_OPEN = 3; // blocks

export async function unpacked(id) {
  const node = document.getElementById(id);
  const bytes = Uint8Array.from(atob(node.textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

export async function sessionOf(id) {
  const { starts } = state.index;
  let number = starts.length - 1;
  while (starts[number] > id) number--;
  return (await sessionsOf(number))[id - starts[number]];
}

async function sessionsOf(block) {
  const { openBlocks } = state;
  const sessions = openBlocks.get(block) || (await unpacked(`block-${block}`));
  openBlocks.delete(block);
  openBlocks.set(block, sessions);
  if (openBlocks.size > MOST_OPEN) openBlocks.delete(openBlocks.keys().next().value);
  return sessions;
}

// Per row of a session the columns of its tokens; null where the log has none.
export function tokensOf(id) {
  return unpacked(`tokens-${id}`);
}
