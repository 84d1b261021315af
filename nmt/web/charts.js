"use strict";

const COLOUR_COUNT = 7;
const DASHES = ["", "7 4", "2 4", "10 3 2 3"]; // further systems repeat the colours with dashes
const getColour = (system) => `var(--c${systems[system].slot % COLOUR_COUNT})`;
const getDash = (system) => DASHES[Math.floor(systems[system].slot / COLOUR_COUNT) % DASHES.length];

const formatSigned = (value, digits = 2) =>
  useMinusSign(`${value > 0 ? "+" : ""}${value.toFixed(digits)}`);

function formatShort(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return useMinusSign(`${+(value / 1e6).toPrecision(3)} M`);
  if (size >= 1e4) return useMinusSign(`${+(value / 1e3).toPrecision(3)} k`);
  return useMinusSign(String(+value.toPrecision(4)));
}

function formatDuration(duration) {
  const total = Math.round(duration);
  const [hours, minutes] = [Math.floor(total / 3600), Math.floor(total / 60) % 60];
  const pad = (number) => String(number).padStart(2, "0");
  return `${hours ? `${hours}:${pad(minutes)}` : minutes}:${pad(total % 60)}`;
}

const formatSetting = (value) => String(value ?? "–");
const clipText = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

/** Allow line breaks after the signs of a long name. */
const splitName = (name) =>
  name.split(/(?<=[_=,/.])/).flatMap((piece, index) => (index ? [make("wbr"), piece] : [piece]));

/** Draw the line that stands for a system in legends and tables. */
function drawSwatch(system) {
  const line = draw("line", {
    x1: 1,
    x2: 21,
    y1: 5,
    y2: 5,
    "stroke-width": 4,
    "stroke-dasharray": getDash(system),
    style: { stroke: getColour(system) },
  });
  return draw("svg", { class: "swatch", viewBox: "0 0 22 10", "aria-hidden": "true" }, line);
}

const makeNote = (text = "") => make("div", { class: "note", "aria-live": "polite" }, text);

/** Make a chart; its caption says what is drawn, and which figure of a paper shows the same. */
function makeFigure(title, caption, ...content) {
  const [heading, below] = [make("h3", {}, title), make("figcaption", {}, caption)];
  return make("figure", { class: "card chart" }, heading, ...content, below);
}

const MAX_NAMES_IN_CAPTION = 6;

/** Return a sentence for the caption that names what a chart cannot draw, or an empty text. */
function describeMissing(names, what) {
  if (!names.length) return "";
  const more = names.length - MAX_NAMES_IN_CAPTION;
  const listed = names.slice(0, MAX_NAMES_IN_CAPTION).join(", ");
  return ` Not drawn, without ${what}: ${listed}${more > 0 ? ` and ${more} more` : ""}.`;
}

/** Repaint a chart when its width changes, because scaling it would change the font size. */
function makeResponsive(paint) {
  const element = make("div");
  let width = 0;
  new ResizeObserver(([entry]) => {
    const newWidth = Math.floor(entry.contentRect.width);
    if (!newWidth || newWidth === width) return;
    width = newWidth;
    element.replaceChildren(paint(width));
  }).observe(element);
  return element;
}

/** Return the range of numbers, which may be more than a function takes as arguments. */
function getRange(values) {
  if (!values.length) return [0, 1];
  return [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
}

/**
 * Return the range without the highest 7 %, because the first losses would flatten the rest. The
 * lowest value of each line is in the range, so that no line is cut off as a whole.
 */
function getRobustRange(lines) {
  const sorted = lines.flat().sort((one, other) => one - other);
  if (!sorted.length) return [0, 1];
  const lowest = lines.map((values) => Math.min(...values));
  return [sorted[0], Math.max(sorted[Math.floor((sorted.length - 1) * 0.93)], ...lowest)];
}

function padRange([low, high], share) {
  const margin = (high - low || 1) * share;
  return { low: low - margin, high: high + margin };
}

/** Return about `count` round numbers from `low` to `high`; the value itself if both are equal. */
function getTicks(low, high, count) {
  if (!(high > low)) return [low];
  const minStep = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(minStep));
  const step = [1, 2, 2.5, 5, 10]
    .map((factor) => factor * power)
    .find((candidate) => candidate >= minStep);
  const ticks = [];
  // the margins keep a tick at either end in spite of rounding errors
  for (let number = Math.ceil(low / step - 1e-9); number * step <= high + step * 1e-6; number++) {
    ticks.push(number * step);
  }
  return ticks;
}

const joinPoints = (points) =>
  points.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

/** Return a function from values to places; the only value of a range stands in the middle. */
function makeScale({ low, high }, start, end) {
  if (!(high > low)) return () => (start + end) / 2;
  return (value) => start + ((value - low) / (high - low)) * (end - start);
}

/**
 * Return the scales and the grid of a chart.
 *
 * x: { low, high, format, ticks }, the last two optional; y: { low, high }
 */
function makeFrame(width, height, x, y, bottomMargin) {
  const [left, right, top, bottom] = [42, width - 8, 8, height - bottomMargin];
  const [getX, getY] = [makeScale(x, left, right), makeScale(y, bottom, top)];
  const rows = getTicks(y.low, y.high, Math.max(3, height / 45)).map((value) => {
    const line = draw("line", {
      class: "grid",
      x1: left,
      x2: right,
      y1: getY(value),
      y2: getY(value),
    });
    const position = { x: left - 6, y: getY(value) + 4, "text-anchor": "end" };
    return draw("g", {}, line, draw("text", position, formatShort(value)));
  });
  const ticks = x.ticks || getTicks(x.low, x.high, Math.max(2, (right - left) / 85));
  const labels = ticks.map((value) => {
    const position = { x: getX(value), y: bottom + 16, "text-anchor": "middle" };
    return draw("text", position, (x.format || formatShort)(value));
  });
  return { grid: [...rows, ...labels], getX, getY, left, right, top, bottom };
}
