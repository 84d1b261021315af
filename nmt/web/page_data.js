"use strict";

const caches = [];

/** Return `compute` with a cache of its results, which lasts until the data change. */
function memoize(compute) {
  const results = new Map();
  caches.push(results);
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

const data = new Map(); // by name

/** Return a part of the page's data; null if the page has none. */
function readData(name) {
  if (!data.has(name)) {
    data.set(name, JSON.parse(document.getElementById(`data_${name}`)?.textContent ?? "null"));
  }
  return data.get(name);
}

const formatInteger = (value) => Math.round(value).toLocaleString("en");

const SCORE_NAMES = {
  bleu: "BLEU",
  chrf: "chrF",
  ter: "TER",
  aer: "AER",
  saer: "SAER",
  ribes: "RIBES",
  comet: "COMET",
  bleu_tokenized: "BLEU, tokenised",
};
const formatScoreName = (score) => SCORE_NAMES[score] || score.replaceAll("_", " ");

let tables, runs, sentences, baselineRun, hasSeveralRuns, betterDirections;
// the systems of the tables, then groups of runs in no table: { name, row, runs, folders, slot };
// `runs` are names, because a run that was evaluated in several ways is several systems
let systems;

/** Set what other scripts read of the comparison, again whenever it changes. */
function readComparison() {
  for (const cache of caches) cache.clear();
  tables = readData("tables");
  runs = readData("runs") ?? [];
  sentences = readData("sentences");
  const rows = tables?.systems ?? [];
  hasSeveralRuns = rows.some((row) => row.runs.length > 1);
  baselineRun = runs.findIndex((run) => rows[run.system].system === tables.baseline);
  betterDirections = new Map(tables?.scores.map((score) => [score.name, score.better]));
  systems = listSystems();
}

/**
 * Return the systems with their runs. In a served page, a run that is in no table joins the runs
 * that differ from it in the seed, and colours follow the order of the jobs.
 */
function listSystems() {
  const rows = tables?.systems ?? [];
  const makeSystem = (name, row, slot) => ({ name, row, runs: [], folders: [], slot });
  const all = rows.map((row, slot) => makeSystem(row.system, row, slot));
  for (const run of runs) addRun(all[run.system], run);
  const jobs = readData("jobs") ?? [];
  const groups = [...new Set(jobs.map(({ group }) => group))];
  const systemOfGroup = new Map();
  for (const system of all) {
    const group = jobs.find(({ folder }) => system.folders.includes(folder))?.group;
    const hasColour = isGiven(group) && !systemOfGroup.has(group);
    system.slot = hasColour ? groups.indexOf(group) : groups.length + system.slot;
    if (hasColour) systemOfGroup.set(group, system);
  }
  for (const job of jobs.filter((one) => !isInTables(one))) {
    const { group } = job;
    if (!systemOfGroup.has(group)) {
      systemOfGroup.set(group, makeSystem(group, null, groups.indexOf(group)));
      all.push(systemOfGroup.get(group));
    }
    addRun(systemOfGroup.get(group), job);
  }
  return all;
}

function addRun(system, { name, folder }) {
  system.runs.push(name);
  system.folders.push(folder);
}

const isInTables = ({ folder }) => runs.some((run) => run.folder === folder);
const findSystem = ({ folder }) => systems.findIndex(({ folders }) => folders.includes(folder));

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

/** Return the alignments of one chunk; `key` names its kind, its run and its number. */
const readAlignmentChunk = memoize(async (key) => {
  const [kind, run, number] = key.split(" ");
  const bytes = await decompress(readData("alignments")[kind][run][number]);
  const headEnd = bytes.indexOf(0);
  let at = headEnd + 1;
  const readRow = (columns) =>
    Array.from(bytes.subarray(at, (at += columns)), (byte) => byte / 255);
  return parseBytes(bytes.subarray(0, headEnd)).map(([rows, columns, detail]) => ({
    detail,
    weights: Array.from({ length: rows }, () => readRow(columns)),
  }));
});

/** Return the layers of one chunk, by sentence. */
const readLayerChunk = memoize(async (key) => {
  const [run, number] = key.split(" ").map(Number);
  const chunks = readData("alignments").layers[run];
  return chunks ? readCompressed(chunks[number]) : [];
});

/** True if the page has the alignment of this kind, `runs` or `forced`, of a run on a sentence. */
const hasAlignment = (kind, run, sentence) =>
  getAlignmentRanks().has(sentence) && readData("alignments")[kind][run] !== null;

/** Return the number of a sentence's chunk, and its place in the chunk. */
function findInChunk(sentence) {
  const [rank, { together }] = [getAlignmentRanks().get(sentence), readData("alignments")];
  return [Math.floor(rank / together), rank % together];
}

const splitAtSpaces = (text) => text.split(/\s+/).filter(Boolean);

/** Return the attention of a run's translation of a sentence. */
async function readAlignment(run, sentence) {
  const [chunk, place] = findInChunk(sentence);
  const { detail: words, weights } = (await readAlignmentChunk(`runs ${run} ${chunk}`))[place];
  const translation = (await readTranslations(run))[sentence];
  return {
    source: (await readSourceWords(sentences.split_of_run[run]))[sentence],
    target: words || [...splitAtSpaces(translation), "</s>"],
    weights,
    digits: 2,
    layers: (await readLayerChunk(`${run} ${chunk}`))[place],
  };
}

/** Return the attention of a run while the reference is forced, with the gold links. */
async function readForcedAlignment(run, sentence) {
  const [chunk, place] = findInChunk(sentence);
  const { detail: links, weights } = (await readAlignmentChunk(`forced ${run} ${chunk}`))[place];
  const values = weights.map((row) => row.map(() => 0));
  for (const [row, column, value] of links) values[row][column] = value;
  return {
    source: splitAtSpaces((await readTexts("sources"))[sentence]),
    target: splitAtSpaces((await readTexts("references"))[sentence]),
    weights,
    digits: 2,
    layers: [{ name: "gold links", kind: "links", values }],
  };
}

readComparison();
