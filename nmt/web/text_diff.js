"use strict";

/** Spaces, words, and single signs; what is written without spaces by the letter. */
const piecesOf = text => text.match(/\s+|[\u2e80-\uffff]|[^\s\u2e80-\uffff\p{P}\p{S}]+|[^\s]/gu) || [];

const MOST_CELLS = 4e6; /* of a table of all pairs of words */

/** The words of a text, each with whether it lies outside the longest sequence it shares with the other text. */
function differing(mine, theirs) {
  if (mine.length * theirs.length > MOST_CELLS) return unsaid(mine, new Set(theirs));
  const shared = Array.from({ length: mine.length + 1 }, () => new Uint16Array(theirs.length + 1));
  for (let i = mine.length - 1; i >= 0; i--) {
    for (let j = theirs.length - 1; j >= 0; j--) {
      shared[i][j] = mine[i] === theirs[j] ? shared[i + 1][j + 1] + 1 : Math.max(shared[i + 1][j], shared[i][j + 1]);
    }
  }
  const marked = [];
  for (let i = 0, j = 0; i < mine.length; i++) {
    while (j < theirs.length && mine[i] !== theirs[j] && shared[i][j + 1] === shared[i][j]) j++;
    const same = j < theirs.length && mine[i] === theirs[j];
    marked.push([mine[i], !same && mine[i].trim() !== ""]);
    if (same) j++;
  }
  return marked;
}

/** Of texts that are too long for that, the words that the other says nowhere. */
const unsaid = (mine, theirs) => mine.map(word => [word, !theirs.has(word) && word.trim() !== ""]);
