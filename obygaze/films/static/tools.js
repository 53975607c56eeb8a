// The film page: what all scripts use. They share one scope; index.html gives their order.
// All text is inserted as text, so that no title or comment can be markup.
"use strict";

const $ = (id) => document.getElementById(id);
const exported = typeof EXPORTED === "undefined" ? null : EXPORTED;
const DARK_INK = "#26251f"; // on the colours of levels, which are the same in both modes
let INK, MUTED, LINE, MODEL, DIFFERS, PALE, HIT; // colours of the time line, from view.css
const EPS = 1e-6; // seconds; times that differ by less are equal
const BATCH = 60; // clips that are added to the grid at once
let page; // what all parts need: films, clips, levels, concepts, the run
let cell = null; // the chosen model of the run; none, until somebody or the protocol names one
let model = null; // its scores, and what the run says of it

// ---- small tools --------------------------------------------------------------------------------

function el(tag, facts = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(facts)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter(Boolean));
  return made;
}

const fill = (parent, ...children) => parent.replaceChildren(...children.filter(Boolean));

async function send(address, options) {
  const lost = () => { throw new Error(t`obygaze view has stopped; start it again and open its new address`); };
  return fetch(address, options).catch(lost);
}

async function load(name, asked = {}) {
  if (exported) return exported[[name, ...Object.values(asked).slice(0, 1)].join(" ")];
  const answer = await send(`api/${name}?${new URLSearchParams(asked)}`);
  const found = await answer.json();
  if (!answer.ok) throw new Error(messageOf(found));
  return found;
}

const messageOf = ({ error, hint }) => (hint ? `${error}. Try: ${hint}` : error);

let silence;
function tell(text) {
  $("status").textContent = text;
  clearTimeout(silence);
  silence = setTimeout(() => ($("status").textContent = ""), 9000);
}

const guarded = (task) => Promise.resolve().then(task).catch((error) => tell(error.message));

function clock(seconds, digits = 0) {
  const units = Math.round(seconds * 10 ** digits), whole = Math.floor(units / 10 ** digits);
  const two = (n) => String(n % 60).padStart(2, "0");
  const rest = digits ? "." + String(units % 10 ** digits).padStart(digits, "0") : "";
  return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60))}:${two(whole)}${rest}`;
}

// The number of items of a sorted list that are not above a value.
function countUpTo(list, value, of = (item) => item) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (of(list[middle]) <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function options(select, pairs, chosen = select.value) {
  fill(select, ...pairs.map(([value, text]) => el("option", { value, textContent: text })));
  select.value = chosen;
  if (select.selectedIndex < 0) select.selectedIndex = 0;
}

const address = (facts) => "#" + new URLSearchParams(facts);
const clipOf = (id) => page.clips.find((clip) => clip.id === id);
const titleOf = (id) => page.films.find((one) => one.id === id)?.title ?? id;
const levelName = (level) => (page.levels[level] ? lookUp(page.levels[level].name) : "");
const levelText = (level) => (page.levels[level] ? `${level} ${levelName(level)}` : level);

function levelMark(level) {
  if (!level) return null;
  const made = el("span", { className: `level ${level}`, title: levelText(level), textContent: level });
  made.style.background = page.levels[level]?.color ?? "";
  return made;
}

function scoreText(one) {
  if (one.score === undefined) return "";
  const band = one.fits > 1 ? t` (${one.low.toFixed(2)} to ${one.high.toFixed(2)} in ${one.fits} fits)` : "";
  const decision = one.positive ? t`positive` : t`negative`;
  const score = t`score of the model ${one.score.toFixed(2)}${band}`;
  // Whoever calls all clips negative agrees with the annotation of the negative ones: that says nothing.
  if (model?.decidesAlike) {
    return one.correct ? t`${score}; it calls every clip ${decision}` : t`${score}; it calls every clip ${decision}: differs from the annotation`;
  }
  return one.correct ? t`${score}, ${decision}: agrees with the annotation` : t`${score}, ${decision}: differs from the annotation`;
}
