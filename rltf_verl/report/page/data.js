// The index (what the list and the curves need) and the blocks of sessions, unpacked when they are needed.

let index = null;
const texts = [];  // what the search looks through: per block {first, text in lower case, ends of its sessions in it}
let reading = null;  // promise of all of them
let read = false;
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

function readTexts() {
  reading = reading || readAll();
  return reading;
}

async function readAll() {
  for (let number = 0; number < index.starts.length; number++) {
    const parts = (await unpacked(`block-${number}`)).map(searched), ends = [];
    let end = 0;
    for (const part of parts) ends.push(end += part.length + 1);
    texts.push({ first: index.starts[number], text: parts.join("\n"), ends });
    await new Promise((done) => setTimeout(done));
  }
  read = true;
}

// 1 for each session whose texts hold `wanted`. One long text per block: a search has a price per text and per hit.
function sessionsWith(wanted) {
  const found = new Uint8Array(index.step.length);
  for (const { first, text, ends } of texts) {
    let k = 0;
    for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, ends[k])) {
      while (ends[k] <= at) k++;
      found[first + k] = 1;
    }
  }
  return found;
}

function searched(record) {
  const parts = [record.question, record.reference, record.uid, record.env];
  for (const turn of record.turns) {
    parts.push(turn.text, turn.error, turn.grade.error, turn.stop);
    for (const said of [turn.feedback, turn.withheld]) if (said) parts.push(said.text, said.leak, said.original, said.provider);
  }
  return parts.filter(Boolean).join("\n").toLowerCase();
}
