// What the page knows at this moment: the one object that modules change.

export const state = {
  index: null, // columns of the list, curves and totals, as report/view/index.py writes them
  openBlocks: new Map(), // number of a block -> its sessions; the least recently used one first

  listed: [], // ids of the sessions that pass the filters, in order
  active: 0, // the position in `listed` that the keyboard is at
  current: null, // id of the session in the address; null at any other place
  shownId: null, // id of the session that is drawn

  texts: [], // of each session, in lower case, as far as they are read
  signatures: [], // of each of these texts
  readBlocks: new Map(), // key of a block -> texts and signatures of its sessions
  reading: null, // promise of all texts
  waiting: null, // promise of a list that was filtered by all texts

  run: 0, // of a live page: number of the run whose sessions are listed
  version: "", // and what the server called the index

  measure: "advantage", // the number that colours the tokens
};
