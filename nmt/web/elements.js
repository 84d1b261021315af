"use strict";

const findById = (id) => document.getElementById(id);

/**
 * Create an HTML element. Strings among the children become text and never markup, because they
 * come from data files.
 */
function make(tag, attributes = {}, ...children) {
  return fillElement(document.createElement(tag), attributes, children);
}

/** Create an SVG element. */
function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  return fillElement(element, attributes, children);
}

function fillElement(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) setAttribute(element, name, value);
  element.append(...children.filter(isGiven));
  return element;
}

function setAttribute(element, name, value) {
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "style") Object.assign(element.style, value);
  else if (isGiven(value)) element.setAttribute(name, value === true ? "" : value);
}

const isGiven = (value) => value !== null && value !== undefined && value !== false;

/** Replace the hyphen, because a minus sign is as wide as a digit. */
const useMinusSign = (text) => text.replace("-", "−");
