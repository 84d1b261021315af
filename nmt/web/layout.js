"use strict";

/** Add a section to the page and to its navigation. */
function addSection({ id, title, about, controls }, ...content) {
  findById("navigation").append(make("a", { href: `#${id}` }, title));
  const heading = make(
    "div",
    {},
    make("h2", { id: `${id}_title` }, title),
    about ? make("p", {}, about) : null,
  );
  const attributes = { class: "part", id, "aria-labelledby": `${id}_title` };
  const section = make("section", attributes, make("header", {}, heading, controls), ...content);
  findById("main").append(section);
}

const makeControl = (text, input) =>
  make("div", { class: "controls" }, make("label", {}, text, input));

function makeSelect(id, texts, value, onchange) {
  const options = Object.entries(texts).map(([key, text]) => make("option", { value: key }, text));
  const select = make("select", { id, onchange: () => onchange(select.value) }, ...options);
  select.value = value;
  return select;
}

/** Make a checkbox that adds its value to a set or deletes it. */
function makeCheckbox(text, value, set, onchange, name) {
  const toggle = (event) => {
    set[event.target.checked ? "add" : "delete"](value);
    onchange();
  };
  const checked = set.has(value);
  const box = make("input", { type: "checkbox", name, value, checked, onchange: toggle });
  return make("label", {}, box, text);
}

function makeMenu(attributes, title, labels) {
  const summary = make("summary", {}, title);
  return make("details", { class: "menu", ...attributes }, summary, make("div", {}, ...labels));
}

/** Make a table of numbers or of text; the first cell of each row is its heading. */
function makeTable(heads, rows, { isText = false } = {}) {
  const cells = heads.map((head, column) => {
    return make("th", { scope: "col", class: !isText && column ? "number" : false }, head);
  });
  const lines = rows.map(([name, ...values]) =>
    make("tr", {}, make("th", { scope: "row" }, name), ...values),
  );
  return make(
    "div",
    { class: "card scroll" },
    make(
      "table",
      { class: isText ? "table text" : "table" },
      make("thead", {}, make("tr", {}, ...cells)),
      make("tbody", {}, ...lines),
    ),
  );
}

const makeCell = (...content) => make("td", { class: "number" }, ...content);

/** Put a table under a title that opens it. */
function makeTableDetails(id, title, table) {
  const summary = make("summary", { class: "small soft" }, title);
  return make("details", { class: "more", id }, summary, table);
}

const formatP = (p) => (isGiven(p) ? (p < 0.001 ? "<0.001" : p.toFixed(3)) : "–");
const isSignificant = (p) => isGiven(p) && p < 0.05;
const formatInterval = (low, high, format) => ` [${format(low)}, ${format(high)}]`;
const makeSpread = (text) => make("span", { class: "spread" }, text);

function compareValues(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), "en", { numeric: true });
}
