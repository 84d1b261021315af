"use strict";

const SENTENCES_PER_PAGE = 20;
const SEARCH_DELAY = 120; // milliseconds
const ORDERS = {
  apart: "largest difference",
  worse: "first is better",
  better: "second is better",
  number: "order of the test set",
  low: "lowest BLEU of the second",
  long: "longest source",
};

/** What the reader chose; runs are kept by name, because their numbers change. */
const chosen = {
  first: null,
  second: null,
  others: new Set(),
  order: "apart",
  search: "",
  page: 0,
  opened: new Set(), // sentences with their alignments
};
const findRun = (name) => runs.findIndex((run) => run.name === name);

/** Focus a button of the pager, which is made anew for each page, or the other one if it is off. */
function focusButton(id) {
  const other = id === "next" ? "previous" : "next";
  findById(findById(id).disabled ? other : id).focus({ preventScroll: true });
}

/** The part of the page that compares the translations of two or more runs. */
class SentenceBrowser {
  constructor() {
    this.selection = [];
    this.updates = 0;
    this.tally = make("div", { class: "tally" });
    this.list = make("div", { id: "list" });
    this.body = make("div", {}, this.tally, this.list);
  }

  get first() {
    const run = findRun(chosen.first);
    return run < 0 ? baselineRun : run;
  }

  get second() {
    const run = findRun(chosen.second);
    return run < 0 ? findOtherRun() : run;
  }

  get shownRuns() {
    const others = [...chosen.others].map(findRun).filter((run) => run >= 0);
    return [...new Set([this.first, this.second, ...others])];
  }

  makeControls() {
    const names = Object.fromEntries(runs.map(({ name }) => [name, name]));
    const makeChoice = (title, key, texts, value) => {
      const choose = (choice) => {
        chosen[key] = choice;
        this.update();
      };
      return make("label", {}, title, makeSelect(key, texts, value, choose));
    };
    const boxes = runs.map((run) =>
      makeCheckbox(run.name, run.name, chosen.others, () => this.update(), "also"),
    );
    return make(
      "div",
      { class: "controls" },
      makeChoice("First", "first", names, runs[this.first].name),
      makeChoice("Second", "second", names, runs[this.second].name),
      makeChoice("Order", "order", ORDERS, chosen.order),
      make("label", {}, "Search", this.makeSearch()),
      runs.length > 2 ? makeMenu({}, "Also show", boxes) : null,
    );
  }

  makeSearch() {
    let timer;
    const search = make("input", {
      type: "search",
      id: "search",
      placeholder: "words in source, reference or translation",
      value: chosen.search,
      oninput: () => {
        chosen.search = search.value;
        clearTimeout(timer);
        timer = setTimeout(() => this.update(), SEARCH_DELAY);
      },
    });
    return search;
  }

  async update() {
    chosen.page = 0;
    await this.showSelection();
  }

  async showSelection() {
    const number = ++this.updates;
    const selection = await this.select();
    if (number !== this.updates) return; // because a later choice replaced this one
    this.selection = selection;
    await this.showPage();
  }

  /** Return the numbers of the sentences that match the search, in the chosen order. */
  async select() {
    const texts = [await readTexts("sources"), await readTexts("references")];
    const [sources] = texts;
    let numbers = [...sources.keys()];
    const search = chosen.search.trim().toLowerCase();
    if (search) {
      texts.push(...(await Promise.all(this.shownRuns.map(readTranslations))));
      const matches = (number) => texts.some((text) => text[number].toLowerCase().includes(search));
      numbers = numbers.filter(matches);
    }
    const getKey = this.getSortKey(sources);
    return numbers.sort((one, other) => getKey(one) - getKey(other) || one - other);
  }

  getSortKey(sources) {
    const [first, second] = [readScores(this.first), readScores(this.second)];
    return {
      apart: (number) => -Math.abs(second[number] - first[number]),
      better: (number) => first[number] - second[number],
      worse: (number) => second[number] - first[number],
      number: (number) => number,
      low: (number) => second[number],
      long: (number) => -sources[number].length,
    }[chosen.order];
  }

  async showPage() {
    const number = this.updates;
    const start = chosen.page * SENTENCES_PER_PAGE;
    const shown = this.selection.slice(start, start + SENTENCES_PER_PAGE);
    const [sources, references] = [await readTexts("sources"), await readTexts("references")];
    const runTexts = await Promise.all(
      this.shownRuns.map(async (run) => [run, await readTranslations(run)]),
    );
    if (number !== this.updates) return;
    const articles = shown.map((sentence) => {
      const translations = new Map(runTexts.map(([run, texts]) => [run, texts[sentence]]));
      return this.makeArticle(sentence, sources[sentence], references[sentence], translations);
    });
    const message = make("p", { class: "soft" }, `No sentence contains “${chosen.search.trim()}”.`);
    this.list.replaceChildren(...(articles.length ? articles : [message]));
    this.tally.replaceChildren(...this.makeCounts(), this.makePager(start, start + shown.length));
  }

  makeCounts() {
    const [first, second] = [readScores(this.first), readScores(this.second)];
    const count = (matches) => this.selection.filter(matches).length;
    const better = count((number) => second[number] > first[number]);
    const worse = count((number) => second[number] < first[number]);
    const equal = this.selection.length - better - worse;
    const makeBar = (size, background) => {
      const width = `${(100 * size) / Math.max(1, this.selection.length)}%`;
      return make("i", { style: { width, background } });
    };
    const makeCount = (size) => make("b", {}, formatInteger(size));
    const texts = ["second better ", ", first better ", ", equal "];
    const counts = [better, worse, equal].flatMap((size, index) => [texts[index], makeCount(size)]);
    return [
      make("span", {}, ...counts),
      make(
        "span",
        { class: "split", "aria-hidden": "true" },
        makeBar(better, "var(--c2)"),
        makeBar(equal, "var(--line)"),
        makeBar(worse, "var(--c1)"),
      ),
    ];
  }

  makePager(start, end) {
    const total = this.selection.length;
    const range = `${formatInteger(start + 1)}–${formatInteger(end)} of ${formatInteger(total)}`;
    const makeButton = (id, step, sign, disabled) => {
      const label = `${id} sentences`;
      const onclick = async () => {
        chosen.page += step;
        await this.showPage();
        focusButton(id);
        findById("sentences").scrollIntoView();
      };
      const attributes = { id, "aria-label": label, disabled, onclick };
      return make("button", { class: "plain", type: "button", ...attributes }, sign);
    };
    return make(
      "span",
      { class: "pager" },
      make("span", {}, end > start ? range : "none"),
      makeButton("previous", -1, "←", chosen.page === 0),
      makeButton("next", 1, "→", end >= total),
    );
  }

  makeArticle(sentence, source, reference, translations) {
    const makePlainText = (term, text) => [
      make("dt", {}, term),
      make("dd", { dir: "auto" }, ...this.makeWords(splitText(text).map((word) => [word, false]))),
      make("dd", { class: "rating" }),
    ];
    const texts = [
      ...makePlainText("source", source),
      ...makePlainText("reference", reference),
      ...this.shownRuns.flatMap((run) => this.makeTranslation(run, sentence, translations)),
    ];
    const alignments = new AlignmentPanel(sentence, this.shownRuns);
    const gain = getRating(this.second, sentence) - getRating(this.first, sentence);
    const number = make("span", {}, `№ ${sentence + 1}`);
    const aside = make("div", { class: "aside" }, number, makeGain(gain), alignments.button);
    return make(
      "article",
      { class: "card sentence", "data-number": sentence },
      make("div", { class: "top" }, make("dl", { class: "texts" }, ...texts), aside),
      alignments.panel,
    );
  }

  /** Return a translation with the words that its counterpart lacks underlined. */
  makeTranslation(run, sentence, translations) {
    const counterpart = run === this.first ? this.second : this.first;
    const words = splitText(translations.get(run));
    const marked =
      run === counterpart
        ? words.map((word) => [word, false])
        : markDifferences(words, splitText(translations.get(counterpart)));
    const empty = make("span", { class: "soft" }, "(empty)");
    const content = words.length ? this.makeWords(marked) : [empty];
    const name = make("span", {}, runs[run].name);
    const rating = getRating(run, sentence).toFixed(1);
    return [
      make("dt", {}, drawSwatch(runs[run].system), name),
      make("dd", { class: "translation", dir: "auto", "data-run": run }, ...content),
      make("dd", { class: "rating", title: "sentence BLEU" }, rating),
    ];
  }

  /** Return elements for words; words that match the search are highlighted. */
  makeWords(words) {
    const parts = chosen.search.toLowerCase().split(/\s+/).filter(Boolean);
    return words.map(([word, differs]) => {
      const matches = parts.some((part) => word.toLowerCase().includes(part));
      const content = matches ? make("mark", {}, word) : word;
      return makeWord([content, differs]);
    });
  }
}

/** Return a run to compare with the baseline, of another system if there is one. */
function findOtherRun() {
  const other = runs.findIndex((run) => run.system !== runs[baselineRun].system);
  if (other >= 0) return other;
  return runs.length > 1 ? baselineRun + 1 : baselineRun;
}

const getRating = (run, sentence) => readScores(run)[sentence] / SCORE_STEPS_PER_POINT;

function makeGain(gain) {
  const direction = gain > 0 ? "up" : gain < 0 ? "down" : "";
  const title = "sentence BLEU, second − first";
  return make("span", { class: `gain ${direction}`, title }, formatSigned(gain, 1));
}
