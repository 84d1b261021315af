"use strict";

function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

const COLOURS = 7, DASHES = ["", "7 4", "2 4", "10 3 2 3"];
const colourOf = place => `var(--c${place % COLOURS})`;
const dashOf = place => DASHES[Math.floor(place / COLOURS) % DASHES.length];
const signed = (value, digits = 2) => minus(`${value > 0 ? "+" : ""}${value.toFixed(digits)}`);
const short = value => {
  const size = Math.abs(value);
  if (size >= 1e6) return minus(`${+(value / 1e6).toPrecision(3)} M`);
  if (size >= 1e4) return minus(`${+(value / 1e3).toPrecision(3)} k`);
  return minus(String(+value.toPrecision(4)));
};
const clock = seconds => {
  const whole = Math.round(seconds), two = number => String(number).padStart(2, "0");
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
};

/** A line as the legend shows it; colours come again with other dashes. */
function swatch(place) {
  return draw("svg", { class: "swatch", viewBox: "0 0 22 10", "aria-hidden": "true" }, draw("line", {
    x1: 1, x2: 21, y1: 5, y2: 5, "stroke-width": 4, "stroke-dasharray": dashOf(place), looks: { stroke: colourOf(place) },
  }));
}

/** Round numbers from below the least to above the greatest. */
function ticks(low, high, wanted) {
  if (!(high > low)) [low, high] = [low - 1, high + 1];
  const rough = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map(factor => factor * power).find(size => size >= rough);
  const found = [];
  for (let place = Math.ceil(low / step - 1e-9); place * step <= high + step * 1e-6; place++) found.push(place * step);
  return found;
}

/** Drawn anew where its place changes width, so that letters keep their size. */
function responsive(paint, attributes = {}) {
  const place = make("div", attributes);
  let width = 0;
  const repaint = () => { if (width) place.replaceChildren(paint(width)); };
  new ResizeObserver(([entry]) => {
    const now = Math.floor(entry.contentRect.width);
    if (now && now !== width) { width = now; repaint(); }
  }).observe(place);
  return { element: place, repaint };
}

/** A chart's frame: grid, ticks and the two scales. */
function frame(width, height, x, y, margin) {
  const left = margin.left, right = width - margin.right, top = margin.top, bottom = height - margin.bottom;
  const acrossOf = value => left + (value - x.low) / ((x.high - x.low) || 1) * (right - left);
  const upOf = value => bottom - (value - y.low) / ((y.high - y.low) || 1) * (bottom - top);
  const parts = ticks(y.low, y.high, Math.max(3, height / 45)).map(value => draw("g", {},
    draw("line", { class: "grid", x1: left, x2: right, y1: upOf(value), y2: upOf(value) }),
    draw("text", { x: left - 6, y: upOf(value) + 4, "text-anchor": "end" }, (y.format || short)(value))));
  for (const value of x.ticks || ticks(x.low, x.high, Math.max(2, (right - left) / 85))) {
    parts.push(draw("text", { x: acrossOf(value), y: bottom + 16, "text-anchor": "middle" }, (x.format || short)(value)));
  }
  return { parts, acrossOf, upOf, left, right, top, bottom };
}

const reach = values => values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];

/** Lines of `series` ({label, place, faint, xs, ys}); what is pointed at is told, and arrow keys go along. */
function lineChart({ title, aside, series, xFormat, xLabel, robust }) {
  const told = make("div", { class: "told", "aria-live": "polite" });
  const rest = () => told.replaceChildren(xLabel ? `against ${xLabel}` : "");
  rest();
  const paint = width => {
    const height = Math.round(Math.min(300, Math.max(190, width * 0.6)));
    const all = series.flatMap(one => one.ys), [low, high] = robust ? trimmed(all) : reach(all);
    const room = (high - low || 1) * 0.05;
    const y = { low: low - room, high: high + room }, [left, right] = reach(series.flatMap(one => one.xs));
    const scale = frame(width, height, { low: left, high: right, format: xFormat }, y, { left: 42, right: 8, top: 8, bottom: 24 });
    const clip = `clip${Math.random().toString(36).slice(2)}`;
    const inside = value => Math.max(scale.top - 20, Math.min(scale.bottom + 20, scale.upOf(value)));
    const placed = series.map(one => one.xs.map((x, at) => [scale.acrossOf(x), inside(one.ys[at])]));
    const curves = series.map((one, number) => draw("path", {
      class: one.faint ? "curve faint" : "curve", "stroke-dasharray": dashOf(one.place), looks: { stroke: colourOf(one.place) },
      d: placed[number].map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join(""),
    }));
    const dots = series.map((one, number) => one.faint || placed[number].length > 40 ? null
      : draw("g", { looks: { fill: colourOf(one.place) } }, ...placed[number].map(([x, y]) => draw("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: 2.2 }))));
    const mark = draw("circle", { r: 5, fill: "none", "stroke-width": 2.5, visibility: "hidden" });
    const point = (number, at) => {
      const one = series[number], [x, y] = placed[number][at];
      mark.setAttribute("cx", x);
      mark.setAttribute("cy", y);
      mark.setAttribute("visibility", "visible");
      mark.style.stroke = colourOf(one.place);
      curves.forEach((curve, other) => curve.classList.toggle("dim", other !== number));
      told.replaceChildren(`${one.label} · ${(xFormat || short)(one.xs[at])} · `, make("b", {}, short(one.ys[at])));
    };
    const leave = () => {
      mark.setAttribute("visibility", "hidden");
      curves.forEach(curve => curve.classList.remove("dim"));
      rest();
    };
    const nearest = event => {
      const box = svg.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
      let best = [Infinity, 0, 0];
      placed.forEach((points, number) => points.forEach(([px, py], at) => {
        const away = (px - x) ** 2 + (py - y) ** 2;
        if (away < best[0]) best = [away, number, at];
      }));
      if (best[0] < 70 ** 2) point(best[1], best[2]);
      else leave();
    };
    let [chosen, at] = [0, 0];
    const keys = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const walk = event => {
      if (!keys[event.key] || !series.length) return;
      event.preventDefault();
      const [along, ahead] = keys[event.key];
      chosen = (chosen + along + series.length) % series.length;
      at = Math.max(0, Math.min(series[chosen].xs.length - 1, at + ahead));
      point(chosen, at);
    };
    const svg = draw("svg", {
      viewBox: `0 0 ${width} ${height}`, height, role: "img", tabindex: "0",
      "aria-label": `${title} against ${xLabel}, ${series.length} lines; arrow keys tell their points`,
      onpointermove: nearest, onpointerleave: leave, onkeydown: walk, onblur: leave,
    }, draw("clipPath", { id: clip }, draw("rect", { x: scale.left - 4, y: scale.top - 4, width: scale.right - scale.left + 8, height: scale.bottom - scale.top + 8 })),
    ...scale.parts, draw("g", { "clip-path": `url(#${clip})` }, ...curves, ...dots), mark);
    return svg;
  };
  const heading = make("h3", {}, title, aside ? make("span", {}, aside) : null);
  return make("figure", { class: "card chart", looks: { margin: "0" } }, heading, responsive(paint).element, told);
}

/** Without the highest few: the first losses would press all others flat. */
function trimmed(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length ? [sorted[0], sorted[Math.floor((sorted.length - 1) * 0.93)]] : [0, 1];
}

/** Values with intervals of several systems over named places. */
function intervalChart({ title, aside, names, counts, series, unit }) {
  const told = make("div", { class: "told", "aria-live": "polite" }, "bars: 95 % intervals; in brackets: sentences");
  const paint = width => {
    const height = Math.round(Math.min(340, Math.max(220, width * 0.38)));
    const [low, high] = reach(series.flatMap(one => one.points.flatMap(point => [point.low ?? point.bleu, point.high ?? point.bleu])));
    const room = (high - low || 1) * 0.06;
    const x = { low: -0.5, high: names.length - 0.5, ticks: names.map((_, place) => place), format: place => names[place] };
    const scale = frame(width, height, x, { low: low - room, high: high + room }, { left: 42, right: 8, top: 8, bottom: 40 });
    const apart = Math.min(11, (scale.right - scale.left) / names.length * 0.75 / Math.max(1, series.length));
    const groups = series.map((one, number) => {
      const shift = (number - (series.length - 1) / 2) * apart;
      const placed = one.points.map(point => ({ ...point, x: scale.acrossOf(names.indexOf(point.name)) + shift, y: scale.upOf(point.bleu) }));
      return draw("g", { class: "ranged", looks: { stroke: colourOf(one.place), fill: colourOf(one.place) } },
        draw("path", { class: "curve faint", "stroke-dasharray": dashOf(one.place), d: placed.map((point, at) => `${at ? "L" : "M"}${point.x} ${point.y}`).join("") }),
        ...placed.map(point => draw("g", {
          onpointerenter: () => {
            groups.forEach((group, other) => group.classList.toggle("dim", other !== number));
            const range = point.low === null ? "" : ` [${point.low.toFixed(1)}, ${point.high.toFixed(1)}]`;
            told.replaceChildren(`${one.label} · ${point.name} ${unit} · BLEU `, make("b", {}, point.bleu.toFixed(2)), range,
              ` · length ${point.length_ratio === null ? "–" : point.length_ratio.toFixed(2)} of the reference's`);
          },
          onpointerleave: () => groups.forEach(group => group.classList.remove("dim")),
        },
        point.low === null ? null : draw("line", { x1: point.x, x2: point.x, y1: scale.upOf(point.low), y2: scale.upOf(point.high), "stroke-width": 1.6, opacity: 0.65 }),
        draw("circle", { cx: point.x, cy: point.y, r: 3.2 }), draw("circle", { cx: point.x, cy: point.y, r: 9, opacity: 0, stroke: "none" }))));
    });
    const under = names.map((_, place) => draw("text", { x: scale.acrossOf(place), y: scale.bottom + 31, "text-anchor": "middle", opacity: 0.8 }, `(${counts[place]})`));
    return draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `${title}; the same figures stand in the table` },
      ...scale.parts, ...under, ...groups);
  };
  return make("figure", { class: "card chart", looks: { margin: "0" } },
    make("h3", {}, title, make("span", {}, aside)), responsive(paint).element, told);
}

/** A measure of every system as bars with ± one standard deviation. */
function barChart({ title, aside, rows, format }) {
  const most = Math.max(...rows.map(row => row.mean + (row.deviation || 0)), 1e-9);
  const per = value => `${(100 * Math.max(0, value) / most).toFixed(2)}%`;
  return make("figure", { class: "card chart", looks: { margin: "0" } }, make("h3", {}, title, make("span", {}, aside)),
    make("div", { class: "bars" }, ...rows.flatMap(row => [
      make("span", { class: "name", title: row.label }, ...softly(row.label)),
      make("span", { class: "track", "aria-hidden": "true" },
        make("i", { looks: { width: per(row.mean), background: colourOf(row.place) } }),
        row.deviation ? make("b", { looks: { left: per(row.mean - row.deviation), width: per(Math.min(2 * row.deviation, row.mean + row.deviation)) } }) : null),
      make("span", { class: "value" }, format(row.mean) + (row.deviation ? ` ± ${format(row.deviation)}` : "")),
    ])));
}

/** A line a system through its settings to its score; a value that is clicked keeps only the lines through it. */
function parallelChart({ axes, lines, scoreName, worth }) {
  const told = make("div", { class: "told", "aria-live": "polite" });
  const rest = () => told.replaceChildren("a line is a system: point at one; click a value to keep the lines through it");
  rest();
  const kept = new Map();
  const scores = lines.map(line => line.score), [worst, best] = reach(scores.map(worth));
  const share = score => best === worst ? 1 : (worth(score) - worst) / (best - worst);
  const paint = width => {
    const all = [...axes, { name: scoreName, isScore: true }];
    const apart = Math.max(112, (width - 140) / Math.max(1, all.length - 1)), inner = apart * (all.length - 1);
    const height = Math.max(240, 60 + 30 * Math.max(...axes.map(axis => axis.values.length), 1)), top = 40, bottom = height - 18;
    const [low, high] = reach(scores), room = (high - low || 1) * 0.04;
    const ups = all.map(axis => axis.isScore
      ? score => bottom - (score - low + room) / (high - low + 2 * room) * (bottom - top)
      : value => axis.values.length === 1 ? (top + bottom) / 2 : bottom - axis.values.indexOf(value) / (axis.values.length - 1) * (bottom - top));
    const placeOf = number => 70 + number * apart;
    const paths = lines.map((line, number) => {
      const points = all.map((axis, at) => [placeOf(at), ups[at](axis.isScore ? line.score : line.values[at])]);
      const d = points.map(([x, y], at) => {
        if (!at) return `M${x} ${y}`;
        const half = (points[at - 1][0] + x) / 2;
        return `C${half} ${points[at - 1][1]} ${half} ${y} ${x} ${y}`;
      }).join("");
      const tell = () => {
        paths.forEach((path, other) => path.classList.toggle("picked", other === number));
        path.parentNode.append(path);
        told.replaceChildren(`${line.label} · ${scoreName} `, make("b", {}, line.score.toFixed(2)));
      };
      const forget = () => { path.classList.remove("picked"); rest(); };
      const path = draw("path", {
        class: "path", d, tabindex: "0", role: "img", "aria-label": `${line.label}: ${scoreName} ${line.score.toFixed(2)}`,
        looks: { stroke: `color-mix(in oklab, var(--high) ${Math.round(100 * share(line.score))}%, var(--low))` },
        onpointerenter: tell, onpointerleave: forget, onfocus: () => { if (!path.matches(".picked")) tell(); }, onblur: forget,
      });
      return path;
    });
    const filter = () => lines.forEach((line, number) =>
      paths[number].classList.toggle("out", [...kept].some(([at, value]) => line.values[at] !== value)));
    const toggle = (at, value, label) => {
      if (kept.get(at) === value) kept.delete(at);
      else kept.set(at, value);
      for (const other of svg.querySelectorAll(`[data-axis="${at}"]`)) other.setAttribute("aria-pressed", "false");
      label.setAttribute("aria-pressed", String(kept.get(at) === value));
      filter();
    };
    const shownAxes = all.map((axis, at) => {
      const x = placeOf(at);
      const labels = axis.isScore
        ? ticks(low, high, 5).map(value => draw("text", { class: "halo", x: x + 8, y: ups[at](value) + 4 }, short(value)))
        : axis.values.map((value, number) => {
          if (axis.values.length > 24 && number % Math.ceil(axis.values.length / 24)) return null;
          const pick = () => toggle(at, value, label);
          const label = draw("text", {
            class: "value halo", x: x + 8, y: ups[at](value) + 4, tabindex: "0", role: "button", "data-axis": at,
            "aria-pressed": String(kept.get(at) === value), onclick: pick,
            onkeydown: event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pick(); } },
          }, clipped(settingText(value), 20), draw("title", {}, settingText(value)));
          return label;
        });
      return draw("g", { class: "axis" }, draw("line", { x1: x, x2: x, y1: top - 8, y2: bottom + 8 }),
        draw("text", { class: "title", x, y: 18, "text-anchor": "middle" }, clipped(axis.name, 24), draw("title", {}, axis.name)), ...labels);
    });
    const full = inner + 140;
    const svg = draw("svg", { viewBox: `0 0 ${full} ${height}`, height, role: "group", "aria-label": `Settings against ${scoreName}`, looks: { width: `${full}px` } },
      draw("g", {}, ...paths), ...shownAxes);
    filter();
    return make("div", { class: "scroll" }, svg);
  };
  return make("figure", { class: "card chart", looks: { margin: "0" } }, responsive(paint).element, told);
}

/** A name that may be broken after its signs. */
const softly = name => name.split(/(?<=[_=,/.])/).flatMap((piece, place) => place ? [make("wbr"), piece] : [piece]);
const clipped = (text, most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;
const settingText = value => value === null || value === undefined ? "–" : String(value);
