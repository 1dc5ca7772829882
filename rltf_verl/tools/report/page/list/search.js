// The search in the texts of sessions. A browser reads a gigabyte of text in seconds, not in
// milliseconds; so each session has a signature: a set of bits, one for each stretch of 2, 3 and 5
// characters in its text. A text that lacks a stretch of what is looked for need not be read.

import { blockName, part } from "../data.js";
import { state } from "../state.js";

// Fills state.texts, once; forgetTexts() makes it begin again.
export function readTexts() {
  state.reading = state.reading || readAll();
  return state.reading;
}

// After the index changed. What is read of blocks that are in it still is kept; the texts of the
// first ones can be searched at once.
export function forgetTexts() {
  const { index, readBlocks } = state;
  state.texts = [];
  state.signatures = [];
  state.reading = state.waiting = null;
  const keys = index.starts.map((_, block) => blockName(block));
  const known = new Set(keys);
  for (const key of readBlocks.keys()) if (!known.has(key)) readBlocks.delete(key);
  for (let block = 0; block < keys.length && readBlocks.has(keys[block]); block++) take(block);
}

async function readAll() {
  const { index, readBlocks } = state;
  for (let block = 0; block < index.starts.length; block++) {
    if (state.texts.length > index.starts[block]) continue;
    const key = blockName(block);
    // Kept at once: on a live page a new index may come before all blocks are read.
    if (!readBlocks.has(key)) readBlocks.set(key, searchable(await part(key)));
    if (index !== state.index) return;
    take(block);
    await new Promise((done) => setTimeout(done)); // the page answers between blocks
    if (index !== state.index) return;
  }
}

// Appends what is read of the block.
function take(block) {
  const { starts, step } = state.index;
  const { texts, signatures } = state.readBlocks.get(blockName(block));
  const number = (starts[block + 1] ?? step.length) - starts[block];
  for (let i = 0; i < number; i++) {
    state.texts.push(texts[i] ?? ""); // a step of a live page may have grown meanwhile
    state.signatures.push(signatures[i] ?? signatureOf(""));
  }
}

function searchable(records) {
  const texts = records.map(searchedText);
  return { texts, signatures: texts.map(signatureOf) };
}

function searchedText(record) {
  const parts = [record.question, record.reference, record.uid, record.env];
  for (const turn of record.turns) {
    parts.push(turn.text, turn.error, turn.grade.error, turn.stop);
    for (const feedback of [turn.feedback, turn.withheld]) {
      if (!feedback) continue;
      parts.push(feedback.text, feedback.leak, feedback.original, feedback.provider);
    }
  }
  return parts.filter(Boolean).join("\n").toLowerCase();
}

// `grams`: gramsOf(wanted).
export function holds(id, wanted, grams) {
  const bits = state.signatures[id];
  const shift = shiftFor(bits);
  for (const gram of grams) {
    const at = gram >>> shift;
    if (!((bits[at >>> 5] >>> (at & 31)) & 1)) return false;
  }
  return state.texts[id].includes(wanted);
}

// A hash of the last 2 and 3 characters (8 bits of each in `narrow`) and of the last 5 (6 bits of
// each in `wide`).
const hashOfTwo = (narrow) => Math.imul(narrow << 16, 0x9e3779b1);
const hashOfThree = (narrow) => Math.imul(narrow << 8, 0x85ebca6b);
const hashOfFive = (wide) => Math.imul(wide << 2, 0xc2b2ae35);

// As many of a hash's upper bits count as a signature has places.
function shiftFor(bits) {
  return 32 - Math.log2(32 * bits.length);
}

// Three to six places per character, so that most are empty.
function signatureOf(text) {
  const bits = new Uint32Array(2 ** Math.ceil(Math.log2((3 * text.length) / 32 + 2)));
  const shift = shiftFor(bits);
  const set = (hash) => {
    bits[(hash >>> shift) >>> 5] |= 1 << ((hash >>> shift) & 31);
  };
  for (let i = 0, narrow = 0, wide = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    narrow = (narrow << 8) ^ code;
    wide = (wide << 6) ^ code;
    set(hashOfTwo(narrow));
    set(hashOfThree(narrow));
    set(hashOfFive(wide));
  }
  return bits;
}

// Hashes of the stretches in `text`, the longest ones first: they are the rarest.
export function gramsOf(text) {
  const grams = new Set();
  for (let i = 0, narrow = 0, wide = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    narrow = (narrow << 8) ^ code;
    wide = (wide << 6) ^ code;
    if (i >= 1) grams.add(hashOfTwo(narrow));
    if (i >= 2) grams.add(hashOfThree(narrow));
    if (i >= 4) grams.add(hashOfFive(wide));
  }
  return [...grams].reverse();
}
