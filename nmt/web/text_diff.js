"use strict";

/**
 * Split a text into words, spaces and punctuation marks. Each Chinese or Japanese character is a
 * word, because no spaces separate them.
 */
const splitText = (text) =>
  text.match(/\s+|[\u2e80-\uffff]|[^\s\u2e80-\uffff\p{P}\p{S}]+|[^\s]/gu) || [];

const MAX_TABLE_CELLS = 4e6;

/**
 * Return [word, differs] for each word; `differs` is true outside the longest common subsequence
 * with the other text.
 */
function markDifferences(words, otherWords) {
  // compare sets of words instead, because the table of a long pair of texts fills the memory
  if (words.length * otherWords.length > MAX_TABLE_CELLS) return markMissing(words, otherWords);
  const common = countCommonWords(words, otherWords);
  const marked = [];
  let j = 0;
  words.forEach((word, i) => {
    while (j < otherWords.length && word !== otherWords[j] && common[i][j + 1] === common[i][j])
      j++;
    const isCommon = j < otherWords.length && word === otherWords[j];
    marked.push([word, !isCommon && word.trim() !== ""]);
    if (isCommon) j++;
  });
  return marked;
}

/** Return the length of the longest common subsequence for each pair of text ends. */
function countCommonWords(words, otherWords) {
  const common = Array.from({ length: words.length + 1 }, () => {
    return new Uint16Array(otherWords.length + 1);
  });
  for (let i = words.length - 1; i >= 0; i--) {
    for (let j = otherWords.length - 1; j >= 0; j--) {
      common[i][j] =
        words[i] === otherWords[j]
          ? common[i + 1][j + 1] + 1
          : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  return common;
}

/** Return a word, underlined if it differs. */
const makeWord = ([word, differs]) =>
  differs ? make("span", { class: "differs" }, word) : word;

/** Mark the words that occur nowhere in the other text. */
function markMissing(words, otherWords) {
  const others = new Set(otherWords);
  return words.map((word) => [word, !others.has(word) && word.trim() !== ""]);
}
