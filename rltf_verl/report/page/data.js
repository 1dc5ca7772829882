// The index (what the list and the curves need) and the blocks of sessions, unpacked when they are needed.

let index = null;
const texts = [];  // what the search looks through, per session, in lower case
let reading = null;  // promise of all of them
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

function readTexts() {
  reading = reading || readAll();
  return reading;
}

async function readAll() {
  for (let number = 0; number < index.starts.length; number++) {
    for (const record of await block(number)) texts.push(searched(record));
    await new Promise((done) => setTimeout(done));
  }
}

function searched(record) {
  const parts = [record.question, record.reference, record.uid, record.env];
  for (const turn of record.turns) {
    parts.push(turn.text, turn.error, turn.grade.error, turn.stop);
    for (const said of [turn.feedback, turn.withheld]) if (said) parts.push(said.text, said.leak, said.original, said.provider);
  }
  return parts.filter(Boolean).join("\n").toLowerCase();
}
