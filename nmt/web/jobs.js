"use strict";

const STATES = ["running", "failed", "interrupted", "unknown", "waiting", "completed"];
const QUIET_MINUTES = 10;
const GIBIBYTE = 2 ** 30;

/** Show what the server reports, such as folders that are not there; a written page has nothing. */
function makeMessages() {
  const lines = (readData("messages") ?? []).map((line) => make("p", { class: "notice" }, line));
  return lines.length ? make("div", { role: "status" }, ...lines) : null;
}

/** Make the part of a served page with the state of each run. */
function makeJobs() {
  if (!readData("jobs")) return null;
  const getRank = ({ status }) => STATES.indexOf(status);
  const jobs = [...readData("jobs")].sort((one, other) => getRank(one) - getRank(other));
  const machine = make("p", { id: "machine", class: "soft small" }, describeMachine());
  const heads = ["run", "state", "progress", "time left", "last BLEU", "best BLEU", ""];
  const about =
    `${countStates(jobs)}. Time left: at the speed since this page is served; early stopping may ` +
    "end a run before. BLEU is of the validation set.";
  const none = make("p", { class: "soft" }, "No run has begun.");
  return makeSection(
    { id: "jobs", title: "Jobs", about },
    machine,
    jobs.length ? makeTable(heads, jobs.map(makeJobRow), { isText: true }) : none,
  );
}

function makeJobRow(job) {
  const name = make("span", {}, ...splitName(job.name));
  return [
    make("div", { class: "system" }, drawSwatch(findSystem(job)), name),
    make("td", {}, make("span", { class: `state ${job.status}` }, job.status)),
    make("td", {}, ...describeProgress(job)),
    make("td", {}, job.seconds_left === null ? "–" : formatDuration(job.seconds_left)),
    make("td", {}, job.valid_bleu ? job.valid_bleu.last.toFixed(2) : "–"),
    make("td", {}, job.valid_bleu ? job.valid_bleu.best.toFixed(2) : "–"),
    make("td", { class: "reason" }, job.notes.join("; "), makeQuietMark(job)),
  ];
}

function countStates(jobs) {
  const counts = new Map();
  for (const { status } of jobs) counts.set(status, (counts.get(status) ?? 0) + 1);
  return [...counts].map(([status, count]) => `${count} ${status}`).join(", ") || "No job";
}

function describeProgress({ steps, planned, status }) {
  if (!steps) return ["–"];
  if (!planned) return [`${formatInteger(steps)} steps`];
  const bar = make("progress", { value: steps, max: planned, "aria-label": "steps" });
  const of = status === "completed" ? "" : ` of ${formatInteger(planned)}`;
  return [status === "completed" ? null : bar, `${formatInteger(steps)}${of} steps`];
}

const makeQuietMark = ({ status, changed }) =>
  status === "running" && changed ? make("span", { "data-changed": changed }) : null;

/** Say which running jobs have logged nothing for long, because their processes may be gone. */
function markQuietJobs() {
  const now = readData("machine").time;
  for (const mark of document.querySelectorAll("[data-changed]")) {
    const minutes = Math.floor((now - mark.dataset.changed) / 60);
    mark.textContent = minutes < QUIET_MINUTES ? "" : ` nothing logged for ${minutes} minutes`;
  }
}

function describeMachine() {
  const { cpu, cores, memory, gpus } = readData("machine");
  const percent = (value) => (isGiven(value) ? `${Math.round(value)} %` : "–");
  const size = (sizes) =>
    sizes ? `${sizes.map((one) => (one / GIBIBYTE).toFixed(1)).join(" of ")} GiB` : "–";
  const devices = gpus.map((gpu) => `${gpu.name} ${percent(gpu.load)}, ${size(gpu.memory)}`);
  const processor = `CPU ${percent(cpu)} of ${cores} cores`;
  return [processor, `memory ${size(memory)}`, ...devices].join(" · ");
}

/** Show the machine's load; only its text changes, because it does so all the time. */
function updateMachine() {
  const line = findById("machine");
  if (line) line.textContent = describeMachine();
  markQuietJobs();
}

/** Make the part of a served page with the translations of each run's last validation. */
function makeSamples() {
  const samples = readData("samples") ?? {};
  const shown = (readData("jobs") ?? [])
    .filter(({ folder }) => samples[folder]?.sentences?.length)
    .map((job) => ({ ...job, system: findSystem(job), ...samples[job.folder] }));
  if (!shown.length) return null;
  const charts = makeLinkedCharts("samples", listSystemsOf(shown), "", () =>
    listSamples(shown.filter(({ system }) => isVisible(system))),
  );
  const about =
    "The first sentences of the validation set, as each run translated them last. Underlined " +
    "words differ from the reference. The legend of the learning curves chooses the runs.";
  return makeSection({ id: "samples", title: "Last validation", about }, charts.element);
}

/** Return a card for each sentence, with the translations of all runs that have it. */
function listSamples(shown) {
  const bySentence = new Map();
  for (const job of shown) {
    for (const [source, reference, translation] of job.sentences) {
      const key = JSON.stringify([source, reference]);
      if (!bySentence.has(key)) bySentence.set(key, []);
      bySentence.get(key).push({ job, translation });
    }
  }
  return [...bySentence].map(([key, translations]) => {
    const [source, reference] = JSON.parse(key);
    const texts = translations.flatMap((one) => makeSample(one, reference));
    const given = Object.entries({ source, reference }).flatMap(([term, text]) => [
      make("dt", {}, term),
      make("dd", { dir: "auto" }, text),
      make("dd", { class: "rating" }),
    ]);
    const list = make("dl", { class: "texts" }, ...given, ...texts);
    return make("div", { class: "card sentence" }, list);
  });
}

function makeSample({ job, translation }, reference) {
  const words = markDifferences(splitText(translation), splitText(reference)).map(makeWord);
  return [
    make("dt", {}, drawSwatch(job.system), make("span", {}, job.name)),
    make("dd", { class: "translation", dir: "auto" }, ...words),
    make("dd", { class: "rating" }, `step ${formatInteger(job.step + 1)}`),
  ];
}
