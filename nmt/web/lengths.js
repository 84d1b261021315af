"use strict";

const MEASURES = {
  words_too_often: {
    title: "Words too often",
    about:
      "Words of the translation that the reference lacks or has less often, in % of the " +
      "words of the first reference, in words as BLEU counts them",
  },
  words_left_out: {
    title: "Words left out",
    about:
      "Words of the reference that the translation lacks or has less often, in % of the " +
      "words of the first reference, in words as BLEU counts them",
  },
  source_unattended: {
    title: "Source words without attention",
    about: "Source words that get less than 0.2 of attention in all, in %",
  },
  aer: {
    title: "Alignment error",
    about: "AER of attention while the references are forced, in %",
  },
};

const LENGTH_AXIS = "Below: source words; in brackets: sentences.";
const describeBleu = ({ bleu, ...bucket }) => ({ ...bucket, value: bleu, remark: " BLEU" });

/** Charts by source length: `kind` is that of the buckets, `describe` returns a bucket's point. */
const LENGTH_CHARTS = {
  bleu: {
    title: "BLEU by source length",
    caption:
      "BLEU of sentences of similar length, with 95 % intervals " +
      `(Tu 2016, Figure 6, left; Luong 2015, Figure 6). ${LENGTH_AXIS}`,
    kind: "by_length",
    describe: describeBleu,
  },
  words: {
    title: "Length of translations by source length",
    caption:
      "Mean length of the translations of these sentences, in words as BLEU counts them " +
      `(Tu 2016, Figure 6, right). ${LENGTH_AXIS}`,
    kind: "by_length",
    describe: ({ name, words, reference_words: reference }) => ({
      name,
      value: words,
      low: null,
      high: null,
      remark: ` words; ${reference.toFixed(2)} in the reference`,
    }),
  },
  longer: {
    title: "BLEU of longer sentences",
    caption:
      "BLEU of all sentences longer than so many words, with 95 % intervals " +
      `(Meng 2016, Figure 4). ${LENGTH_AXIS}`,
    kind: "longer_than",
    describe: describeBleu,
  },
};

function makeLengths() {
  if (!tables) return null;
  const charts = makeLinkedCharts("lengths", listComparedSystems(), "stacked", () => {
    const [bleu, words, longer] = Object.values(LENGTH_CHARTS).map(makeLengthChart);
    const bars = Object.keys(MEASURES).map(makeMeasureChart).filter(Boolean);
    return [
      make("div", { class: "charts" }, bleu, words),
      longer,
      make("div", { class: "charts narrow" }, ...bars),
    ];
  });
  return makeSection(
    { id: "lengths", title: "Length, over- and under-translation" },
    makeLegend("lengths", listComparedSystems()),
    charts.element,
    makeRatesDetails(
      "adequacy",
      "Table of over- and under-translation per 100 words of the first reference",
    ),
    tables.alignment[tables.baseline]
      ? makeRatesDetails(
          "alignment",
          "Table of alignment errors: attention in forced decoding of the references, in %",
        )
      : null,
    ...makeLengthDetails(),
    makeLongerDetails(),
  );
}

function makeLengthChart({ kind, describe, caption, ...chart }) {
  const series = getVisibleSystems().map(({ row, system }) => ({
    label: row.system,
    system,
    points: tables[kind][row.system].map(describe),
  }));
  const buckets = tables[kind][tables.baseline];
  const means = hasSeveralRuns ? " Means over seeds." : "";
  return makeIntervalChart({ ...chart, caption: caption + means, buckets, series });
}

function makeMeasureChart(score) {
  const { title, about } = MEASURES[score];
  const systems = getVisibleSystems();
  const rows = systems
    .filter(({ row }) => row.scores[score])
    .map(({ row, system }) => ({ label: row.system, system, ...row.scores[score] }));
  if (!rows.length) return null;
  const missing = systems.filter(({ row }) => !row.scores[score]).map(({ row }) => row.system);
  const lines = hasSeveralRuns ? " Lines: ± one standard deviation over seeds." : "";
  const caption = `${about}; less is better.${lines}${describeMissing(missing, "this score")}`;
  return makeBarChart({ title, caption, rows, format: formatScore });
}

/** Make a table of rates with their differences from the baseline and p-values. */
function makeRatesDetails(kind, title) {
  const measures = Object.keys(tables[kind][tables.baseline]);
  const tests = { p: "p, sentences" };
  if (tables.spread_over_seeds) tests.p_seeds = "p, seeds";
  const heads = measures.flatMap((name) => [formatScoreName(name), "Δ", ...Object.values(tests)]);
  const rows = tables.systems.map(({ system }) => [
    system,
    ...measures.flatMap((name) => {
      const rate = tables[kind][system][name];
      return makeRateCells(rate, system === tables.baseline, Object.keys(tests));
    }),
  ]);
  return makeTableDetails(kind, title, makeTable(["system", ...heads], rows));
}

function makeRateCells(rate, isBaseline, tests) {
  const ps = tests.map((test) => {
    if (isBaseline) return makeCell("");
    // p over sentences is never bold, because it covers no randomness of training
    const isBold = test === "p_seeds" && isSignificant(rate[test]);
    const style = isBold ? "number significant" : "number";
    return make("td", { class: style }, formatP(rate[test]));
  });
  const difference = isBaseline ? "baseline" : formatSigned(rate.difference);
  return [makeCell(formatScore(rate.value)), makeCell(difference), ...ps];
}

/** Make the tables of the charts by length. */
function makeLengthDetails() {
  const fillBleu = (system, bucket) => {
    const spread = bucket.low === null ? null : makeSpread(describeBucket(system, bucket));
    return makeCell(formatScore(bucket.bleu), spread);
  };
  const fillWords = (system, { words, length_ratio: ratio }) =>
    makeCell(words.toFixed(1), makeSpread(` ${formatScore(ratio)}`));
  const inGrey =
    "in grey the difference from the baseline and its 95 % interval; " +
    "for the baseline the interval of its BLEU";
  return [
    makeBucketDetails("by_length", `Table of BLEU by length: ${inGrey}`, fillBleu),
    makeBucketDetails(
      "by_length",
      "Table of lengths by source length: in grey the ratio to the length of the reference",
      fillWords,
    ),
    makeBucketDetails("longer_than", `Table of BLEU of longer sentences: ${inGrey}`, fillBleu),
  ];
}

function makeBucketDetails(kind, title, fill) {
  const buckets = tables[kind][tables.baseline];
  const heads = buckets.map(({ name, sentences: count }) => `${name} (${count})`);
  const rows = tables.systems.map(({ system }) => [
    system,
    ...tables[kind][system].map((bucket) => fill(system, bucket)),
  ]);
  return makeTableDetails(null, title, makeTable(["system", ...heads], rows));
}

function describeBucket(system, { low, high, ...bucket }) {
  if (system === tables.baseline) return formatInterval(low, high, (value) => value.toFixed(1));
  return ` ${describeDifference(bucket).join("")}`;
}

function describeDifference({ difference, difference_low: low, difference_high: high }) {
  return [formatSigned(difference), formatInterval(low, high, formatSigned)];
}

/** Make a table of how much more systems gain on longer sentences than on all others. */
function makeLongerDetails() {
  const gains = Object.entries(tables.longer).map(([system, rows]) => [
    system,
    rows.filter((gain) => gain.difference_low !== null),
  ]);
  const counts = new Map(
    gains.flatMap(([, rows]) => rows.map((gain) => [gain.than, gain.sentences])),
  );
  if (!counts.size) return null;
  const heads = [...counts].map(([length, count]) => `>${length} (${count})`);
  const rows = gains.map(([system, cells]) => [
    system,
    ...cells.map((gain) => {
      const [difference, interval] = describeDifference(gain);
      return makeCell(difference, makeSpread(interval));
    }),
  ]);
  const title =
    "Table of gains on longer sentences: the gain in BLEU over the baseline there, minus the " +
    "gain on all other sentences, with its 95 % interval";
  return makeTableDetails("longer", title, makeTable(["system", ...heads], rows));
}
