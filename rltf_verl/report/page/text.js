"use strict";
// Elements, text of models, and the difference of two texts. Text reaches the page as text nodes, never as markup.

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(name, value);
  node.append(...children.filter((child) => child !== null));
  return node;
}

// Control characters and those that turn the direction of what follows are shown instead of obeyed.
function visible(text) {
  return String(text)
    .replace(/[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g,
      (c) => `[U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);
}

function pre(text) {
  return el("pre", text.length > 2000 ? { tabindex: 0 } : {}, visible(text));
}

const MOST_EDITS = 600;

function words(text) {
  return text.match(/\s|[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}]|[\p{L}\p{N}_]+|./gsu) || [];
}

// [[-1 | 0 | 1, text], …]: gone, kept, added. Beyond MOST_EDITS the middle counts as replaced.
function diff(before, after) {
  const a = words(before), b = words(after);
  let start = 0, end = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const left = a.slice(start, a.length - end), right = b.slice(start, b.length - end);
  const middle = shortest(left, right) || [[-1, left.join("")], [1, right.join("")]];
  return merged([[0, a.slice(0, start).join("")], ...middle, [0, a.slice(a.length - end).join("")]]);
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
function shortest(a, b) {
  const zero = MOST_EDITS + 1, furthest = new Int32Array(2 * MOST_EDITS + 3), before = [];
  for (let d = 0; d <= Math.min(MOST_EDITS, a.length + b.length); d++) {
    before.push(furthest.slice(zero - d - 1, zero + d + 2));
    for (let k = -d; k <= d; k += 2) {
      let x = comesFromAbove(furthest, zero, k, d) ? furthest[zero + k + 1] : furthest[zero + k - 1] + 1;
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
  let x = a.length, y = b.length;
  for (let d = before.length - 1; d > 0; d--) {
    const down = comesFromAbove(before[d], d + 1, x - y, d);
    const fromX = before[d][d + 1 + x - y + (down ? 1 : -1)], fromY = fromX - (x - y + (down ? 1 : -1));
    while (x > fromX && y > fromY) { out.push([0, a[--x]]); y--; }
    out.push(down ? [1, b[--y]] : [-1, a[--x]]);
  }
  while (x > 0) out.push([0, a[--x]]);
  return out.reverse();
}
