"use strict";

const isWide = (character) => character.codePointAt(0) >= 0x2e80;
const countEms = (word) =>
  [...word].reduce((sum, character) => sum + (isWide(character) ? 1 : 0.56), 0);
const getEndClass = (words, index) =>
  index === words.length - 1 && words[index] === "</s>" ? "end" : "";
const getWord = (words, index) => words[index] ?? "";

const MAX_WORDS_IN_READOUT = 3;
const MIN_WEIGHT_IN_READOUT = 0.05;

/**
 * Draw attention as a table: source words in columns, target words in rows, weights as shades.
 * The readout below describes the word or square under the pointer or with the focus.
 *
 * attention: { source, target, weights, probabilities, digits, layers }; `weights` has a row for
 * each target word; `probabilities` of the target words and `layers` are optional.
 */
function makeHeatmap(data, name) {
  const hasWeights = data.weights.flat().some((weight) => weight > 0);
  const layers = (data.layers ?? []).map((layer, index) => new Layer(layer, index));
  const attention = { ...data, layers };
  if (!hasWeights && !layers.length) {
    return make("p", { class: "soft small" }, "This model has no attention weights.");
  }
  const heads = makeSourceHeads(attention);
  const element = make("div", { class: "readout", "aria-live": "polite" });
  const readout = makeReadout(attention, heads, element);
  const table = makeHeatmapTable(attention, name, heads, readout);
  const scroll = {
    class: "scroll",
    tabindex: "0",
    role: "group",
    "aria-label": `Attention of ${name}`,
  };
  const lines = selectLayers(layers, "line").map((layer) => layer.makeLine(table, heads));
  const choice = layers.length ? makeLayerChoice(layers) : null;
  return make("div", {}, make("div", scroll, table, ...lines), element, choice);
}

function makeHeatmapTable(attention, name, heads, readout) {
  const corner = make("td", { style: { background: "none" } });
  const cellHeads = selectLayers(attention.layers, "cells").flatMap((layer) =>
    layer.makeCellsHead(),
  );
  const numbers = selectLayers(attention.layers, "numbers").map((layer) => layer.makeNumbers());
  return make(
    "table",
    {
      class: `heatmap ${getSizeClasses(attention.source)}`,
      onpointerover: readout.showTarget,
      onpointerleave: readout.clear,
    },
    make(
      "caption",
      { class: "visually-hidden" },
      `Attention of ${name}: source words in columns, target words in rows`,
    ),
    make("thead", {}, make("tr", {}, corner, ...heads, ...cellHeads), ...numbers),
    make("tbody", {}, ...makeTargetRows(attention, readout)),
  );
}

/** Return the classes that shrink squares for long sentences and turn long source words. */
function getSizeClasses(source) {
  const size = source.length > 30 ? "many" : source.length < 12 ? "few" : "";
  return `${source.some((word) => countEms(word) > 1.8) ? "long" : ""} ${size}`;
}

function makeSourceHeads({ source, weights }) {
  return weights[0].map((_, column) => {
    const word = make("span", { dir: "auto" }, getWord(source, column));
    const end = getEndClass(source, column);
    return make("th", { scope: "col", class: end, title: source[column] }, word);
  });
}

function makeTargetRows({ target, weights, layers }, readout) {
  const [maps, cells, links] = ["map", "cells", "links"].map((kind) => selectLayers(layers, kind));
  return weights.map((row, index) => {
    const attributes = {
      scope: "row",
      class: getEndClass(target, index),
      title: target[index],
      dir: "auto",
      tabindex: "0",
      onfocus: () => readout.showRow(index),
      onblur: readout.clear,
    };
    const head = make("th", attributes, getWord(target, index));
    const squares = row.map((weight, column) => {
      const bars = maps.map((layer) => layer.makeBar(index, column));
      const outlines = links.map((layer) => layer.makeLink(index, column));
      return makeSquare(weight, column, [...bars, ...outlines]);
    });
    const others = cells.flatMap((layer) => layer.makeCells(index));
    return make("tr", { "data-row": index }, head, ...squares, ...others);
  });
}

function makeSquare(weight, column, marks) {
  const text = make("span", { class: "visually-hidden" }, weight.toFixed(2));
  const square = make("td", { "data-column": column }, text, ...marks);
  square.style.setProperty("--weight", Math.min(1, weight));
  return square;
}

/** Return functions that write the readout and highlight the source words it names. */
function makeReadout(attention, heads, element) {
  const clear = () => {
    shadeHeads(heads, null);
    const ramp = make("span", { class: "ramp" });
    element.replaceChildren("0", ramp, "1 · point at a word or a square");
  };
  const showRow = (row) => {
    shadeHeads(heads, attention.weights[row]);
    element.replaceChildren(...describeRow(attention, row));
  };
  const showSquare = (row, column) => {
    shadeHeads(heads, attention.weights[row]);
    heads[column].classList.add("highlighted");
    const weight = describeWeight(" ← ", attention, row, column);
    const values = attention.layers.flatMap((layer) => layer.describeSquare(row, column));
    element.replaceChildren(getWord(attention.target, row), ...weight, ...values);
  };
  const showCell = (row, { layer, cell }) => {
    const value = attention.layers[layer].describeCell(row, Number(cell));
    element.replaceChildren(getWord(attention.target, row), ...value);
  };
  const showTarget = (event) => {
    const row = event.target.closest("[data-row]");
    const square = event.target.closest("[data-column]");
    const cell = event.target.closest("[data-cell]");
    if (cell) showCell(Number(row.dataset.row), cell.dataset);
    else if (square) showSquare(Number(row.dataset.row), Number(square.dataset.column));
    else if (row) showRow(Number(row.dataset.row));
    else clear();
  };
  clear();
  return { clear, showRow, showTarget };
}

function shadeHeads(heads, weights) {
  heads.forEach((head, column) => {
    const opacity = weights ? (weights[column] * 0.45).toFixed(3) : 0;
    head.classList.remove("highlighted");
    head.firstChild.style.background = weights ? `rgb(var(--heat) / ${opacity})` : "";
  });
}

/** Describe a target word: the source words with most weight, and its probability if known. */
function describeRow(attention, row) {
  const { target, weights, probabilities, digits } = attention;
  const sources = findLargestWeights(weights[row]).flatMap((column, rank) =>
    describeWeight(rank ? " · " : " ← ", attention, row, column),
  );
  const probability = probabilities
    ? [" · probability ", make("b", {}, probabilities[row].toFixed(digits))]
    : [];
  const values = attention.layers.flatMap((layer) => layer.describeRow(row));
  return [getWord(target, row), ...sources, ...probability, ...values];
}

function describeWeight(sign, { source, weights, digits }, row, column) {
  const weight = make("b", {}, weights[row][column].toFixed(digits));
  return [`${sign}${getWord(source, column)} `, weight];
}

const findLargestWeights = (weights) =>
  [...weights.keys()]
    .sort((one, other) => weights[other] - weights[one])
    .slice(0, MAX_WORDS_IN_READOUT)
    .filter((column) => weights[column] >= MIN_WEIGHT_IN_READOUT);
