// What the page knows at this moment: the one object that modules change.

export const state = {
  page: null, // flags, roles and the runs, as report/view/run.py writes them
  run: 0, // number of the run whose sessions are listed
  index: null, // of this run, with the page's flags and roles
  openBlocks: new Map(), // name of a block -> its sessions; the least recently used one first

  listed: [], // ids of the sessions that pass the filters, in order
  active: 0, // the position in `listed` that the keyboard is at
  current: null, // id of the session in the address; null at any other place
  shown: null, // address of the session that is drawn

  texts: [], // of each session, in lower case, as far as they are read
  readBlocks: new Map(), // name of a block -> texts of its sessions
  reading: null, // promise of all texts
  waiting: null, // promise of a list that was filtered by all texts

  measure: "advantage", // the number that colours the tokens
};

// `run` is a number of the page's runs.
export function chooseRun(page, run) {
  state.page = page;
  state.run = run;
  state.index = { ...page, ...page.runs[run] };
}
