"use strict";

const HINT = "point at a line for its score; click a value to filter the lines";
const NO_LINE = "no system has all of the chosen values; click one of them again";
const MAX_LABELS = 24;
const chosenValues = new Map(); // from the name of an axis to the value that lines must have

/**
 * Draw a line for each system, through the values of its settings to its score.
 *
 * axes: [{ name, values }]; lines: [{ label, score, values }]; `worth` grows with better scores
 */
function makeParallelChart({ caption, ...chart }) {
  const note = makeNote(HINT);
  const isShown = ({ values }) =>
    chart.axes.every(
      ({ name }, axis) => !chosenValues.has(name) || chosenValues.get(name) === values[axis],
    );
  const clearNote = () => note.replaceChildren(chart.lines.some(isShown) ? HINT : NO_LINE);
  const paint = (width) =>
    drawParallelChart(width, { note, clearNote, isShown, ...chart });
  return makeFigure(`${chart.scoreName} by settings`, caption, makeResponsive(paint), note);
}

function drawParallelChart(width, chart) {
  const layout = layOutAxes(width, chart);
  const paths = drawPaths(chart, layout);
  const applyFilters = () => {
    const { lines, isShown, clearNote } = chart;
    lines.forEach((line, index) => paths[index].classList.toggle("out", !isShown(line)));
    clearNote();
  };
  applyFilters();
  const axes = layout.axes.map((_, index) => drawAxis(index, chart, layout, applyFilters));
  const svg = draw(
    "svg",
    {
      viewBox: `0 0 ${layout.width} ${layout.height}`,
      height: layout.height,
      role: "group",
      "aria-label": `Settings against ${chart.scoreName}`,
      style: { width: `${layout.width}px` },
    },
    draw("g", {}, ...paths),
    ...axes,
  );
  return make("div", { class: "scroll" }, svg);
}

/** Return the axes and their coordinates; the last axis is the score. */
function layOutAxes(width, { axes, lines, scoreName }) {
  const gap = Math.max(112, (width - 140) / Math.max(1, axes.length));
  const height = Math.max(240, 60 + 30 * Math.max(...axes.map((axis) => axis.values.length), 1));
  const [top, bottom] = [40, height - 18];
  const [low, high] = getRange(lines.map((line) => line.score));
  const range = padRange([low, high], 0.04);
  const scale = (values) => (value) =>
    makeScale({ low: 0, high: values.length - 1 }, bottom, top)(values.indexOf(value));
  return {
    axes: [
      ...axes.map(({ name, values }) => ({ name, values, getY: scale(values) })),
      { name: scoreName, ticks: getTicks(low, high, 5), getY: makeScale(range, bottom, top) },
    ],
    getX: (index) => 70 + index * gap,
    width: gap * axes.length + 140,
    height,
    top,
    bottom,
  };
}

function drawPaths({ lines, scoreName, worth, note, clearNote }, layout) {
  const [worst, best] = getRange(lines.map((line) => worth(line.score)));
  const paths = lines.map((line) => {
    const share = best === worst ? 1 : (worth(line.score) - worst) / (best - worst);
    const colour = `color-mix(in oklab, var(--high) ${Math.round(100 * share)}%, var(--low))`;
    const score = line.score.toFixed(2);
    const select = () => {
      paths.forEach((other) => other.classList.toggle("selected", other === path));
      note.replaceChildren(`${line.label} · ${scoreName} `, make("b", {}, score));
    };
    const deselect = () => {
      path.classList.remove("selected");
      clearNote();
    };
    const path = draw("path", {
      class: "path",
      d: joinSmoothly(placeLine(line, layout)),
      tabindex: "0",
      role: "img",
      "aria-label": `${line.label}: ${scoreName} ${score}`,
      style: { stroke: colour },
      onpointerenter: () => {
        path.parentNode.append(path); // above the other lines
        select();
      },
      onpointerleave: deselect,
      onfocus: select,
      onblur: deselect,
    });
    return path;
  });
  return paths;
}

const placeLine = ({ values, score }, { axes, getX }) =>
  [...values, score].map((value, index) => [getX(index), axes[index].getY(value)]);

function joinSmoothly(points) {
  const pieces = points.map(([x, y], at) => {
    if (!at) return `M${x} ${y}`;
    const [lastX, lastY] = points[at - 1];
    const middle = (lastX + x) / 2;
    return `C${middle} ${lastY} ${middle} ${y} ${x} ${y}`;
  });
  return pieces.join("");
}

function drawAxis(index, chart, { axes, getX, top, bottom }, applyFilters) {
  const { name, values, ticks, getY } = axes[index];
  const x = getX(index);
  const labels = ticks
    ? ticks.map((tick) => {
        const position = { class: "halo", x: x + 8, y: getY(tick) + 4 };
        return draw("text", position, formatShort(tick));
      })
    : drawValues(name, values, { x: x + 8, getY }, applyFilters);
  const title = { class: "title", x, y: 18, "text-anchor": "middle" };
  return draw(
    "g",
    { class: "axis" },
    draw("line", { x1: x, x2: x, y1: top - 8, y2: bottom + 8 }),
    draw("text", title, clipText(name, 24), draw("title", {}, name)),
    ...labels,
  );
}

/** Draw the values of a setting as buttons that filter the lines. */
function drawValues(axis, values, { x, getY }, applyFilters) {
  const step = Math.ceil(values.length / MAX_LABELS);
  const shownValues = values.filter((_, index) => index % step === 0);
  const labels = shownValues.map((value) => {
    const text = formatSetting(value);
    const toggle = () => {
      if (chosenValues.has(axis) && chosenValues.get(axis) === value) chosenValues.delete(axis);
      else chosenValues.set(axis, value);
      updatePressed();
      applyFilters();
    };
    const attributes = {
      class: "value halo",
      x,
      y: getY(value) + 4,
      tabindex: "0",
      role: "button",
      onclick: toggle,
      onkeydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        toggle();
      },
    };
    return draw("text", attributes, clipText(text, 20), draw("title", {}, text));
  });
  const updatePressed = () =>
    shownValues.forEach((value, index) => {
      labels[index].setAttribute("aria-pressed", String(chosenValues.get(axis) === value));
    });
  updatePressed();
  return labels;
}
