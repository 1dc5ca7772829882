// The search in what was said. A browser reads a gigabyte of text in seconds, not in milliseconds; so each session has a
// signature: a set of bits, one for each stretch of 2, 3 and 5 characters in its text. A text that lacks a stretch of
// what is looked for need not be read.

const texts = [];  // per session, in lower case
const signatures = [];  // per session
let reading = null;  // promise of all of them

function readTexts() {
  reading = reading || readAll();
  return reading;
}

async function readAll() {
  for (let number = 0; number < index.starts.length; number++) {
    for (const record of await unpacked(`block-${number}`)) {
      const text = searched(record);
      texts.push(text);
      signatures.push(signature(text));
    }
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

function holds(id, wanted, grams) {
  const bits = signatures[id], shift = shiftFor(bits);
  for (const gram of grams) {
    const at = gram >>> shift;
    if (!(bits[at >>> 5] >>> (at & 31) & 1)) return false;
  }
  return texts[id].includes(wanted);
}

// A hash of the last 2 and 3 characters (8 bits of each in `narrow`) and of the last 5 (6 bits of each in `wide`).
const two = (narrow) => Math.imul(narrow << 16, 0x9e3779b1);
const three = (narrow) => Math.imul(narrow << 8, 0x85ebca6b);
const five = (wide) => Math.imul(wide << 2, 0xc2b2ae35);

// As many of a hash's upper bits count as a signature has places.
function shiftFor(bits) {
  return 32 - Math.log2(32 * bits.length);
}

// Three to six places per character, so that most are empty.
function signature(text) {
  const bits = new Uint32Array(2 ** Math.ceil(Math.log2(3 * text.length / 32 + 2))), shift = shiftFor(bits);
  const set = (hash) => { bits[hash >>> shift >>> 5] |= 1 << (hash >>> shift & 31); };
  for (let i = 0, narrow = 0, wide = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    narrow = narrow << 8 ^ code;
    wide = wide << 6 ^ code;
    set(two(narrow));
    set(three(narrow));
    set(five(wide));
  }
  return bits;
}

function gramsOf(text) {
  const found = new Set();
  for (let i = 0, narrow = 0, wide = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    narrow = narrow << 8 ^ code;
    wide = wide << 6 ^ code;
    if (i >= 1) found.add(two(narrow));
    if (i >= 2) found.add(three(narrow));
    if (i >= 4) found.add(five(wide));
  }
  return [...found].reverse();  // the long ones are the rarest
}
