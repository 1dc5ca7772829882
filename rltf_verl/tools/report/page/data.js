// The index and the sessions: unpacked from the page, or asked of the server of a live page.

import { state } from "./state.js";

const MOST_OPEN = 3; // blocks

export const isLive = document.getElementById("live") !== null;

export async function unpacked(id) {
  const node = document.getElementById(id);
  const bytes = Uint8Array.from(atob(node.textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

const GONE = "this is not in the log any more";

async function asked(path) {
  const response = await fetch(path);
  if (response.ok) return response.json();
  throw new Error(response.status === 404 ? GONE : "no answer");
}

// Where the runs of a live page stand, and the index of one, if it is not the version at hand.
export function liveIndex(run, version) {
  return asked(`${run}/index?have=${version}`);
}

export async function sessionOf(id) {
  const { starts } = state.index;
  const number = blockOf(id);
  const sessions = await sessionsOf(number);
  const session = sessions[id - starts[number]];
  if (!isLive || (session && isSession(session, id))) return session;
  const moved = sessions.find((one) => isSession(one, id)); // the step has grown meanwhile
  if (moved) return moved;
  throw new Error(GONE);
}

function blockOf(id) {
  const { starts } = state.index;
  let number = starts.length - 1;
  while (starts[number] > id) number--;
  return number;
}

function isSession(record, id) {
  const { session, uid } = state.index;
  return record.session_id === session[id] && record.uid === uid[id];
}

// Names a block; a live one that has grown has another name.
export function keyOfBlock(number) {
  const { run, blocks, versions } = state.index;
  return isLive ? `${run}/${blocks[number]}/${versions[number]}` : number;
}

export function readBlock(number) {
  const { run, blocks } = state.index;
  return isLive ? asked(`${run}/block/${blocks[number]}`) : unpacked(`block-${number}`);
}

async function sessionsOf(number) {
  const { openBlocks } = state;
  const key = keyOfBlock(number);
  const sessions = openBlocks.get(key) || (await readBlock(number));
  openBlocks.delete(key);
  openBlocks.set(key, sessions);
  if (openBlocks.size > MOST_OPEN) openBlocks.delete(openBlocks.keys().next().value);
  return sessions;
}

// Per row of a session the columns of its tokens; null where the log has none.
export function tokensOf(record, id) {
  if (!isLive) return unpacked(`tokens-${id}`);
  const { run, blocks } = state.index;
  const uid = encodeURIComponent(record.uid);
  return asked(`${run}/tokens/${blocks[blockOf(id)]}/${uid}/${record.session_id}`);
}
