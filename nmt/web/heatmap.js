"use strict";

/** An element; children that are strings become text, never markup. */
function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "looks") Object.assign(element.style, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

const minus = text => text.replace("-", "−");

const isWide = character => character.codePointAt(0) >= 0x2e80;
const ems = word => [...word].reduce((sum, character) => sum + (isWide(character) ? 1 : 0.56), 0);
const atEnd = (words, place) => place === words.length - 1 && words[place] === "</s>" ? "end" : "";
const wordAt = (words, place) => words[place] ?? "";

const MOST_TOLD = 3, LEAST_TOLD = 0.05; /* of the source words that a target word attends to */

/**
 * Source words across, target words down, weight as shade; what is pointed at or has the focus is read out below.
 * `weights` has a row for each target word; `probabilities`, of the target words, may lack.
 */
function heatmap(found, name) {
  const { source, target, weights } = found;
  if (!weights.flat().some(weight => weight > 0)) {
    return make("p", { class: "soft small" }, "This model attends to nothing.");
  }
  const heads = weights[0].map((_, column) =>
    make("th", { scope: "col", class: atEnd(source, column), title: source[column] },
      make("span", { dir: "auto" }, wordAt(source, column))));
  const readout = make("div", { class: "readout", "aria-live": "polite" });
  const told = readingOut(found, heads, readout);
  const rows = weights.map((row, place) => make("tr", { "data-row": place },
    make("th", {
      scope: "row", class: atEnd(target, place), title: target[place], dir: "auto", tabindex: "0",
      onfocus: () => told.row(place), onblur: told.nothing,
    }, wordAt(target, place)), ...row.map(squareOf)));
  const looks = `heatmap ${looksOf(source)}`;
  const table = make("table", { class: looks, onpointerover: told.pointed, onpointerleave: told.nothing },
    make("caption", { class: "unseen" }, `Attention of ${name}: source words across, translated words down`),
    make("thead", {}, make("tr", {}, make("td", { looks: { background: "none" } }), ...heads)),
    make("tbody", {}, ...rows));
  const scrolled = { class: "scroll", tabindex: "0", role: "group", "aria-label": `Attention of ${name}` };
  return make("div", {}, make("div", scrolled, table), readout);
}

function looksOf(source) {
  const size = source.length > 30 ? "many" : source.length < 12 ? "few" : "";
  return `${source.some(word => ems(word) > 1.8) ? "long" : ""} ${size}`;
}

function squareOf(weight, column) {
  const square = make("td", { "data-column": column }, make("span", { class: "unseen" }, weight.toFixed(2)));
  square.style.setProperty("--weight", Math.min(1, weight));
  return square;
}

/** What writes below the table, and marks in its head, a row, a square, what an event points at, or nothing. */
function readingOut(found, heads, readout) {
  const shade = shares => heads.forEach((head, column) => {
    head.classList.remove("pointed");
    head.firstChild.style.background = shares ? `rgb(var(--heat) / ${(shares[column] * 0.45).toFixed(3)})` : "";
  });
  const nothing = () => {
    shade(null);
    readout.replaceChildren("0", make("span", { class: "ramp" }), "1 · point at a word or a square");
  };
  const row = place => {
    shade(found.weights[place]);
    readout.replaceChildren(...rowInWords(found, place));
  };
  const square = (place, column) => {
    shade(found.weights[place]);
    heads[column].classList.add("pointed");
    readout.replaceChildren(wordAt(found.target, place), ...weightInWords(" ← ", found, place, column));
  };
  const pointed = event => {
    const line = event.target.closest("[data-row]"), cell = event.target.closest("[data-column]");
    if (cell) square(Number(line.dataset.row), Number(cell.dataset.column));
    else if (line) row(Number(line.dataset.row));
    else nothing();
  };
  nothing();
  return { nothing, row, pointed };
}

/** A target word, the source words that it attends to most, and its probability where that is known. */
function rowInWords(found, place) {
  const { target, weights, probabilities, digits } = found;
  const attended = mostOf(weights[place]).flatMap((column, number) =>
    weightInWords(number ? " · " : " ← ", found, place, column));
  const likely = probabilities ? [" · probability ", make("b", {}, probabilities[place].toFixed(digits))] : [];
  return [wordAt(target, place), ...attended, ...likely];
}

const weightInWords = (sign, { source, weights, digits }, place, column) =>
  [`${sign}${wordAt(source, column)} `, make("b", {}, weights[place][column].toFixed(digits))];

const mostOf = shares => [...shares.keys()].sort((one, other) => shares[other] - shares[one]).slice(0, MOST_TOLD)
  .filter(column => shares[column] >= LEAST_TOLD);
