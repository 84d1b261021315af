"use strict";

const MAX_LINES_AT_FIRST = 8; // more lines cannot be distinguished
const chosenRuns = new Map(); // from a run's name to true (shown) or false (hidden) by the reader
const repaintFunctions = new Map(); // of all charts and legends, because they show the same systems

function isVisible(system) {
  const { row, runs: names } = systems[system];
  const isShownAtFirst = system < MAX_LINES_AT_FIRST || row?.system === tables.baseline;
  const chosenRun = names.find((name) => chosenRuns.has(name));
  return chosenRun ? chosenRuns.get(chosenRun) : isShownAtFirst;
}

const setVisible = (system, value) =>
  systems[system].runs.forEach((name) => chosenRuns.set(name, value));
const listVisible = (numbers) => numbers.filter(isVisible);

/** Return the numbers of the systems in the tables, or of those of some runs. */
const listComparedSystems = () => [...systems.keys()].filter((system) => systems[system].row);
const listSystemsOf = (runsOfSystems) =>
  [...new Set(runsOfSystems.map(({ system }) => system))].sort((one, other) => one - other);
const getVisibleSystems = () =>
  listVisible(listComparedSystems()).map((system) => ({ row: systems[system].row, system }));

/** Return buttons that show and hide these systems in all charts; `id` is that of the section. */
function makeLegend(id, numbers) {
  const makeButton = (attributes, onclick, ...content) => {
    const handler = () => {
      onclick();
      repaintFunctions.forEach((repaint) => repaint());
    };
    return make("button", { ...attributes, type: "button", onclick: handler }, ...content);
  };
  const buttons = numbers.map((system) => {
    const toggle = () => setVisible(system, !isVisible(system));
    return makeButton({}, toggle, drawSwatch(system), systems[system].name);
  });
  const areAllVisible = () => numbers.every(isVisible);
  const allButton = makeButton({ class: "all" }, () => {
    const value = !areAllVisible();
    numbers.forEach((system) => setVisible(system, value));
  });
  const count = make("span", { class: "soft small" });
  const update = () => {
    buttons.forEach((button, place) => {
      button.setAttribute("aria-pressed", String(isVisible(numbers[place])));
    });
    const text = `${listVisible(numbers).length} of ${buttons.length} shown`;
    allButton.textContent = areAllVisible() ? "none" : "all";
    count.textContent = areAllVisible() ? "" : text;
  };
  repaintFunctions.set(`${id} legend`, update);
  update();
  const label = "Systems shown in the charts";
  const attributes = { class: "legend", role: "group", "aria-label": label };
  return make("div", attributes, ...buttons, buttons.length > 1 ? allButton : null, count);
}

/** Return an element with charts of these systems, which are repainted when the legend changes. */
function makeLinkedCharts(id, numbers, style, paint) {
  const element = make("div", { class: style });
  const nothing = make("p", { class: "soft" }, "No system is shown. Choose systems above.");
  const repaint = () =>
    element.replaceChildren(...(listVisible(numbers).length ? paint() : [nothing]));
  repaintFunctions.set(`${id} charts`, repaint);
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

let chosenAxis = "steps";

/** Return the runs to draw; in a served page also those in no table, with their newest curves. */
function listCurves() {
  const curves = readData("curves") ?? {};
  const others = (readData("jobs") ?? []).filter((job) => !isInTables(job));
  const begun = others.filter(({ folder }) => Object.keys(curves[folder] ?? {}).length);
  return [...runs, ...begun].map((run) => {
    const system = run.system ?? findSystem(run);
    return { ...run, system, curves: curves[run.folder] ?? run.curves };
  });
}

function makeLearningCurves() {
  const drawnRuns = listCurves();
  const kinds = Object.keys(CURVES).filter((kind) => drawnRuns.some((run) => run.curves[kind]));
  if (!kinds.length) return null;
  const names = drawnRuns.some(hasTime) ? { steps: "steps", time: "time" } : { steps: "steps" };
  const select = makeSelect("against", names, names[chosenAxis] ? chosenAxis : "steps", (axis) => {
    chosenAxis = axis;
    charts.repaint();
  });
  const numbers = listSystemsOf(drawnRuns);
  const charts = makeLinkedCharts("curves", numbers, "charts", () =>
    kinds.map((kind) => makeCurveChart(drawnRuns, kind, select.value)),
  );
  const about =
    "Each line is a run; the runs of a system share a colour. Values that would flatten the " +
    "others are cut off, but no run as a whole.";
  return makeSection(
    { id: "curves", title: "Learning curves", about, controls: makeControl("Against", select) },
    makeLegend("curves", numbers),
    charts.element,
  );
}

function makeCurveChart(drawnRuns, kind, axis) {
  const visibleRuns = drawnRuns.filter((run) => isVisible(run.system));
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

const hasTime = (run) => run.seconds > 0 && run.steps > 0;
const convertToSeconds = (steps, run) => steps.map((step) => (step / run.steps) * run.seconds);
