"use strict";

/**
 * Draw learning curves. The note below describes the point under the pointer or the one chosen
 * with the arrow keys.
 *
 * series: [{ label, system, faint, xs, ys }]
 */
function makeLineChart({ title, caption, ...chart }) {
  const note = makeNote();
  const clearNote = () => note.replaceChildren(`against ${chart.xLabel}`);
  clearNote();
  const paint = (width) => drawLineChart(width, { title, note, clearNote, ...chart });
  return makeFigure(title, caption, makeResponsive(paint), note);
}

function drawLineChart(width, chart) {
  const { title, series, xLabel } = chart;
  const height = Math.round(Math.min(300, Math.max(190, width * 0.6)));
  const frame = makeLineFrame(width, height, chart);
  const points = series.map((line) => placePoints(line, frame));
  const curves = series.map((line, index) => drawCurve(line, points[index]));
  const dots = series.map((line, index) => drawDots(line, points[index]));
  const { marker, ...handlers } = makePointReader(chart, points, curves);
  const clip = `clip${Math.random().toString(36).slice(2)}`;
  return draw(
    "svg",
    {
      viewBox: `0 0 ${width} ${height}`,
      height,
      role: "img",
      tabindex: "0",
      "aria-label": `${title} against ${xLabel}, ${series.length} lines; arrow keys read points`,
      ...handlers,
    },
    drawClipPath(clip, frame),
    ...frame.grid,
    draw("g", { "clip-path": `url(#${clip})` }, ...curves, ...dots),
    marker,
  );
}

function makeLineFrame(width, height, { series, xFormat, robust }) {
  const ys = series.map((line) => line.ys);
  const y = padRange(robust ? getRobustRange(ys) : getRange(ys.flat()), 0.05);
  const [low, high] = getRange(series.flatMap((line) => line.xs));
  return makeFrame(width, height, { low, high, format: xFormat }, y, 24);
}

/** Return the points of a line; points beyond the frame stay close to it. */
function placePoints({ xs, ys }, { top, bottom, getX, getY }) {
  const limit = (y) => Math.max(top - 20, Math.min(bottom + 20, y));
  return xs.map((x, at) => [getX(x), limit(getY(ys[at]))]);
}

function drawCurve({ system, faint }, points) {
  return draw("path", {
    class: faint ? "curve faint" : "curve",
    "stroke-dasharray": getDash(system),
    style: { stroke: getColour(system) },
    d: joinPoints(points),
  });
}

function drawDots({ system, faint }, points) {
  if (faint || points.length > 40) return null;
  const dots = points.map(([x, y]) =>
    draw("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: 2.2 }),
  );
  return draw("g", { style: { fill: getColour(system) } }, ...dots);
}

function drawClipPath(id, { left, right, top, bottom }) {
  const [width, height] = [right - left + 8, bottom - top + 8];
  return draw("clipPath", { id }, draw("rect", { x: left - 4, y: top - 4, width, height }));
}

/** Return a marker and the event handlers that move it and describe its point. */
function makePointReader({ series, xFormat, note, clearNote }, points, curves) {
  const marker = draw("circle", { r: 5, fill: "none", "stroke-width": 2.5, visibility: "hidden" });
  const show = (index, at) => {
    const line = series[index];
    const [cx, cy] = points[index][at];
    fillElement(marker, { cx, cy, visibility: "visible" }, []);
    marker.style.stroke = getColour(line.system);
    curves.forEach((curve, other) => curve.classList.toggle("dim", other !== index));
    const x = xFormat(line.xs[at]);
    note.replaceChildren(`${line.label} · ${x} · `, make("b", {}, formatShort(line.ys[at])));
  };
  const clear = () => {
    marker.setAttribute("visibility", "hidden");
    curves.forEach((curve) => curve.classList.remove("dim"));
    clearNote();
  };
  const showNearest = (event) => {
    const nearest = findNearestPoint(points, event);
    if (nearest) show(...nearest);
    else clear();
  };
  return {
    marker,
    onpointermove: showNearest,
    onpointerleave: clear,
    onkeydown: makeKeyHandler(series, show),
    onblur: clear,
  };
}

/** Return [line, point] closest to the pointer, or null if it is more than 70 pixels away. */
function findNearestPoint(points, event) {
  const box = event.currentTarget.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  let [nearest, minDistance] = [null, 70 ** 2];
  points.forEach((line, index) => {
    line.forEach(([pointX, pointY], at) => {
      const distance = (pointX - x) ** 2 + (pointY - y) ** 2;
      if (distance < minDistance) [nearest, minDistance] = [[index, at], distance];
    });
  });
  return nearest;
}

const STEPS_OF_KEYS = {
  ArrowRight: [0, 1],
  ArrowLeft: [0, -1],
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
};

/** Return a handler that moves along a line with left and right, between lines with up and down. */
function makeKeyHandler(series, show) {
  let [index, at] = [0, 0];
  return (event) => {
    if (!STEPS_OF_KEYS[event.key] || !series.length) return;
    event.preventDefault();
    const [lines, points] = STEPS_OF_KEYS[event.key];
    index = (index + lines + series.length) % series.length;
    at = Math.max(0, Math.min(series[index].xs.length - 1, at + points));
    show(index, at);
  };
}
