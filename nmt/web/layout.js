"use strict";

const places = new Map(); // of the sections on the page, by their ids

function addPlaces(ids) {
  for (const id of ids) places.set(id, make("div"));
  findById("main").append(...places.values());
}

/** Put a section, or nothing, into its place; of a section before it the reader's view is kept. */
function placeSection(id, section) {
  const place = places.get(id);
  const old = place.firstElementChild;
  // because charts are drawn, and have a height, only after the browser has laid out the section
  place.style.minHeight = `${place.offsetHeight}px`;
  const restore = old && section ? rememberView(old) : () => {};
  place.replaceChildren(...[section].filter(isGiven));
  if (!section) [`${id} legend`, `${id} charts`].forEach((name) => repaintFunctions.delete(name));
  restore(section);
  requestAnimationFrame(() => requestAnimationFrame(() => (place.style.minHeight = "")));
  const links = [...document.querySelectorAll("section.part")].map((part) =>
    make("a", { href: `#${part.id}` }, findById(`${part.id}_title`).textContent),
  );
  const navigation = findById("navigation");
  const listTexts = (elements) => [...elements].map((link) => link.textContent).join("\n");
  if (listTexts(links) !== listTexts(navigation.children)) navigation.replaceChildren(...links);
}

/** Return what tells an element from the others of its tag; for an image an empty text. */
const getLabel = (element) =>
  element.id || element.dataset.key || element.value || element.textContent;

/** Return a function that gives a new section the old one's open parts, scroll places and focus. */
function rememberView(old) {
  const opened = [...old.querySelectorAll("details[open] > summary")].map(getLabel);
  const scrolled = [...old.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const at = focused ? listAlike(old, focused).indexOf(focused) : 0;
  return (section) => {
    for (const summary of section.querySelectorAll("details > summary")) {
      if (opened.includes(getLabel(summary))) summary.parentNode.open = true;
    }
    const boxes = section.querySelectorAll(".scroll");
    boxes.forEach((box, number) => (box.scrollLeft = scrolled[number] ?? 0));
    if (focused) focusAgain(listAlike(section, focused)[at], focused);
  };
}

const listAlike = (section, element) => {
  const elements = [...section.querySelectorAll(element.tagName)];
  return elements.filter((other) => getLabel(other) === getLabel(element));
};

function focusAgain(element, { selectionStart, selectionEnd }) {
  element?.focus({ preventScroll: true });
  if (element && isGiven(selectionStart)) element.setSelectionRange(selectionStart, selectionEnd);
}

/** Make a section of the page. */
function makeSection({ id, title, about, controls }, ...content) {
  const heading = make(
    "div",
    {},
    make("h2", { id: `${id}_title` }, title),
    about ? make("p", {}, about) : null,
  );
  const attributes = { class: "part", id, "aria-labelledby": `${id}_title` };
  return make("section", attributes, make("header", {}, heading, controls), ...content);
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
