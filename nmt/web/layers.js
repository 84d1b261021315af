"use strict";

/**
 * A layer of a heatmap: values that a part of the model shows beside its attention.
 *
 * The kind says how it is drawn. map: a bar in each square; numbers: a row below the source words;
 * line: a line over the squares, through source positions; cells: squares beside those of the
 * source; links: outlines of squares, dashed for values below 1. `values` has a row for each target
 * word, but numbers have one for each source word.
 */
class Layer {
  constructor({ name, kind, values }, index) {
    this.name = name.replaceAll("_", " ");
    this.kind = kind;
    this.values = values;
    this.index = index;
    this.peak = Math.max(1e-9, ...values.flat());
    this.elements = [];
    const onchange = () => this.show(this.box.checked);
    this.box = make("input", { type: "checkbox", onchange });
  }

  /** Remember an element that is hidden with the layer. */
  keep(element) {
    this.elements.push(element);
    return element;
  }

  show(isVisible) {
    this.box.checked = isVisible;
    for (const element of this.elements) element.toggleAttribute("hidden", !isVisible);
  }

  makeBar(row, column) {
    const bar = this.keep(make("i", { class: "bar" }));
    bar.style.setProperty("--share", Math.max(0, this.values[row][column]) / this.peak);
    return bar;
  }

  makeLink(row, column) {
    const value = this.values[row][column];
    if (!value) return null;
    const text = make("span", { class: "visually-hidden" }, this.describeLink(value));
    return this.keep(make("i", { class: value < 1 ? "link possible" : "link" }, text));
  }

  makeNumbers() {
    const label = make("td", { class: "label" }, this.name);
    const numbers = this.values.map((value) => make("td", {}, value.toFixed(2)));
    return this.keep(make("tr", { class: "numbers" }, label, ...numbers));
  }

  makeCellsHead() {
    const name = make("span", {}, this.name);
    const head = make("td", { class: "label", colspan: this.values[0].length }, name);
    return [this.keep(make("td", { class: "gap" })), this.keep(head)];
  }

  makeCells(row) {
    const cells = this.values[row].map((value, cell) => {
      const text = make("span", { class: "visually-hidden" }, value.toFixed(2));
      const square = make(
        "td",
        { class: "cell", "data-layer": this.index, "data-cell": cell },
        text,
      );
      square.style.setProperty("--share", Math.max(0, value) / this.peak);
      return this.keep(square);
    });
    return [this.keep(make("td", { class: "gap" })), ...cells];
  }

  /** Draw a line over a table, again whenever the size of the table changes. */
  makeLine(table, heads) {
    const line = draw("polyline", {});
    new ResizeObserver(() => {
      const points = this.values.map((position, row) => {
        const { offsetTop, offsetHeight } = table.tBodies[0].rows[row];
        return `${findPlace(heads, position)},${offsetTop + offsetHeight / 2}`;
      });
      line.setAttribute("points", points.join(" "));
    }).observe(table);
    return this.keep(draw("svg", { class: "line", "aria-hidden": "true" }, line));
  }

  /** Describe the values of a target word; of several cells the largest one. */
  describeRow(row) {
    const values = this.values[row];
    if (this.kind === "line") return this.describe(this.name, values);
    if (this.kind !== "cells") return [];
    return this.describeCell(row, values.indexOf(Math.max(...values)));
  }

  describeCell(row, cell) {
    const number = this.values[row].length > 1 ? ` ${cell + 1}` : "";
    return this.describe(`${this.name}${number}`, this.values[row][cell]);
  }

  /** Describe the value of a source word. */
  describeSquare(row, column) {
    if (this.kind === "map") return this.describe(this.name, this.values[row][column]);
    if (this.kind === "links") return [this.describeLink(this.values[row][column])];
    return this.kind === "numbers" ? this.describe(this.name, this.values[column]) : [];
  }

  describeLink(value) {
    return value ? ` · ${value < 1 ? "possible " : ""}${this.name.replace(/s$/, "")}` : "";
  }

  describe(name, value) {
    return [` · ${name} `, make("b", {}, value.toFixed(2))];
  }
}

/** Return the horizontal place of a source position, from 1; between words it is between them. */
function findPlace(heads, position) {
  const centres = heads.map((head) => head.offsetLeft + head.offsetWidth / 2);
  if (centres.length < 2) return centres[0];
  const before = Math.min(Math.max(Math.floor(position) - 1, 0), centres.length - 2);
  return centres[before] + (position - 1 - before) * (centres[before + 1] - centres[before]);
}

const selectLayers = (layers, kind) => layers.filter((layer) => layer.kind === kind);

/** Make a checkbox for each layer. Only one map is shown at a time. */
function makeLayerChoice(layers) {
  const maps = selectLayers(layers, "map");
  for (const layer of layers) layer.show(!maps.includes(layer) || layer === maps[0]);
  for (const map of maps) {
    map.box.addEventListener("change", () => {
      for (const other of maps) other.show(other === map && map.box.checked);
    });
  }
  const labels = layers.map((layer) => {
    const hasShades = layer.kind === "map" || layer.kind === "cells";
    const peak = make("span", { class: "soft" }, `up to ${layer.peak.toFixed(2)}`);
    return make("label", {}, layer.box, layer.name, hasShades ? peak : null);
  });
  return make("div", { class: "layers" }, ...labels);
}
