"use strict";

const NO_P_OVER_SEEDS =
  "Without several seeds of a system there is no p over seeds, so no p is bold. ";
const formatScore = (value) => value.toFixed(2);

/** Return a mean with its deviation, and with the number of runs that have it if some lack it. */
function describeMean(mean, format) {
  if (!mean) return ["–"];
  const deviation = "deviation" in mean ? ` ± ${format(mean.deviation)}` : "";
  const count = "of" in mean ? ` (${mean.of[0]} of ${mean.of[1]})` : "";
  const spread = deviation + count;
  return [format(mean.mean), spread ? makeSpread(spread) : null];
}

/**
 * Return the columns of the leaderboard.
 *
 * column: { key, head, title, class, score, direction, getValue, describe, isSignificant };
 * `direction` is that of the first sort: 1 if the smallest value comes first, else -1
 */
function makeColumns() {
  const columns = [
    ...tables.scores.map(makeScoreColumn),
    ...makeDifferenceColumns(),
    ...(tables.validation ? [makeValidationColumn()] : []),
    ...makeCostColumns(),
  ];
  return [
    { key: "system", head: "system", getValue: (row) => row.system },
    ...columns.map((column) => ({ class: "number", direction: 1, ...column })),
    ...tables.settings.map(makeSettingColumn),
  ];
}

function makeScoreColumn({ name, signature, better }) {
  return makeMeanColumn({
    key: name,
    head: formatScoreName(name),
    title: signature || name,
    score: name,
    direction: better === "lower" ? 1 : -1,
    getMean: (row) => row.scores[name],
  });
}

/** Return a column of means; it is sorted by them and shows their deviations too. */
const makeMeanColumn = ({ getMean, format = formatScore, ...column }) => ({
  ...column,
  getValue: (row) => getMean(row)?.mean,
  describe: (row) => describeMean(getMean(row), format),
});

/** Return the columns with the difference from the baseline and its p-values. */
function makeDifferenceColumns() {
  const { together, resamples, spread_over_seeds: spread } = tables;
  const bootstrap =
    "paired bootstrap over sentences" +
    (together > 1 ? `, ${together} at a time` : "") +
    `, ${resamples} resamples` +
    (hasSeveralRuns ? "; BLEU is the mean over seeds" : "");
  const difference = {
    key: "difference",
    head: "Δ\u00a0BLEU",
    title: `difference from ${tables.baseline}`,
    direction: -1,
    getValue: (row) => row.difference?.bleu ?? 0,
    describe: (row) => [row.difference ? formatSigned(row.difference.bleu) : "0"],
  };
  const columns = [
    difference,
    makePColumn("p", "p, sentences", bootstrap, (row) => row.difference?.by_sentence?.p_bootstrap),
  ];
  if (!spread) return columns;
  const test =
    "Student's t-test with the standard deviation over seeds, pooled over all systems: " +
    `${formatScore(spread.deviation)} BLEU (paired where a system has the baseline's own runs)`;
  const getP = (row) => row.difference?.p_seeds;
  const bySeeds = makePColumn("p_seeds", "p, seeds", test, getP);
  return [...columns, { ...bySeeds, isSignificant: (row) => isSignificant(getP(row)) }];
}

function makePColumn(key, head, title, getP) {
  return {
    key,
    head,
    title,
    getValue: (row) => getP(row) ?? undefined,
    describe: (row) => [formatP(getP(row))],
  };
}

function makeValidationColumn() {
  return makeMeanColumn({
    key: "validation",
    head: tables.validation,
    title: "the validation score that selected the checkpoint",
    direction: /loss|perplexity/.test(tables.validation) ? 1 : -1,
    getMean: (row) => row.validation,
  });
}

function makeCostColumns() {
  const parameters = {
    key: "parameters",
    head: "parameters",
    getValue: (row) => row.parameters ?? undefined,
    describe: (row) => [row.parameters === null ? "–" : formatInteger(row.parameters)],
  };
  const speed = makeMeanColumn({
    key: "speed",
    head: "tokens/s",
    title: "target tokens per second of training, with end-of-sentence tokens; the median",
    direction: -1,
    getMean: (row) => row.tokens_per_second,
    format: formatInteger,
  });
  const time = {
    key: "time",
    head: "time",
    title: "training time",
    getValue: (row) => row.seconds?.mean,
    describe: (row) => [row.seconds ? formatDuration(row.seconds.mean) : "–"],
  };
  const steps = makeMeanColumn({
    key: "steps",
    head: "steps",
    getMean: (row) => row.steps,
    format: formatInteger,
  });
  return [parameters, speed, time, steps];
}

function makeSettingColumn(name) {
  return {
    key: `setting ${name}`,
    head: shortenSetting(name),
    title: name,
    class: "setting",
    direction: 1,
    getValue: (row) => row.settings[name] ?? undefined,
    describe: (row) => splitName(formatSetting(row.settings[name])),
  };
}

const shortenSetting = (name) => name.replace(/\._target_$/, "");

/** What the reader chose. */
const chosenOrder = { sortKey: "bleu", direction: -1, filter: "" };
const chosenScores = new Set(["bleu", "chrf"]);

/** A table of all systems, sorted by the column that was clicked. */
class Leaderboard {
  constructor() {
    this.columns = makeColumns();
    const caption = make("caption", { class: "visually-hidden" }, "Systems with their scores");
    this.table = make("table", { class: "table" }, caption);
    this.message = make("p", { class: "soft small message" }, "No system matches the filter.");
    this.paint();
  }

  makeControls() {
    const setFilter = (event) => {
      chosenOrder.filter = event.target.value;
      this.paint();
    };
    const filter = make("input", {
      type: "search",
      id: "filter",
      placeholder: "system or setting",
      value: chosenOrder.filter,
      oninput: setFilter,
    });
    const boxes = tables.scores.map(({ name }) =>
      makeCheckbox(formatScoreName(name), name, chosenScores, () => this.paint()),
    );
    const controls = makeControl("Filter", filter);
    controls.append(makeMenu({ id: "scores" }, "Scores", boxes));
    return controls;
  }

  paint() {
    const columns = this.columns.filter(({ score }) => !score || chosenScores.has(score));
    const sortColumn = columns.find(({ key }) => key === chosenOrder.sortKey) || columns[0];
    const rows = this.selectRows(sortColumn);
    this.message.hidden = rows.length > 0;
    this.table.replaceChildren(
      this.table.caption,
      this.makeHead(columns, sortColumn),
      this.makeBody(columns.slice(1), rows),
    );
  }

  /** Return the rows that match the filter, sorted; rows without a value come last. */
  selectRows({ getValue }) {
    const filter = chosenOrder.filter.toLowerCase();
    const getText = (row) => `${row.system} ${Object.values(row.settings).join(" ")}`.toLowerCase();
    const rows = tables.systems.filter((row) => getText(row).includes(filter));
    return rows.sort((one, other) => {
      const [value, otherValue] = [getValue(one), getValue(other)];
      if (value === undefined || otherValue === undefined) {
        return (value === undefined) - (otherValue === undefined);
      }
      return chosenOrder.direction * compareValues(value, otherValue);
    });
  }

  makeHead(columns, sortColumn) {
    const direction = chosenOrder.direction > 0 ? "ascending" : "descending";
    const cells = columns.map((column) => {
      const attributes = {
        type: "button",
        title: column.title,
        "data-key": column.key,
        onclick: () => this.sortBy(column, sortColumn),
      };
      return make(
        "th",
        {
          scope: "col",
          class: column.class,
          "aria-sort": column === sortColumn ? direction : false,
        },
        make("button", attributes, column.head),
      );
    });
    return make("thead", {}, make("tr", {}, ...cells));
  }

  /** Sort by a column, or reverse the order if it is sorted by it. */
  sortBy(column, sortColumn) {
    const direction = column === sortColumn ? -chosenOrder.direction : column.direction || 1;
    Object.assign(chosenOrder, { sortKey: column.key, direction });
    this.paint();
    const buttons = [...this.table.querySelectorAll("thead button")];
    buttons.find((button) => button.dataset.key === column.key).focus();
  }

  makeBody(columns, rows) {
    const bestWorths = new Map([...chosenScores].map((score) => [score, findBestWorth(score)]));
    const isBest = ({ score, getValue }, row) =>
      score && getWorth(score)(getValue(row)) === bestWorths.get(score);
    const lines = rows.map((row) => {
      const cells = columns.map((column) => {
        const classes = [
          column.class,
          isBest(column, row) && "best",
          column.isSignificant?.(row) && "significant",
        ];
        const title = column.class === "setting" && formatSetting(row.settings[column.title]);
        const attributes = { class: classes.filter(Boolean).join(" "), title };
        return make("td", attributes, ...column.describe(row));
      });
      return make("tr", {}, makeSystemHead(row), ...cells);
    });
    return make("tbody", {}, ...lines);
  }
}

/** Return the worth of the best value of a score, or NaN if only one system has the score. */
function findBestWorth(score) {
  const values = tables.systems.map((row) => row.scores[score]?.mean).filter(isGiven);
  return values.length > 1 ? Math.max(...values.map(getWorth(score))) : NaN;
}

function makeSystemHead(row) {
  const makeTag = (text, title) => make("span", { class: "tag", title }, text);
  const name = make(
    "span",
    {},
    ...splitName(row.system),
    row.runs.length > 1 ? makeTag(countRuns(row), row.runs.join("\n")) : null,
    row.system === tables.baseline ? makeTag("baseline") : null,
  );
  const swatch = drawSwatch(tables.systems.indexOf(row));
  return make("th", { scope: "row" }, make("div", { class: "system" }, swatch, name));
}

function countRuns({ seeds, runs: names }) {
  const seedCount = new Set(seeds.filter((seed) => seed !== null)).size;
  return seedCount === names.length ? `${seedCount} seeds` : `${names.length} runs`;
}

function makeLeaderboard() {
  if (!tables) return null;
  const leaderboard = new Leaderboard();
  const about =
    `Δ and p compare BLEU with ${tables.baseline}. p: if both systems were equally good, how ` +
    "often would chance show a difference this large? Over sentences, chance is the choice of " +
    "the test set; over seeds, the randomness of training. " +
    (tables.spread_over_seeds ? "p over seeds is bold below 0.05. " : NO_P_OVER_SEEDS) +
    (hasSeveralRuns ? "± is the standard deviation over seeds." : "");
  const scroll = {
    class: "card scroll",
    tabindex: "0",
    role: "group",
    "aria-label": "Leaderboard",
  };
  return makeSection(
    { id: "leaderboard", title: "Leaderboard", about, controls: leaderboard.makeControls() },
    make("div", scroll, leaderboard.table, leaderboard.message),
  );
}
