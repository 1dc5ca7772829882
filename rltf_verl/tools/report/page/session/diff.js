// The difference of two texts, word by word.

const MOST_EDITS = 600;

function wordsOf(text) {
  const word = /\s|[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}]|[\p{L}\p{N}_]+|./gsu;
  return text.match(word) || [];
}

// [[-1 | 0 | 1, text], …]: gone, kept, added. Beyond MOST_EDITS the middle counts as replaced.
export function difference(before, after) {
  const a = wordsOf(before);
  const b = wordsOf(after);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  const most = Math.min(a.length, b.length) - start;
  let end = 0;
  while (end < most && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const left = a.slice(start, a.length - end);
  const right = b.slice(start, b.length - end);
  const middle = shortestEdits(left, right) || [
    [-1, left.join("")],
    [1, right.join("")],
  ];
  return merged([
    [0, a.slice(0, start).join("")],
    ...middle,
    [0, a.slice(a.length - end).join("")],
  ]);
}

function merged(edits) {
  const out = [];
  for (const [kind, text] of edits) {
    if (text && out.length && out[out.length - 1][0] === kind) out[out.length - 1][1] += text;
    else if (text) out.push([kind, text]);
  }
  return out;
}

// Myers, "An O(ND) difference algorithm", 1986: furthest[k] is how far diagonal k was reached.
function shortestEdits(a, b) {
  const zero = MOST_EDITS + 1;
  const furthest = new Int32Array(2 * MOST_EDITS + 3);
  const before = [];
  for (let d = 0; d <= Math.min(MOST_EDITS, a.length + b.length); d++) {
    before.push(furthest.slice(zero - d - 1, zero + d + 2));
    for (let k = -d; k <= d; k += 2) {
      const above = comesFromAbove(furthest, zero, k, d);
      let x = above ? furthest[zero + k + 1] : furthest[zero + k - 1] + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      furthest[zero + k] = x;
      if (x >= a.length && x - k >= b.length) return walkedBack(a, b, before);
    }
  }
  return null;
}

function comesFromAbove(furthest, zero, k, d) {
  return k === -d || (k !== d && furthest[zero + k - 1] < furthest[zero + k + 1]);
}

function walkedBack(a, b, before) {
  const out = [];
  let x = a.length;
  let y = b.length;
  for (let d = before.length - 1; d > 0; d--) {
    const down = comesFromAbove(before[d], d + 1, x - y, d);
    const diagonal = x - y + (down ? 1 : -1);
    const fromX = before[d][d + 1 + diagonal];
    while (x > fromX && y > fromX - diagonal) {
      out.push([0, a[--x]]);
      y--;
    }
    out.push(down ? [1, b[--y]] : [-1, a[--x]]);
  }
  while (x > 0) out.push([0, a[--x]]);
  return out.reverse();
}
