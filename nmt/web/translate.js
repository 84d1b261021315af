"use strict";

const MAX_TEXT_IN_LINK = 1500;
const SEARCH_KEYS = ["beam", "length_penalty", "nbest"];
const DEFAULT_RUNS = 2;
const DEFAULT_NBEST = 5;
const getRunBoxes = () => [...document.querySelectorAll("input[name=run]")];
const targetLanguages = new Map(); // by the name of the run
let isSampled = false; // then n-best may be more than the beam

/** Return the JSON that the server answers. */
async function request(path, content) {
  const headers = { "Content-Type": "application/json" };
  const post = content && { method: "POST", headers, body: JSON.stringify(content) };
  const response = await fetch(path, post).catch(() => {
    throw new Error("The server does not answer. Is translate.py still running?");
  });
  const answer = await response.json().catch(() => ({}));
  const status = `The server answered ${response.status} ${response.statusText}`;
  if (!response.ok) throw new Error(answer.error || status);
  return answer;
}

function showError(message) {
  findById("problem").textContent = message;
  findById("problem").hidden = !message;
}

/** Show the runs to choose from; the parts in which they differ stand out. */
function showRuns(runs) {
  const groups = [...new Set(runs.flatMap((run) => Object.keys(run.parts)))];
  const countChoices = (group) => new Set(runs.map((run) => run.parts[group])).size;
  const differing = new Set(groups.filter((group) => countChoices(group) > 1));
  for (const run of runs) {
    targetLanguages.set(run.name, run.languages[1]);
    findById("runs").append(makeRun(run, differing));
  }
}

function makeRun(run, differing) {
  const parts = Object.entries(run.parts).map(([group, choice]) => {
    const name = group.split("/").join(" ");
    const style = differing.has(group) ? "differs" : false;
    return make("div", { class: style }, make("dt", {}, name), make("dd", {}, choice));
  });
  const facts = [
    run.languages.join(" → "),
    `${run.parameters.toLocaleString("en")} parameters`,
    `${run.steps.toLocaleString("en")} steps`,
  ];
  return make(
    "label",
    { class: "run", title: run.overrides.join(" ") || false },
    make("input", { type: "checkbox", name: "run", value: run.name }),
    make("strong", {}, run.name),
    make("dl", { class: "parts" }, ...parts),
    make("span", { class: "size" }, facts.join(" · ")),
  );
}

/** Fill the form from the link, else from the defaults; return true if the link has a text. */
function fillForm(search) {
  const link = new URLSearchParams(location.search);
  isSampled = search.sample;
  const nbest = Math.max(search.nbest, Math.min(DEFAULT_NBEST, search.beam));
  const defaults = { ...search, nbest };
  for (const key of SEARCH_KEYS) findById(key).value = link.get(key) ?? defaults[key];
  findById("traces").checked = link.get("traces") === "true";
  findById("text").value = link.get("text") ?? "";
  const boxes = getRunBoxes();
  const linked = boxes.filter((box) => link.getAll("runs").includes(box.value));
  for (const box of linked.length ? linked : boxes.slice(0, DEFAULT_RUNS)) box.checked = true;
  return link.has("text");
}

function readForm() {
  const checked = getRunBoxes().filter((box) => box.checked);
  const content = { text: findById("text").value, runs: checked.map((box) => box.value) };
  for (const key of SEARCH_KEYS) {
    const { value, valueAsNumber } = findById(key);
    content[key] = Number.isNaN(valueAsNumber) ? value : valueAsNumber;
  }
  content.traces = findById("traces").checked;
  const most = isSampled ? Number(findById("nbest").max) : content.beam;
  if (most >= 1) content.nbest = Math.min(content.nbest, most) || content.nbest;
  return content;
}

/** Turn the address into a link to the text and the settings. */
function updateLink(content) {
  const link = new URLSearchParams();
  for (const [key, value] of Object.entries(content)) {
    for (const item of [value].flat()) link.append(key, item);
  }
  const fits = content.text.length <= MAX_TEXT_IN_LINK;
  history.replaceState(null, "", fits ? `?${link}` : location.pathname);
}

async function translate(event) {
  event?.preventDefault();
  if (findById("go").disabled) return;
  const content = readForm();
  showError("");
  findById("go").disabled = true;
  findById("results").setAttribute("aria-busy", "true");
  findById("status").textContent = "Translating";
  try {
    const { lines, runs } = await request("translate", content);
    const articles = lines.map((line, number) => makeLine(line, number, runs));
    findById("results").replaceChildren(...articles);
    findById("status").textContent = "Translated";
    updateLink(content);
  } catch (error) {
    showError(error.message);
    findById("status").textContent = "";
  } finally {
    findById("go").disabled = false;
    findById("results").removeAttribute("aria-busy");
  }
}

/** Make the translations of a line. If there are two, the words that differ are underlined. */
function makeLine(line, number, runs) {
  const results = runs.map((run) => new Result(run, run.lines[number], () => compare()));
  const compare = () => {
    const words = results.map((result) => splitText(result.text));
    results.forEach((result, index) => {
      const hasTwo = results.length === 2;
      const plain = [[result.text, false]];
      result.write(hasTwo ? markDifferences(words[index], words[1 - index]) : plain);
    });
  };
  compare();
  const columns = make("div", { class: "columns" }, ...results.map((result) => result.element));
  return make("article", {}, make("h2", { dir: "auto" }, line), columns);
}

const formatScore = (score, digits) => useMinusSign(score.toFixed(digits));

/** One of the n-best translations of a run, with its scores and its heatmap. */
class Result {
  constructor(run, translations, onchange) {
    const lang = targetLanguages.get(run.name);
    this.name = run.name;
    this.translations = translations;
    this.words = make("p", { class: "translation", dir: "auto", lang });
    this.scores = make("p", { class: "scores" });
    this.heatmap = make("div");
    this.buttons = translations.map((translation, rank) =>
      this.makeButton(translation, rank, onchange),
    );
    if (translations.length) this.choose(0);
    const time = make("span", { class: "soft" }, `${run.seconds.toFixed(2)} s`);
    this.element = make(
      "section",
      { class: "result", "aria-label": run.name },
      make("header", {}, make("h3", {}, run.name), time),
      this.words,
      this.scores,
      this.heatmap,
      translations.length > 1 ? this.makeList() : null,
    );
  }

  get text() {
    return this.chosen ? this.chosen.text || "(empty)" : "(no translation)";
  }

  makeButton({ text, score }, rank, onchange) {
    const onclick = () => {
      this.choose(rank);
      onchange();
    };
    return make(
      "button",
      { type: "button", onclick },
      make("span", { class: "soft" }, `${rank + 1}`),
      make("span", { dir: "auto" }, text || "(empty)"),
      make("span", { class: "soft", title: "score" }, formatScore(score, 3)),
    );
  }

  makeList() {
    const items = this.buttons.map((button) => make("li", {}, button));
    return make(
      "details",
      {},
      make("summary", {}, `The ${items.length} best`),
      make("ol", { class: "best" }, ...items),
    );
  }

  choose(rank) {
    this.chosen = this.translations[rank];
    const { score, log_probability: logProbability } = this.chosen;
    this.scores.textContent =
      `score ${formatScore(score, 3)} · log-probability ${formatScore(logProbability, 2)}` +
      (rank ? ` · number ${rank + 1} of ${this.translations.length}` : "");
    this.heatmap.replaceChildren(makeHeatmap(getAttention(this.chosen), this.name));
    this.buttons.forEach((button, other) => {
      button.setAttribute("aria-pressed", String(other === rank));
    });
  }

  write(words) {
    this.words.replaceChildren(...words.map(makeWord));
  }
}

const getAttention = (translation) => ({
  source: translation.source_words,
  target: translation.words,
  weights: translation.alignment,
  probabilities: translation.word_scores.map(Math.exp),
  digits: 4,
  layers: translation.layers,
});

async function start() {
  const { runs, search } = await request("runs");
  showRuns(runs);
  // fill the form and no more, because a page of another site may have made the link
  findById(fillForm(search) ? "go" : "text").focus();
}

findById("form").addEventListener("submit", translate);
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate(event);
});
start().catch((error) => showError(error.message));
