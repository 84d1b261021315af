"use strict";

/**
 * Draw a value of several systems by sentence length, with intervals.
 *
 * buckets: [{ name, sentences }]; series: [{ label, system, points }];
 * point: { name, value, low, high, remark }; `name` is that of its bucket, and `low` and `high`
 * are null if there is no interval
 */
function makeIntervalChart({ title, caption, ...chart }) {
  const note = makeNote("point at a mark for its value");
  const paint = (width) => drawIntervalChart(width, { title, note, ...chart });
  return makeFigure(title, caption, makeResponsive(paint), note);
}

function drawIntervalChart(width, { title, note, buckets, series }) {
  const height = Math.round(Math.min(340, Math.max(220, width * 0.38)));
  const frame = makeIntervalFrame(width, height, buckets, series);
  const groups = series.map((line, index) => {
    const shift = getShift(index, frame, buckets, series);
    const points = placeIntervals(line, shift, buckets, frame);
    const show = (point) => {
      highlight(index);
      note.replaceChildren(...describeInterval(point, line.label));
    };
    return drawIntervals(line, points, show, () => highlight(null));
  });
  const highlight = (index) =>
    groups.forEach((group, other) => {
      group.classList.toggle("dim", index !== null && other !== index);
    });
  const label = `${title}; a table below has the same numbers`;
  return draw(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label },
    ...frame.grid,
    ...drawCounts(buckets, frame),
    ...groups,
  );
}

function makeIntervalFrame(width, height, buckets, series) {
  const points = series.flatMap((line) => line.points);
  const ends = points.flatMap(({ value, low, high }) => [low ?? value, high ?? value]);
  const x = {
    low: -0.5,
    high: buckets.length - 0.5,
    ticks: buckets.map((_, index) => index),
    format: (index) => buckets[index].name,
  };
  return makeFrame(width, height, x, padRange(getRange(ends), 0.06), 40);
}

/** Return how far a system's points move sideways, so that systems do not hide each other. */
function getShift(index, { left, right }, buckets, series) {
  const share = (0.75 * (right - left)) / buckets.length;
  const gap = Math.min(11, share / Math.max(1, series.length));
  return (index - (series.length - 1) / 2) * gap;
}

function placeIntervals({ points }, shift, buckets, { getX, getY }) {
  const names = buckets.map((bucket) => bucket.name);
  return points.map((point) => ({
    ...point,
    x: getX(names.indexOf(point.name)) + shift,
    y: getY(point.value),
    range: point.low === null ? null : { y1: getY(point.low), y2: getY(point.high) },
  }));
}

function drawIntervals({ system }, points, onShow, onHide) {
  const [stroke, fill] = [getColour(system), getColour(system)];
  const d = joinPoints(points.map(({ x, y }) => [x, y]));
  const path = draw("path", { class: "curve faint", "stroke-dasharray": getDash(system), d });
  const intervals = points.map((point) => {
    const handlers = { onpointerenter: () => onShow(point), onpointerleave: onHide };
    return draw("g", handlers, ...drawInterval(point));
  });
  return draw("g", { class: "interval", style: { stroke, fill } }, path, ...intervals);
}

function drawInterval({ x, y, range }) {
  const line = { x1: x, x2: x, ...range, "stroke-width": 1.6, opacity: 0.65 };
  return [
    range ? draw("line", line) : null,
    draw("circle", { cx: x, cy: y, r: 3.2 }),
    // an invisible larger circle, because 3 pixels are hard to point at
    draw("circle", { cx: x, cy: y, r: 9, opacity: 0, stroke: "none" }),
  ];
}

function describeInterval({ name, value, low, high, remark }, label) {
  return [
    `${label} · ${name} source words · `,
    make("b", {}, value.toFixed(2)),
    low === null ? "" : ` [${low.toFixed(1)}, ${high.toFixed(1)}]`,
    remark,
  ];
}

function drawCounts(buckets, { getX, bottom }) {
  return buckets.map(({ sentences }, index) => {
    const position = { x: getX(index), y: bottom + 31, "text-anchor": "middle", opacity: 0.8 };
    return draw("text", position, `(${sentences})`);
  });
}

/** Draw a score of each system as a bar with ± one standard deviation. */
function makeBarChart({ title, caption, rows, format }) {
  const max = Math.max(...rows.map((row) => row.mean + (row.deviation || 0)), 1e-9);
  const getShare = (value) => `${((100 * Math.max(0, value)) / max).toFixed(2)}%`;
  const bars = rows.flatMap(({ label, system, mean, deviation }) => [
    make("span", { class: "name", title: label }, ...splitName(label)),
    make(
      "span",
      { class: "track", "aria-hidden": "true" },
      make("i", { style: { width: getShare(mean), background: getColour(system) } }),
      deviation ? makeDeviationLine(mean, deviation, getShare) : null,
    ),
    make("span", { class: "value" }, format(mean) + (deviation ? ` ± ${format(deviation)}` : "")),
  ]);
  return makeFigure(title, caption, make("div", { class: "bars" }, ...bars));
}

function makeDeviationLine(mean, deviation, getShare) {
  const width = Math.min(2 * deviation, mean + deviation);
  return make("b", { style: { left: getShare(mean - deviation), width: getShare(width) } });
}
