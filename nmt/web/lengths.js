"use strict";

const MEASURES = {
  words_too_often: { title: "Words too often", unit: "% of reference tokens" },
  words_left_out: { title: "Words left out", unit: "% of reference tokens" },
  source_unattended: { title: "Source words without attention", unit: "% of source tokens" },
  aer: { title: "Alignment error", unit: "AER, %" },
};

function addLengths() {
  const buckets = getBuckets();
  const charts = makeLinkedCharts("stacked", () => {
    const bars = Object.keys(MEASURES).map(makeMeasureChart).filter(Boolean);
    return [makeLengthChart(buckets), make("div", { class: "charts narrow" }, ...bars)];
  });
  addSection(
    { id: "lengths", title: "Length, over- and under-translation" },
    makeLegend(),
    charts.element,
    makeRatesDetails(
      "adequacy",
      "Table of over- and under-translation per 100 BLEU tokens of the first reference",
    ),
    tables.alignment[tables.baseline]
      ? makeRatesDetails(
          "alignment",
          "Table of alignment errors: attention in forced decoding of the references, in %",
        )
      : null,
    makeLengthDetails(buckets),
    makeLongerDetails(),
  );
}

/** Return the ranges of source length that have sentences. */
function getBuckets() {
  const rows = Object.values(tables.by_length).flat();
  const counts = new Map(rows.map((bucket) => [bucket.name, bucket.sentences]));
  return [...counts].map(([name, count]) => ({ name, sentences: count }));
}

function makeLengthChart(buckets) {
  const series = getVisibleSystems().map(({ row, system }) => ({
    label: row.system,
    system,
    points: tables.by_length[row.system],
  }));
  const aside = hasSeveralRuns ? "words; the mean over seeds" : "words";
  return makeIntervalChart({ title: "BLEU by source length", aside, buckets, series });
}

function makeMeasureChart(score) {
  const { title, unit } = MEASURES[score];
  const rows = getVisibleSystems()
    .filter(({ row }) => row.scores[score])
    .map(({ row, system }) => ({ label: row.system, system, ...row.scores[score] }));
  if (!rows.length) return null;
  return makeBarChart({ title, aside: `${unit}; less is better`, rows, format: formatScore });
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
    const style = isSignificant(rate[test]) ? "number significant" : "number";
    return make("td", { class: style }, formatP(rate[test]));
  });
  const difference = isBaseline ? "baseline" : formatSigned(rate.difference);
  return [makeCell(formatScore(rate.value)), makeCell(difference), ...ps];
}

function makeLengthDetails(buckets) {
  const heads = buckets.map(({ name, sentences: count }) => `${name} (${count})`);
  const rows = tables.systems.map(({ system }) => [
    system,
    ...buckets.map(({ name }) => {
      const bucket = tables.by_length[system].find((other) => other.name === name);
      if (!bucket) return makeCell("–");
      const spread = bucket.low === null ? null : makeSpread(describeBucket(system, bucket));
      return makeCell(formatScore(bucket.bleu), spread);
    }),
  ]);
  const title =
    "Table of BLEU by length: in grey the difference from the baseline and its 95 % interval; " +
    "for the baseline the interval of its BLEU";
  return makeTableDetails("by_length", title, makeTable(["system", ...heads], rows));
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
