"use strict";

/** Return `compute` with a cache of its results. */
function memoize(compute) {
  const results = new Map();
  return (key) => {
    if (!results.has(key)) results.set(key, compute(key));
    return results.get(key);
  };
}

function decodeBase64(text) {
  const decoded = atob(text);
  const bytes = new Uint8Array(decoded.length);
  for (let at = 0; at < decoded.length; at++) bytes[at] = decoded.charCodeAt(at);
  return bytes;
}

/** Return the bytes that nmt/report/render/page_payload.py compressed. */
async function decompress(text) {
  const compressed = new Blob([decodeBase64(text)]).stream();
  const stream = compressed.pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const parseBytes = (bytes) => JSON.parse(new TextDecoder().decode(bytes));
const readCompressed = async (text) => parseBytes(await decompress(text));
const readData = memoize((name) => JSON.parse(document.getElementById(`data_${name}`).textContent));

const tables = readData("tables");
const runs = readData("runs");
const baselineRun = runs.findIndex((run) => tables.systems[run.system].system === tables.baseline);
const hasSeveralRuns = tables.systems.some((row) => row.runs.length > 1);
const findById = (id) => document.getElementById(id);
const formatInteger = (value) => Math.round(value).toLocaleString("en");

const SCORE_NAMES = {
  bleu: "BLEU",
  chrf: "chrF",
  ter: "TER",
  aer: "AER",
  saer: "SAER",
  ribes: "RIBES",
  bleu_tokenized: "BLEU, tokenised",
};
const formatScoreName = (score) => SCORE_NAMES[score] || score.replaceAll("_", " ");

const betterDirections = new Map(tables.scores.map((score) => [score.name, score.better]));
const WORTHS = {
  higher: (value) => value,
  lower: (value) => -value,
  "nearest 1": (value) => -Math.abs(value - 1),
  neither: () => NaN,
};
/** Return a function of a score's value that grows as the score becomes better. */
const getWorth = (score) => WORTHS[betterDirections.get(score)];

// sentence BLEU is stored in half points, a byte for each sentence
const SCORE_STEPS_PER_POINT = 2;
const sentences = readData("sentences");
const readScores = memoize((run) => decodeBase64(sentences.scores[run]));
const readTexts = memoize((key) => readCompressed(sentences[key]));
const readAllTranslations = memoize(async () => {
  return (await Promise.all(sentences.hypotheses.map(readCompressed))).flat();
});
const readTranslations = memoize(async (run) => {
  return (await readAllTranslations()).map((translations) => translations[run]);
});
const readSourceWords = memoize((split) => readCompressed(sentences.source_words[split]));
const getAlignmentRanks = memoize(() => {
  const { order } = readData("alignments");
  return new Map(order.map((sentence, rank) => [sentence, rank]));
});

/** Return the alignments of one chunk; `key` names its run and its number. */
const readAlignmentChunk = memoize(async (key) => {
  const [run, number] = key.split(" ").map(Number);
  const bytes = await decompress(readData("alignments").runs[run][number]);
  const headEnd = bytes.indexOf(0);
  let at = headEnd + 1;
  return parseBytes(bytes.subarray(0, headEnd)).map(([rows, columns, words]) => ({
    words,
    weights: Array.from({ length: rows }, () => bytes.subarray(at, (at += columns))),
  }));
});

/** Return the layers of one chunk, by sentence. */
const readLayerChunk = memoize(async (key) => {
  const [run, number] = key.split(" ").map(Number);
  const chunks = readData("alignments").layers[run];
  return chunks ? readCompressed(chunks[number]) : [];
});

/** Return the attention of a run on a sentence, or null if the page has none. */
async function readAlignment(run, sentence) {
  const { together, runs: chunks } = readData("alignments");
  const rank = getAlignmentRanks().get(sentence);
  if (rank === undefined || !chunks[run]) return null;
  const key = `${run} ${Math.floor(rank / together)}`;
  const { words, weights } = (await readAlignmentChunk(key))[rank % together];
  const translation = (await readTranslations(run))[sentence];
  return {
    source: (await readSourceWords(sentences.split_of_run[run]))[sentence],
    target: words || [...translation.split(/\s+/).filter(Boolean), "</s>"],
    weights: weights.map((row) => Array.from(row, (byte) => byte / 255)),
    digits: 2,
    layers: (await readLayerChunk(key))[rank % together],
  };
}
