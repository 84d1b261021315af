"use strict";

const MAX_LINES_AT_FIRST = 8; // more lines cannot be distinguished

const visibleSystems = new Set(
  [...tables.systems.keys()].filter((system) => {
    return system < MAX_LINES_AT_FIRST || tables.systems[system].system === tables.baseline;
  }),
);
const repaintFunctions = []; // of all charts and legends, because they show the same systems

const getVisibleSystems = () =>
  tables.systems
    .map((row, system) => ({ row, system }))
    .filter(({ system }) => visibleSystems.has(system));

/** Return buttons that show and hide systems in all charts. */
function makeLegend() {
  const setVisible = (system, isVisible) => visibleSystems[isVisible ? "add" : "delete"](system);
  const makeButton = (attributes, onclick, ...content) => {
    const handler = () => {
      onclick();
      repaintFunctions.forEach((repaint) => repaint());
    };
    return make("button", { ...attributes, type: "button", onclick: handler }, ...content);
  };
  const buttons = tables.systems.map((row, system) => {
    const toggle = () => setVisible(system, !visibleSystems.has(system));
    return makeButton({}, toggle, drawSwatch(system), row.system);
  });
  const areAllVisible = () => visibleSystems.size === buttons.length;
  const allButton = makeButton({ class: "all" }, () => {
    const isVisible = !areAllVisible();
    buttons.forEach((_, system) => setVisible(system, isVisible));
  });
  const count = make("span", { class: "soft small" });
  const update = () => {
    buttons.forEach((button, system) => {
      button.setAttribute("aria-pressed", String(visibleSystems.has(system)));
    });
    allButton.textContent = areAllVisible() ? "none" : "all";
    count.textContent = areAllVisible() ? "" : `${visibleSystems.size} of ${buttons.length} shown`;
  };
  repaintFunctions.push(update);
  update();
  const label = "Systems shown in the charts";
  const attributes = { class: "legend", role: "group", "aria-label": label };
  return make("div", attributes, ...buttons, buttons.length > 1 ? allButton : null, count);
}

/** Return an element with charts that are repainted when the legend changes. */
function makeLinkedCharts(style, paint) {
  const element = make("div", { class: style });
  const nothing = make("p", { class: "soft" }, "No system is shown. Choose systems above.");
  const repaint = () => element.replaceChildren(...(visibleSystems.size ? paint() : [nothing]));
  repaintFunctions.push(repaint);
  repaint();
  return { element, repaint };
}

const CURVES = {
  loss: {
    title: "Loss",
    caption:
      "Validation loss of each run in nats per piece (Luong 2015, Figure 5, has that of the test " +
      "set); training loss is pale. The highest values may be cut off.",
  },
  perplexity: {
    title: "Perplexity",
    caption: "Validation perplexity of each run, per word. The highest values may be cut off.",
  },
  bleu: {
    title: "BLEU",
    caption: "Validation BLEU of each run, in the words that the model sees.",
  },
};
const X_AXES = { steps: "steps", time: "time, at each run's mean speed" };

function addLearningCurves() {
  const kinds = Object.keys(CURVES).filter((kind) => runs.some((run) => run.curves[kind]));
  if (!kinds.length) return;
  const names = runs.some(hasTime) ? { steps: "steps", time: "time" } : { steps: "steps" };
  const select = makeSelect("against", names, "steps", () => charts.repaint());
  const charts = makeLinkedCharts("charts", () =>
    kinds.map((kind) => makeCurveChart(kind, select.value)),
  );
  const about =
    "Each line is a run; the runs of a system share a colour. Values that would flatten the " +
    "others are cut off, but no run as a whole.";
  addSection(
    { id: "curves", title: "Learning curves", about, controls: makeControl("Against", select) },
    makeLegend(),
    charts.element,
  );
}

function makeCurveChart(kind, axis) {
  const visibleRuns = runs.filter((run) => visibleSystems.has(run.system));
  const canDraw = (run) => run.curves[kind] && (axis === "steps" || hasTime(run));
  const series = visibleRuns.filter(canDraw).flatMap((run) =>
    Object.entries(run.curves[kind]).map(([column, [steps, ys]]) => ({
      label: `${run.name}, ${column}`,
      system: run.system,
      faint: column.startsWith("train/"),
      xs: axis === "time" ? convertToSeconds(steps, run) : steps,
      ys,
    })),
  );
  const missing = visibleRuns.filter((run) => !canDraw(run)).map(({ name }) => name);
  const { title, caption } = CURVES[kind];
  return makeLineChart({
    title,
    caption: caption + describeMissing(missing, axis === "time" ? "values or time" : "values"),
    series,
    robust: kind !== "bleu",
    xLabel: X_AXES[axis],
    xFormat: axis === "time" ? formatDuration : formatShort,
  });
}

const hasTime = (run) => run.seconds && run.steps;
const convertToSeconds = (steps, run) => steps.map((step) => (step / run.steps) * run.seconds);

function addSettings() {
  if (!tables.settings.length || tables.systems.length < 2) return;
  const scores = tables.scores.filter(({ better }) => better !== "neither");
  const names = Object.fromEntries(scores.map(({ name }) => [name, formatScoreName(name)]));
  const first = betterDirections.has("bleu") ? "bleu" : tables.scores[0].name;
  const select = makeSelect("against_settings", names, first, () => paint());
  const element = make("div");
  const paint = () => element.replaceChildren(makeSettingsChart(select.value));
  paint();
  addSection(
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

function addSentences() {
  const browser = new SentenceBrowser();
  const about =
    "Underlined words are missing from the other translation. On the right: sentence BLEU, and " +
    `the gain of the second over the first. ${describeAlignments()}`;
  const controls = browser.makeControls();
  addSection({ id: "sentences", title: "Sentences", about, controls }, browser.body);
  browser.update();
}

function describeAlignments() {
  const count = readData("alignments").order.length;
  if (!count) return "This page has no alignments.";
  if (count === tables.sentences) return "";
  return `It has alignments of the ${formatInteger(count)} sentences on which runs differ most.`;
}

function addRuns() {
  const about = "Configuration, command and provenance of each run.";
  addSection({ id: "runs", title: "Runs", about }, ...runs.map(makeRun));
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
    ? `${readData("train_command")} ${run.overrides.map(quoteOverride).join(" ")}`
    : null;
  const facts = {
    folder: code(run.folder),
    started: run.started,
    "git commit": code(run.commit),
    command: code(command),
    "W&B": code(isOffline ? `wandb sync ${run.wandb}` : run.wandb),
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

/** Quote an override for the shell, if it needs quotes. */
const quoteOverride = (override) =>
  /[\s{}[\]()*$&;|<>'"]/.test(override) ? `'${override.replaceAll("'", "'\\''")}'` : override;

function addNotCompared() {
  const makeRows = (rows) => rows.map(([run, text]) => [run, make("td", {}, text)]);
  const reasons = tables.not_compared.map(({ run, reason }) => [run, reason]);
  const notes = tables.notes.map(({ run, note }) => [run, note]);
  if (!reasons.length && !notes.length) return;
  addSection(
    { id: "not_compared", title: "Not compared" },
    reasons.length ? makeTable(["run", "reason"], makeRows(reasons), { isText: true }) : null,
    notes.length ? makeTable(["compared run", "note"], makeRows(notes), { isText: true }) : null,
  );
}

function fillHeading() {
  const { test, systems, sentences: count, baseline, signature, not_compared: left } = tables;
  findById("title").textContent = `Runs compared on ${test}`;
  document.title = `${test}: ${systems.length} systems compared`;
  const makeCount = (number, noun) => {
    const text = ` ${noun}${number === 1 ? "" : "s"}`;
    return make("span", {}, make("b", {}, number.toLocaleString("en")), text);
  };
  const link = make("a", { href: "#not_compared" }, `${left.length} not compared`);
  const facts = [
    makeCount(systems.length, "system"),
    hasSeveralRuns ? makeCount(runs.length, "run") : null,
    makeCount(count, "sentence"),
    make("span", {}, "baseline ", make("b", {}, baseline)),
    make("span", {}, `sacrebleu ${signature}`),
    left.length ? link : null,
  ];
  findById("facts").append(...facts.filter(isGiven));
}

fillHeading();
addLeaderboard();
addLearningCurves();
addSettings();
addLengths();
addSentences();
addRuns();
addNotCompared();
