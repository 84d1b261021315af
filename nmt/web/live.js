"use strict";

const SECONDS_BETWEEN_POLLS = 2;
const SECONDS_OF_USE = 2; // nothing is replaced so long after the reader pointed or typed
const NO_COMPARISON = { tables: null, runs: null, sentences: null, alignments: null };
let usedAt = 0;
let lostAt = null; // the time of the first request without an answer

const isInUse = () => Date.now() - usedAt < 1000 * SECONDS_OF_USE;
const wait = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

function watchUse() {
  const note = () => (usedAt = Date.now());
  for (const event of ["pointerdown", "keydown"]) document.addEventListener(event, note);
  document.addEventListener("pointermove", (event) => {
    if (event.target.closest?.("figure, .sentence")) note();
  });
}

/** Return the changed parts of the data by name, or a message that the server gives no answer. */
async function fetchChanges() {
  try {
    const response = await fetch(`changes?${new URLSearchParams(readData("tags"))}`);
    lostAt = null;
    if (response.status === 204) return {};
    const answer = await response.json();
    return response.ok ? answer : { messages: { content: [answer.error] } };
  } catch {
    lostAt ??= new Date().toLocaleTimeString();
    const message = `The server has given no answer since ${lostAt}: the page stays as it was.`;
    return { messages: { content: [message] } };
  }
}

/** Replace parts of the data, and show the sections that draw them again. */
async function applyChanges(changes) {
  const tags = readData("tags");
  for (const [name, { tag, content }] of Object.entries(changes)) {
    tags[name] = tag ?? "";
    const parts = name === "comparison" ? { ...NO_COMPARISON, ...content } : { [name]: content };
    for (const [part, value] of Object.entries(parts)) data.set(part, value);
  }
  const before = JSON.stringify(systems);
  if ("comparison" in changes) readComparison();
  else systems = listSystems();
  const others = JSON.stringify(systems) === before ? [] : ["systems"];
  await showSections([...Object.keys(changes), ...others]);
  updateMachine();
}

async function keepUpToDate() {
  watchUse();
  updateMachine();
  for (;;) {
    await wait(SECONDS_BETWEEN_POLLS);
    if (document.hidden || isInUse()) continue;
    const changes = await fetchChanges();
    if (!isInUse()) await applyChanges(changes);
  }
}

if (readData("tags")) keepUpToDate();
