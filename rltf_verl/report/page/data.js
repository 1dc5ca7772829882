// The index (what the list and the curves need) and the blocks of sessions, unpacked when they are needed.

let index = null;
const opened = new Map();  // number of a block -> its sessions

async function unpacked(id) {
  const node = document.getElementById(id);
  const bytes = Uint8Array.from(atob(node.textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

async function block(number) {
  const sessions = opened.get(number) || await unpacked(`block-${number}`);
  opened.delete(number);
  opened.set(number, sessions);
  if (opened.size > 3) opened.delete(opened.keys().next().value);
  return sessions;
}

async function session(id) {
  let number = index.starts.length - 1;
  while (index.starts[number] > id) number--;
  return (await block(number))[id - index.starts[number]];
}

// Per row of a session the columns of its tokens; null where nobody knows them.
function tokensOf(id) {
  return unpacked(`tokens-${id}`);
}
