"use strict";

let chosenScore = null;

function makeSettings() {
  if (!tables?.settings.length || tables.systems.length < 2) return null;
  const scores = tables.scores.filter(({ better }) => better !== "neither");
  const names = Object.fromEntries(scores.map(({ name }) => [name, formatScoreName(name)]));
  const first = betterDirections.has("bleu") ? "bleu" : tables.scores[0].name;
  const score = names[chosenScore] ? chosenScore : first;
  const select = makeSelect("against_settings", names, score, () => {
    chosenScore = select.value;
    paint();
  });
  const element = make("div");
  const paint = () => element.replaceChildren(makeSettingsChart(select.value));
  paint();
  return makeSection(
    { id: "settings", title: "Settings", controls: makeControl("Score", select) },
    element,
  );
}

function makeSettingsChart(score) {
  const getSetting = (row, name) => row.settings[name] ?? null;
  const axes = tables.settings.map((name) => {
    const values = new Set(tables.systems.map((row) => getSetting(row, name)));
    return { name: shortenSetting(name), values: [...values].sort(compareSettings) };
  });
  const rows = tables.systems.filter((row) => row.scores[score]);
  const lines = rows.map((row) => ({
    label: row.system,
    score: row.scores[score].mean,
    values: tables.settings.map((name) => getSetting(row, name)),
  }));
  const missing = tables.systems.filter((row) => !row.scores[score]).map((row) => row.system);
  const caption =
    "The settings that differ between systems. Each line is a system; the stronger its colour, " +
    `the better its score.${describeMissing(missing, "this score")}`;
  const scoreName = formatScoreName(score);
  return makeParallelChart({ axes, lines, scoreName, caption, worth: getWorth(score) });
}

/** Compare settings for sorting; null comes last. */
const compareSettings = (one, other) =>
  (one === null) - (other === null) || compareValues(one, other);

async function makeSentences() {
  if (!tables) return null;
  const browser = new SentenceBrowser();
  const about =
    "Underlined words are missing from the other translation. On the right: sentence BLEU, and " +
    `the gain of the second over the first. ${describeAlignments()}`;
  const controls = browser.makeControls();
  await browser.showSelection();
  return makeSection({ id: "sentences", title: "Sentences", about, controls }, browser.body);
}

function describeAlignments() {
  const count = readData("alignments").order.length;
  if (!count) return "This page has no alignments.";
  if (count === tables.sentences) return "";
  return `It has alignments of the ${formatInteger(count)} sentences on which runs differ most.`;
}

function makeRuns() {
  if (!tables) return null;
  const about = "Configuration, command and provenance of each run.";
  return makeSection({ id: "runs", title: "Runs", about }, ...runs.map(makeRun));
}

function makeRun(run) {
  const facts = [
    run.status,
    run.seconds ? formatDuration(run.seconds) : null,
    run.parameters?.total ? `${formatInteger(run.parameters.total)} parameters` : null,
  ];
  const content = make("div");
  const summary = make(
    "summary",
    {},
    make("strong", {}, run.name),
    make("span", { class: "soft small" }, facts.filter(Boolean).join(" · ")),
  );
  const fill = async () => {
    if (!details.open || content.firstChild) return;
    content.append(...(await describeRun(run)));
  };
  const details = make("details", { class: "card run", ontoggle: fill }, summary, content);
  return details;
}

async function describeRun(run) {
  const join = (object, format) =>
    Object.entries(object || {})
      .map(([name, value]) => `${name} ${format(value)}`)
      .join(" · ");
  const code = (text) => (text ? make("code", {}, text) : null);
  const isOffline = run.wandb?.includes("offline-run");
  const command = run.overrides.length
    ? `${readData("train_command")} ${run.overrides.map(quoteArgument).join(" ")}`
    : null;
  const facts = {
    folder: code(run.folder),
    started: run.started,
    "git commit": code(run.commit),
    command: code(command),
    "W&B": code(isOffline ? `wandb sync ${quoteArgument(run.wandb)}` : run.wandb),
    parameters: join(run.parameters, formatInteger),
    versions: join(run.versions, String),
  };
  const items = Object.entries(facts)
    .filter(([, value]) => value)
    .flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]);
  const config = await readCompressed(run.config);
  const label = `Configuration of ${run.name}`;
  return [
    make("dl", { class: "about" }, ...items),
    config
      ? make("pre", { tabindex: "0", "aria-label": label }, config)
      : make("p", { class: "soft small" }, "The configuration is unknown."),
  ];
}

/** Quote an override or a path for the shell, if it needs quotes. */
const quoteArgument = (override) =>
  /^[\w@%+=:,./-]+$/.test(override) ? override : `'${override.replaceAll("'", "'\\''")}'`;

/** List the runs that are not compared; a served page has those that are not completed as jobs. */
function makeNotCompared() {
  if (!tables) return null;
  const jobs = readData("jobs") ?? [];
  const isOngoing = (name) => jobs.some((job) => job.name === name && job.status !== "completed");
  const makeRows = (rows) => rows.map(([run, text]) => [run, make("td", {}, text)]);
  const reasons = tables.not_compared
    .filter(({ run }) => !isOngoing(run))
    .map(({ run, reason }) => [run, reason]);
  const notes = tables.notes.map(({ run, note }) => [run, note]);
  if (!reasons.length && !notes.length) return null;
  return makeSection(
    { id: "not_compared", title: "Not compared" },
    reasons.length ? makeTable(["run", "reason"], makeRows(reasons), { isText: true }) : null,
    notes.length ? makeTable(["compared run", "note"], makeRows(notes), { isText: true }) : null,
  );
}

/** Fill the heading; a served page may have no tables yet. */
function fillHeading() {
  const title = tables ? `Runs compared on ${tables.test}` : "Runs";
  findById("title").textContent = title;
  document.title = tables ? `${tables.test}: ${tables.systems.length} systems compared` : title;
  findById("facts").replaceChildren(...(tables ? listFacts() : []));
}

function listFacts() {
  const { systems: rows, sentences: count, baseline, signature, not_compared: left } = tables;
  const makeCount = (number, noun) => {
    const text = ` ${noun}${number === 1 ? "" : "s"}`;
    return make("span", {}, make("b", {}, number.toLocaleString("en")), text);
  };
  const link = make("a", { href: "#not_compared" }, `${left.length} not compared`);
  const facts = [
    makeCount(rows.length, "system"),
    hasSeveralRuns ? makeCount(new Set(runs.map(({ folder }) => folder)).size, "run") : null,
    makeCount(count, "sentence"),
    make("span", {}, "baseline ", make("b", {}, baseline)),
    make("span", {}, `sacrebleu ${signature}`),
    left.length && !readData("jobs") ? link : null,
  ];
  return facts.filter(isGiven);
}

/** The sections of the page, and the parts of the data that each shows. */
const SECTIONS = [
  { id: "messages", parts: ["messages"], build: makeMessages },
  { id: "jobs", parts: ["jobs"], build: makeJobs },
  { id: "leaderboard", parts: ["comparison"], build: makeLeaderboard },
  { id: "curves", parts: ["comparison", "curves", "systems"], build: makeLearningCurves },
  { id: "samples", parts: ["comparison", "samples", "systems"], build: makeSamples },
  { id: "settings", parts: ["comparison"], build: makeSettings },
  { id: "lengths", parts: ["comparison"], build: makeLengths },
  { id: "sentences", parts: ["comparison"], build: makeSentences },
  { id: "runs", parts: ["comparison"], build: makeRuns },
  { id: "not_compared", parts: ["comparison"], build: makeNotCompared },
];

/** Build the sections that show any of these parts, and put each into its place. */
async function showSections(parts) {
  fillHeading();
  const shown = SECTIONS.filter((section) => section.parts.some((part) => parts.includes(part)));
  await Promise.all(shown.map(async ({ id, build }) => placeSection(id, await build())));
}

addPlaces(SECTIONS.map(({ id }) => id));
showSections(SECTIONS.flatMap((section) => section.parts));
