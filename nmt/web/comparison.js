"use strict";
const tables = readElement("tables"), runs = readElement("runs");
const find = id => document.getElementById(id);
const MOST_AT_FIRST = 8; // lines that can be told apart in a chart
const NAMES = { bleu: "BLEU", chrf: "chrF", ter: "TER", aer: "AER", saer: "SAER", ribes: "RIBES", bleu_tokenized: "BLEU, tokenised" };
const wordsOf = name => NAMES[name] || name.replaceAll("_", " ");
const placeOf = new Map(tables.systems.map((row, place) => [row.system, place]));
const betterOf = new Map(tables.scores.map(score => [score.name, score.better]));
const WORTHS = { higher: value => value, lower: value => -value, "nearest 1": value => -Math.abs(value - 1), neither: () => NaN };
const worthOf = name => WORTHS[betterOf.get(name)];
const several = tables.systems.some(row => row.runs.length > 1);
const listeners = [];

/** Systems that the charts show; the legends of all charts are one. */
const visible = new Set(tables.systems.map((_, place) => place).filter(place => place < MOST_AT_FIRST || tables.systems[place].system === tables.baseline));

function part(id, title, about, controls, ...body) {
  find("parts").append(make("a", { href: `#${id}` }, title));
  find("main").append(make("section", { class: "part", id, "aria-labelledby": `${id}_title` },
    make("header", {}, make("div", {}, make("h2", { id: `${id}_title` }, title), about ? make("p", {}, ...[about].flat()) : null), controls), ...body));
}

const shownSpread = (spread, write) => {
  if (!spread) return ["–"];
  const about = ("deviation" in spread ? ` ± ${write(spread.deviation)}` : "") + ("of" in spread ? ` (${spread.of[0]} of ${spread.of[1]})` : "");
  return [write(spread.mean), about ? make("span", { class: "sd" }, about) : null];
};
const shownP = value => value === null || value === undefined ? "–" : value < 0.001 ? "<0.001" : value.toFixed(3);
const whole = value => Math.round(value).toLocaleString("en");

/** What the leaderboard can show: a head, a value to sort by, and the cell. */
function columns() {
  const scores = tables.scores.map(({ name, signature }) => ({
    key: name, head: wordsOf(name), title: signature || name, number: true, score: name, first: betterOf.get(name) === "lower" ? 1 : -1,
    value: row => row.scores[name]?.mean, cell: row => shownSpread(row.scores[name], value => value.toFixed(2)),
  }));
  const at = (row, ...path) => path.reduce((node, key) => node?.[key], row.difference);
  const p = (key, head, title, value) => ({ key, head, title, number: true, value, cell: row => [shownP(value(row))], certain: row => value(row) < 0.05 });
  return [
    ...scores,
    { key: "difference", head: "Δ BLEU", title: `to ${tables.baseline}`, number: true, first: -1, value: row => at(row, "bleu") ?? 0, cell: row => [row.difference ? signed(row.difference.bleu) : "0"] },
    p("p", several ? "p, sentences" : "p", `paired bootstrap over sentences${tables.together > 1 ? `, ${tables.together} at a time` : ""}, ${tables.resamples} resamples${several ? "; BLEU is the mean over seeds" : ""}`, row => at(row, "by_sentence", "p_bootstrap") ?? undefined),
    ...(tables.spread_over_seeds ? [p("p_seeds", "p, seeds", `Student's t with the spread over seeds that all systems have together: ${tables.spread_over_seeds.deviation.toFixed(2)} BLEU`, row => at(row, "p_seeds") ?? undefined)] : []),
    ...(tables.validation ? [{ key: "validation", head: tables.validation, title: "on validation, what the checkpoint was chosen by", number: true, first: /loss|perplexity/.test(tables.validation) ? 1 : -1, value: row => row.validation?.mean, cell: row => shownSpread(row.validation, value => value.toFixed(2)) }] : []),
    { key: "parameters", head: "parameters", number: true, value: row => row.parameters ?? undefined, cell: row => [row.parameters === null ? "–" : whole(row.parameters)] },
    { key: "speed", head: "tokens/s", title: "target words or pieces, with the ends of sentences, a second in training; the median", number: true, first: -1, value: row => row.tokens_per_second?.mean, cell: row => shownSpread(row.tokens_per_second, whole) },
    { key: "time", head: "time", title: "of training", number: true, value: row => row.seconds?.mean, cell: row => [row.seconds ? clock(row.seconds.mean) : "–"] },
    { key: "steps", head: "steps", number: true, value: row => row.steps?.mean, cell: row => shownSpread(row.steps, whole) },
    ...tables.settings.map(name => ({ key: `setting ${name}`, head: name.replace(/\._target_$/, ""), title: name, setting: true, value: row => row.settings[name] ?? undefined, cell: row => [settingText(row.settings[name])] })),
  ];
}

function compareValues(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), "en", { numeric: true });
}

function leaderboard() {
  const all = columns(), name = { key: "system", head: "system", value: row => row.system };
  const chosen = new Set(["bleu", "chrf"].filter(key => betterOf.has(key)));
  const state = { sort: "bleu", direction: -1, filter: "" };
  const table = make("table", { class: "table" }, make("caption", { class: "unseen" }, "Systems with their scores"));
  const nothing = make("p", { class: "soft small", hidden: true, looks: { padding: "0.7rem" } }, "No system is called so.");
  const shownColumns = () => [name, ...all.filter(column => !column.score || chosen.has(column.score))];
  const mostWorth = key => {
    const values = tables.systems.map(row => row.scores[key]?.mean).filter(value => value !== undefined);
    return values.length > 1 ? Math.max(...values.map(worthOf(key))) : NaN;
  };
  function paint(focused) {
    const shown = shownColumns(), by = shown.find(column => column.key === state.sort) || name;
    const rows = tables.systems.filter(row => `${row.system} ${Object.values(row.settings).join(" ")}`.toLowerCase().includes(state.filter.toLowerCase()));
    rows.sort((one, other) => {
      const [a, b] = [by.value(one), by.value(other)];
      if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
      return state.direction * compareValues(a, b);
    });
    const best = new Map([...chosen].map(key => [key, mostWorth(key)]));
    const isBest = (column, row) => column.score && worthOf(column.score)(column.value(row)) === best.get(column.score);
    const head = make("thead", {}, make("tr", {}, ...shown.map(column => make("th", {
      scope: "col", class: column.number ? "number" : column.setting ? "setting" : "",
      "aria-sort": column === by ? (state.direction > 0 ? "ascending" : "descending") : false,
    }, make("button", { type: "button", title: column.title || false, "data-key": column.key, onclick: () => {
      state.direction = column === by ? -state.direction : column.first || 1;
      state.sort = column.key;
      paint(column.key);
    } }, column.head)))));
    const body = make("tbody", {}, ...rows.map(row => make("tr", {}, make("th", { scope: "row" }, make("div", { class: "who" }, swatch(placeOf.get(row.system)),
      make("span", {}, ...softly(row.system), row.runs.length > 1 ? make("span", { class: "tag", title: row.runs.join("\n") }, repeats(row)) : null,
        row.system === tables.baseline ? make("span", { class: "tag" }, "baseline") : null))),
    ...shown.slice(1).map(column => make("td", {
      class: [column.number ? "number" : "", column.setting ? "setting" : "", isBest(column, row) ? "best" : "",
        column.certain?.(row) ? "certain" : ""].join(" ").trim(), title: column.setting ? settingText(row.settings[column.title]) : false,
    }, ...column.cell(row))))));
    nothing.hidden = rows.length > 0;
    table.replaceChildren(table.caption, head, body);
    if (focused) [...table.querySelectorAll("thead button")].find(button => button.dataset.key === focused)?.focus();
  }
  const filter = make("input", { type: "search", id: "filter", placeholder: "system or setting", oninput: event => { state.filter = event.target.value; paint(); } });
  const picker = make("details", { class: "menu", id: "scores" }, make("summary", {}, "Scores"), make("div", {}, ...tables.scores.map(score => make("label", {},
    make("input", { type: "checkbox", value: score.name, checked: chosen.has(score.name), onchange: event => {
      chosen[event.target.checked ? "add" : "delete"](score.name);
      paint();
    } }), wordsOf(score.name)))));
  paint();
  const about = `Δ and p are BLEU against ${tables.baseline}. p below 0.05 is set in bold: by chance as great a difference is seen in p of all cases. `
    + (several ? "± is the standard deviation over seeds." : "One seed each: p tells the luck of these sentences, not that of training anew.");
  part("leaderboard", "Leaderboard", about, make("div", { class: "controls" }, make("label", {}, "Filter", filter), picker),
    make("div", { class: "card scroll", tabindex: "0", role: "group", "aria-label": "Leaderboard" }, table, nothing));
}

function repeats(row) {
  const seeds = new Set(row.seeds.filter(seed => seed !== null)).size;
  return seeds === row.runs.length ? `${seeds} seeds` : `${row.runs.length} runs`;
}

/** Switches systems on and off, in all charts. */
function legend() {
  const place = make("div", { class: "legend", role: "group", "aria-label": "Systems shown in the charts" });
  const buttons = tables.systems.map((row, number) => make("button", { type: "button", onclick: () => {
    visible[visible.has(number) ? "delete" : "add"](number);
    listeners.forEach(listener => listener());
  } }, swatch(number), row.system));
  const all = make("button", { class: "all", type: "button", onclick: () => {
    const full = visible.size === buttons.length;
    visible.clear();
    if (!full) buttons.forEach((_, number) => visible.add(number));
    listeners.forEach(listener => listener());
  } });
  const update = () => {
    buttons.forEach((button, number) => button.setAttribute("aria-pressed", String(visible.has(number))));
    all.textContent = visible.size === buttons.length ? "none" : "all";
  };
  listeners.push(update);
  update();
  place.append(...buttons, buttons.length > 1 ? all : "");
  return place;
}

/** A place whose charts follow the legend. */
function following(looks, paint) {
  const place = make("div", { class: looks }), repaint = () => place.replaceChildren(...paint());
  listeners.push(repaint);
  repaint();
  return { place, repaint };
}

function learningCurves() {
  const kinds = [["loss", "Loss"], ["perplexity", "Perplexity"], ["bleu", "BLEU"]].filter(([key]) => runs.some(run => run.curves[key]));
  if (!kinds.length) return;
  const timed = runs.some(run => run.seconds && run.steps);
  const against = make("select", { id: "against", onchange: () => repaint() }, make("option", { value: "steps" }, "steps"),
    timed ? make("option", { value: "time" }, "time") : null);
  const converted = (run, steps) => {
    if (against.value === "time") return run.seconds && run.steps ? steps.map(step => step / run.steps * run.seconds) : null;
    return steps;
  };
  const label = { steps: "steps", time: "time, at each run's mean pace" };
  const { place, repaint } = following("charts", () => kinds.map(([key, title]) => {
    const series = runs.filter(run => visible.has(run.system) && run.curves[key]).flatMap(run =>
      Object.entries(run.curves[key]).map(([column, [steps, ys]]) => ({
        label: `${run.name}, ${column}`, place: run.system, faint: column.startsWith("train/"), xs: converted(run, steps), ys,
      })).filter(one => one.xs));
    return lineChart({ title, aside: key === "loss" ? "validation; training faint" : "validation", series, robust: key !== "bleu",
      xLabel: label[against.value], xFormat: against.value === "time" ? clock : short });
  }));
  part("curves", "Learning curves", "A line a run; runs of one system share its colour. The highest values are cut off where they would press the others flat.",
    make("div", { class: "controls" }, make("label", {}, "Against", against)), legend(), place);
}

function settingsThatDiffer() {
  if (!tables.settings.length || tables.systems.length < 2) return;
  const axes = tables.settings.map(name => ({
    name: name.replace(/\._target_$/, ""), key: name,
    values: [...new Set(tables.systems.map(row => row.settings[name] ?? null))].sort((a, b) => (a === null) - (b === null) || compareValues(a, b)),
  }));
  const score = make("select", { id: "against_settings", onchange: () => paint() },
    ...tables.scores.filter(({ better }) => better !== "neither").map(({ name }) => make("option", { value: name }, wordsOf(name))));
  score.value = betterOf.has("bleu") ? "bleu" : tables.scores[0].name;
  const place = make("div");
  function paint() {
    const lines = tables.systems.filter(row => row.scores[score.value]).map(row => ({
      label: row.system, score: row.scores[score.value].mean, values: axes.map(axis => row.settings[axis.key] ?? null),
    }));
    place.replaceChildren(parallelChart({ axes, lines, scoreName: wordsOf(score.value), worth: worthOf(score.value) }));
  }
  paint();
  part("settings", "Settings", "What differs between the systems, and the score it led to; the stronger the colour, the better.",
    make("div", { class: "controls" }, make("label", {}, "Score", score)), place);
}

const MEASURES = [
  ["words_too_often", "Said too often", "% of the reference's words, as the model splits them"], ["words_left_out", "Left out", "% of the reference's words, as the model splits them"],
  ["source_unattended", "Never attended to", "% of the source's words"], ["aer", "Alignment error", "AER, %"],
];

/** Measures of `kind` with what differs from the baseline, opened on demand. */
function ratesTable(kind, title) {
  const measures = Object.keys(tables[kind][tables.baseline]);
  const ps = { p: "p, sentences", ...(tables.spread_over_seeds ? { p_seeds: "p, seeds" } : {}) };
  const heads = measures.flatMap(name => [wordsOf(name), "Δ", ...Object.values(ps)]);
  const rows = tables.systems.map(row => make("tr", {}, make("th", { scope: "row" }, row.system), ...measures.flatMap(name => {
    const rate = tables[kind][row.system][name], own = row.system === tables.baseline;
    const cell = (text, certain) => make("td", { class: certain ? "number certain" : "number" }, text);
    const certainty = Object.keys(ps).map(key => own ? cell("") : cell(shownP(rate[key]), rate[key] !== null && rate[key] < 0.05));
    return [cell(rate.value.toFixed(2)), cell(own ? "baseline" : signed(rate.difference)), ...certainty];
  })));
  const head = make("tr", {}, make("th", { scope: "col" }, "system"), ...heads.map(text => make("th", { scope: "col", class: "number" }, text)));
  return make("details", { id: kind, looks: { marginTop: "0.6rem" } }, make("summary", { class: "small soft" }, title),
    make("div", { class: "card scroll", looks: { marginTop: "0.4rem" } }, make("table", { class: "table" }, make("thead", {}, head), make("tbody", {}, ...rows))));
}

function ofLength(row, bucket) {
  if (row.system === tables.baseline) return ` [${bucket.low.toFixed(1)}, ${bucket.high.toFixed(1)}]`;
  return ` ${signed(bucket.difference)} [${signed(bucket.difference_low)}, ${signed(bucket.difference_high)}]`;
}

/** How much more systems gain on longer sentences than on all others, opened on demand. */
function longerTable() {
  const told = Object.entries(tables.longer).map(([system, gains]) => [system, gains.filter(gain => gain.difference_low !== null)]);
  const counts = new Map(told.flatMap(([, gains]) => gains.map(gain => [gain.than, gain.sentences])));
  if (!counts.size) return null;
  const head = make("tr", {}, make("th", { scope: "col" }, "system"), ...[...counts].map(([than, count]) => make("th", { scope: "col", class: "number" }, `>${than} (${count})`)));
  const rows = told.map(([system, gains]) => make("tr", {}, make("th", { scope: "row" }, system), ...gains.map(gain =>
    make("td", { class: "number" }, signed(gain.difference), make("span", { class: "sd" }, ` [${signed(gain.difference_low)}, ${signed(gain.difference_high)}]`)))));
  return make("details", { id: "longer", looks: { marginTop: "0.6rem" } }, make("summary", { class: "small soft" }, "Gain on longer sentences as a table: how much more BLEU over the baseline than on all others, with its 95 % interval"),
    make("div", { class: "card scroll", looks: { marginTop: "0.4rem" } }, make("table", { class: "table" }, make("thead", {}, head), make("tbody", {}, ...rows))));
}

function lengthsAndErrors() {
  const buckets = new Map(Object.values(tables.by_length).flat().map(bucket => [bucket.name, bucket.sentences]));
  const names = [...buckets.keys()];
  const { place } = following("stacked", () => {
    const chosen = tables.systems.map((row, number) => ({ row, number })).filter(one => visible.has(one.number));
    const series = chosen.map(({ row, number }) => ({ label: row.system, place: number, points: tables.by_length[row.system] }));
    const chart = intervalChart({ title: "BLEU by source length", aside: several ? "words; the mean over seeds" : "words", names, counts: names.map(name => buckets.get(name)), series, unit: "words" });
    const bars = MEASURES.map(([key, title, aside]) => {
      const rows = chosen.filter(({ row }) => row.scores[key]).map(({ row, number }) => ({ label: row.system, place: number, ...row.scores[key] }));
      return rows.length ? barChart({ title, aside: `${aside}; less is better`, rows, format: value => value.toFixed(2) }) : null;
    }).filter(Boolean);
    return [chart, make("div", { class: "charts narrow" }, ...bars)];
  });
  const head = make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "system"), ...names.map(name => make("th", { scope: "col", class: "number" }, `${name} (${buckets.get(name)})`))));
  const rows = tables.systems.map(row => make("tr", {}, make("th", { scope: "row" }, row.system), ...names.map(name => {
    const bucket = tables.by_length[row.system].find(one => one.name === name);
    return make("td", { class: "number" }, bucket ? bucket.bleu.toFixed(2) : "–", bucket && bucket.low !== null ? make("span", { class: "sd" }, ofLength(row, bucket)) : null);
  })));
  part("lengths", "Length, over- and under-translation", null, null, legend(), place,
    ratesTable("adequacy", "Over- and under-translation as a table: for each 100 words of the first reference, in words as BLEU counts them"),
    ...(tables.alignment[tables.baseline] ? [ratesTable("alignment", "Alignment error as a table: of attention while the references are said, in per cent")] : []),
    make("details", { looks: { marginTop: "0.6rem" } }, make("summary", { class: "small soft" }, "BLEU by length as a table: behind it the difference to the baseline on these sentences with its 95 % interval; the baseline has the interval of its own BLEU"),
      make("div", { class: "card scroll", looks: { marginTop: "0.4rem" } }, make("table", { class: "table" }, head, make("tbody", {}, ...rows)))),
    longerTable());
}

function sentences() {
  const baseline = runs.findIndex(run => tables.systems[run.system].system === tables.baseline);
  const browser = sentenceBrowser(runs, baseline, tables.sentences);
  const kept = readElement("alignments").order.length;
  const room = kept < tables.sentences ? ` Alignments of the ${kept.toLocaleString("en")} sentences on which the runs differ most are in the page.` : "";
  part("sentences", "Sentences", `Underlined: what the other translation does not say. On the right sentence BLEU, and what the second gains over the first.${room}`, browser.controls, browser.body);
  browser.refresh();
}

function aboutRuns() {
  const shownRuns = runs.map(run => {
    const inner = make("div");
    const details = make("details", { class: "card run" }, make("summary", {}, make("strong", {}, run.name), make("span", { class: "soft small" },
      [run.status, run.seconds ? clock(run.seconds) : null, run.parameters?.total ? `${whole(run.parameters.total)} parameters` : null].filter(Boolean).join(" · "))), inner);
    details.addEventListener("toggle", async () => {
      if (!details.open || inner.firstChild) return;
      const config = await unpacked(run.config);
      const facts = [
        ["folder", make("code", {}, run.folder)], ["started", run.started], ["git commit", run.commit ? make("code", {}, run.commit) : null],
        ["command line", run.overrides.length ? make("code", {}, `python train.py ${run.overrides.map(quoted).join(" ")}`) : null],
        ["W&B", run.wandb ? make("code", {}, run.wandb.includes("offline-run") ? `wandb sync ${run.wandb}` : run.wandb) : null],
        ["parameters", run.parameters ? Object.entries(run.parameters).map(([name, count]) => `${name} ${whole(count)}`).join(" · ") : null],
        ["versions", run.versions ? Object.entries(run.versions).map(([name, version]) => `${name} ${version}`).join(" · ") : null],
      ];
      inner.append(make("dl", { class: "about" }, ...facts.filter(([, value]) => value).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])),
        config ? make("pre", { tabindex: "0", "aria-label": `Configuration of ${run.name}` }, config) : make("p", { class: "soft small" }, "Its configuration is not known."));
    });
    return details;
  });
  part("runs", "Runs", "Configuration, command line and origin of each.", null, ...shownRuns);
}

const quoted = override => /[\s{}[\]()*$&;|<>'"]/.test(override) ? `'${override.replaceAll("'", "'\\''")}'` : override;

function notCompared() {
  const listed = (rows, heads) => make("div", { class: "card scroll", looks: { marginBottom: "0.7rem" } }, make("table", { class: "table plainly" },
    make("thead", {}, make("tr", {}, ...heads.map(head => make("th", { scope: "col" }, head)))),
    make("tbody", {}, ...rows.map(([run, text]) => make("tr", {}, make("th", { scope: "row" }, run), make("td", {}, text))))));
  const left = tables.not_compared.map(one => [one.run, one.reason]), notes = tables.notes.map(one => [one.run, one.note]);
  if (!left.length && !notes.length) return;
  part("not_compared", "Not compared", null, null, left.length ? listed(left, ["run", "why"]) : "", notes.length ? listed(notes, ["compared run", "note"]) : "");
}

function heading() {
  find("title").textContent = `Runs compared on ${tables.test}`;
  document.title = `${tables.test}: ${tables.systems.length} systems compared`;
  const fact = (value, text) => make("span", {}, make("b", {}, value), ` ${text}`);
  const count = (number, one) => fact(number.toLocaleString("en"), number === 1 ? one : `${one}s`);
  find("facts").append(count(tables.systems.length, "system"), ...(several ? [count(runs.length, "run")] : []), count(tables.sentences, "sentence"),
    make("span", {}, "baseline ", make("b", {}, tables.baseline)), make("span", {}, `sacrebleu ${tables.signature}`));
  if (tables.not_compared.length) find("facts").append(make("a", { href: "#not_compared", looks: { color: "var(--bad)" } }, `${tables.not_compared.length} not compared`));
}

heading();
leaderboard();
learningCurves();
settingsThatDiffer();
lengthsAndErrors();
sentences();
aboutRuns();
notCompared();
