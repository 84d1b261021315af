"use strict";
const ON_A_PAGE = 20, STEPS_OF_SCORE = 2;

const bytesOf = text => {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let at = 0; at < raw.length; at++) bytes[at] = raw.charCodeAt(at);
  return bytes;
};

/** What nmt/report/render/page_payload.py deflated. */
async function inflated(text) {
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const unpacked = async text => JSON.parse(new TextDecoder().decode(await inflated(text)));

/** Each asked for once. */
function remembered(find) {
  const found = new Map();
  return key => {
    if (!found.has(key)) found.set(key, find(key));
    return found.get(key);
  };
}

const readElement = remembered(id => JSON.parse(document.getElementById(`data_${id}`).textContent));
const texts = () => readElement("sentences");
const sideBySide = remembered(async () => (await Promise.all(texts().hypotheses.map(unpacked))).flat());
const hypothesesOf = remembered(async run => (await sideBySide("")).map(row => row[run]));
const sourceWordsOf = remembered(split => unpacked(texts().source_words[split]));
const scoresOf = remembered(run => bytesOf(texts().scores[run]));
const shared = remembered(key => unpacked(texts()[key]));
const rankOf = remembered(() => new Map(readElement("alignments").order.map((sentence, rank) => [sentence, rank])));

const chunkOf = remembered(async key => {
  const [run, number] = key.split(" ").map(Number), bytes = await inflated(readElement("alignments").runs[run][number]);
  const end = bytes.indexOf(0), heads = JSON.parse(new TextDecoder().decode(bytes.subarray(0, end)));
  let at = end + 1;
  return heads.map(([rows, columns, words]) => ({
    words, weights: Array.from({ length: rows }, () => bytes.subarray(at, at += columns)),
  }));
});

/** Of a run's translation of a sentence; null where there was no room for it, or it could not be read. */
async function alignmentOf(run, sentence) {
  const { together, runs } = readElement("alignments"), rank = rankOf("").get(sentence);
  if (rank === undefined || !runs[run]) return null;
  const { words, weights } = (await chunkOf(`${run} ${Math.floor(rank / together)}`))[rank % together];
  const said = (await hypothesesOf(run))[sentence];
  return {
    source: (await sourceWordsOf(texts().split_of_run[run]))[sentence],
    target: words || [...said.split(/\s+/).filter(Boolean), "</s>"],
    weights: weights.map(row => Array.from(row, byte => byte / 255)),
    digits: 2,
  };
}

/** The part of the page where translations stand side by side. */
function sentenceBrowser(runs, baseline, count) {
  const other = runs.findIndex(run => run.system !== runs[baseline].system);
  const state = { a: baseline, b: other >= 0 ? other : runs.length > 1 ? baseline + 1 : baseline, also: new Set(), order: "apart", search: "", page: 0, wanted: [] };
  const options = () => runs.map((run, place) => make("option", { value: place }, run.name));
  const a = make("select", { id: "first" }, ...options()), b = make("select", { id: "second" }, ...options());
  [a.value, b.value] = [state.a, state.b];
  const order = make("select", { id: "order" }, ...[
    ["apart", "furthest apart"], ["worse", "first is better"], ["better", "second is better"], ["number", "test set's order"],
    ["low", "lowest BLEU of the second"], ["long", "longest source"],
  ].map(([value, text]) => make("option", { value }, text)));
  const search = make("input", { type: "search", id: "search", placeholder: "words of source, reference or translation" });
  const also = make("details", { class: "menu" }, make("summary", {}, "Also show"),
    make("div", {}, ...runs.map((run, place) => make("label", {}, make("input", {
      type: "checkbox", name: "also", value: place, onchange: event => {
        state.also[event.target.checked ? "add" : "delete"](place);
        refresh();
      },
    }), run.name))));
  const tally = make("div", { class: "tally" }), list = make("div", { id: "list" });
  const shown = () => [...new Set([state.a, state.b, ...state.also])];

  /** Numbers of the sentences that are found, in order. */
  async function selected() {
    const [sources, references] = [await shared("sources"), await shared("references")];
    const needle = state.search.trim().toLowerCase();
    let numbers = Array.from({ length: count }, (_, number) => number);
    if (needle) {
      const heaps = [sources, references, ...await Promise.all(shown().map(hypothesesOf))];
      numbers = numbers.filter(number => heaps.some(heap => heap[number].toLowerCase().includes(needle)));
    }
    const first = scoresOf(state.a), second = scoresOf(state.b);
    const keys = {
      apart: number => -Math.abs(second[number] - first[number]), better: number => first[number] - second[number],
      worse: number => second[number] - first[number], number: number => number, low: number => second[number],
      long: number => -sources[number].length,
    };
    const key = keys[state.order];
    return numbers.sort((one, other) => key(one) - key(other) || one - other);
  }

  let asked = 0;
  async function refresh() {
    const now = ++asked, found = await selected();
    if (now !== asked) return;
    state.wanted = found;
    state.page = 0;
    await show();
  }

  async function show() {
    const from = state.page * ON_A_PAGE, numbers = state.wanted.slice(from, from + ON_A_PAGE), now = asked;
    const said = new Map(await Promise.all(shown().map(async run => [run, await hypothesesOf(run)])));
    const [sources, references] = [await shared("sources"), await shared("references")];
    if (now !== asked) return;
    list.replaceChildren(...numbers.map(number => article(number, sources[number], references[number], said)));
    if (!numbers.length) list.replaceChildren(make("p", { class: "soft" }, `No sentence holds “${state.search.trim()}”.`));
    tell(from, numbers.length);
  }

  function tell(from, here) {
    const first = scoresOf(state.a), second = scoresOf(state.b);
    const better = state.wanted.filter(number => second[number] > first[number]).length;
    const worse = state.wanted.filter(number => second[number] < first[number]).length;
    const total = state.wanted.length, same = total - better - worse;
    const bar = (size, colour) => make("i", { looks: { width: `${100 * size / Math.max(1, total)}%`, background: colour } });
    const turn = step => { state.page += step; show().then(() => document.getElementById("sentences").scrollIntoView()); };
    tally.replaceChildren(
      make("span", {}, "second better ", make("b", {}, better.toLocaleString("en")), ", first better ", make("b", {}, worse.toLocaleString("en")),
        ", the same ", make("b", {}, same.toLocaleString("en"))),
      make("span", { class: "split", "aria-hidden": "true" }, bar(better, "var(--c2)"), bar(same, "var(--line)"), bar(worse, "var(--c1)")),
      make("span", { class: "pager" },
        make("span", {}, here ? `${(from + 1).toLocaleString("en")}–${(from + here).toLocaleString("en")} of ${total.toLocaleString("en")}` : "none"),
        make("button", { class: "plain", type: "button", id: "back", "aria-label": "previous sentences", disabled: state.page === 0, onclick: () => turn(-1) }, "←"),
        make("button", { class: "plain", type: "button", id: "on", "aria-label": "next sentences", disabled: from + here >= total, onclick: () => turn(1) }, "→")));
  }

  /** A text with what was searched for marked, and its words that differ underlined. */
  function written(words) {
    const needle = state.search.trim().toLowerCase();
    return words.map(([word, differs]) => {
      const hit = needle && word.trim() && (needle.includes(" ") ? needle.split(/\s+/) : [needle]).some(part => part && word.toLowerCase().includes(part));
      const inner = hit ? make("mark", {}, word) : word;
      return differs ? make("span", { class: "differs" }, inner) : inner;
    });
  }

  function article(number, source, reference, said) {
    const rating = run => scoresOf(run)[number] / STEPS_OF_SCORE;
    const own = shown().flatMap(run => {
      const other = run === state.b ? state.a : state.b, text = said.get(run)[number];
      const words = run === other ? piecesOf(text).map(word => [word, false]) : differing(piecesOf(text), piecesOf(said.get(run === state.a ? state.b : state.a)[number]));
      return [make("dt", {}, swatch(runs[run].system), make("span", {}, runs[run].name)),
        make("dd", { class: "own", dir: "auto", "data-run": run }, ...(text ? written(words) : [make("span", { class: "soft" }, "(nothing)")])),
        make("dd", { class: "rating", title: "sentence BLEU" }, rating(run).toFixed(1))];
    });
    const plain = text => written(piecesOf(text).map(word => [word, false]));
    const gain = rating(state.b) - rating(state.a), place = make("div", { hidden: true });
    const has = rankOf("").has(number) && shown().some(run => readElement("alignments").runs[run]);
    const button = make("button", {
      class: "plain", type: "button", "aria-expanded": "false", disabled: !has,
      title: has ? false : "no alignment of this sentence is in the page", onclick: () => toggle(),
    }, "Alignments");
    async function toggle() {
      place.hidden = !place.hidden;
      button.setAttribute("aria-expanded", String(!place.hidden));
      if (place.hidden || place.firstChild) return;
      const maps = await Promise.all(shown().map(async run => {
        const found = await alignmentOf(run, number);
        return make("div", { "data-run": run }, make("h3", {}, runs[run].name),
          found ? heatmap(found, runs[run].name) : make("p", { class: "soft small" }, "Its alignments are not there; where they could not be read, “Not compared” says why."));
      }));
      place.replaceChildren(make("div", { class: "heatmaps" }, ...maps));
    }
    return make("article", { class: "card sentence", "data-number": number }, make("div", { class: "top" },
      make("dl", { class: "texts" },
        make("dt", {}, "source"), make("dd", { dir: "auto" }, ...plain(source)), make("dd", { class: "rating" }),
        make("dt", {}, "reference"), make("dd", { dir: "auto" }, ...plain(reference)), make("dd", { class: "rating" }), ...own),
      make("div", { class: "aside" }, make("span", {}, `№ ${number + 1}`),
        make("span", { class: `gain ${gain > 0 ? "up" : gain < 0 ? "down" : ""}`, title: "sentence BLEU, second − first" }, signed(gain, 1)),
        button)), place);
  }

  const changed = (key, element, convert) => element.addEventListener("change", () => { state[key] = convert(element.value); refresh(); });
  changed("a", a, Number);
  changed("b", b, Number);
  changed("order", order, String);
  let waiting;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { state.search = search.value; refresh(); }, 120);
  });
  const controls = make("div", { class: "controls" }, make("label", {}, "First", a), make("label", {}, "Second", b), make("label", {}, "Order", order),
    make("label", {}, "Search", search), runs.length > 2 ? also : null);
  return { controls, body: make("div", {}, tally, list), refresh };
}
