// The texts of the sessions, to search in.

import { blockName, part } from "../data.js";
import { state } from "../state.js";

// Fills state.texts, once; forgetTexts() makes it begin again.
export function readTexts() {
  state.reading = state.reading || readAll();
  return state.reading;
}

// After another run was chosen. What is read of blocks that are in it still is kept; the texts of the
// first ones can be searched at once.
export function forgetTexts() {
  const { index, readBlocks } = state;
  state.texts = [];
  state.reading = state.waiting = null;
  const names = index.blocks.map((_, block) => blockName(block));
  for (const name of readBlocks.keys()) if (!names.includes(name)) readBlocks.delete(name);
  for (let block = 0; block < names.length && readBlocks.has(names[block]); block++) take(block);
}

async function readAll() {
  const { index, readBlocks } = state;
  for (let block = 0; block < index.blocks.length; block++) {
    if (state.texts.length > index.starts[block]) continue;
    const name = blockName(block);
    // Kept at once: another run may be chosen before all blocks are read.
    if (!readBlocks.has(name)) readBlocks.set(name, (await part(name)).map(searchedText));
    if (index !== state.index) return;
    take(block);
    await new Promise((done) => setTimeout(done)); // the page answers between blocks
    if (index !== state.index) return;
  }
}

// Appends what is read of the block.
function take(block) {
  const { starts, step } = state.index;
  const texts = state.readBlocks.get(blockName(block));
  const number = (starts[block + 1] ?? step.length) - starts[block];
  for (let i = 0; i < number; i++) state.texts.push(texts[i]);
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
