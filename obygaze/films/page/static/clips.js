// All clips in a grid, and one clip with what people and models say of it.
import { state } from "./state.js";
import { cutOff, levelText, ownText, scoreText, shortScore } from "./timeline.js";
import { $, address, clock, el, options } from "./tools.js";

const BATCH = 60; // clips that are added to the grid at once

const ORDERS = {
  film: ["as in the film", (one, other) => startOf(one) - startOf(other)],
  errors: ["farthest from the annotation first", (one, other) => farFromAnnotation(other) - farFromAnnotation(one)],
  high: ["highest score first", (one, other) => (other.score ?? -1e9) - (one.score ?? -1e9)],
  low: ["lowest score first", (one, other) => (one.score ?? 1e9) - (other.score ?? 1e9)],
};

const filters = $("filters").elements;
let found = []; // the clips of the grid
let nShown = 0; // how many of them are there already

// A clip without a time comes last.
const startOf = (clip) => state.film.spans[clip.id]?.[0] ?? Infinity;
const farFromAnnotation = (clip) => (clip.correct === false ? Math.abs(clip.score - cutOff(clip.of)) : -1);

export function prepareFilters() {
  const { page, scores } = state;
  const levels = Object.keys(page.levels).filter((level) => page.clips.some((clip) => clip.level === level));
  options(filters.level, [["", "all"], ...levels.map((level) => [level, levelText(level)])]);
  const concepts = Object.keys(page.concepts).filter((name) => page.clips.some((clip) => clip.concepts.includes(name)));
  options(filters.concept, [["", "all"], ...concepts.map((name) => [name, name])]);
  const isCompared = ([name]) => name !== "errors" || page.clips.some((clip) => clip.correct !== undefined);
  options(filters.order, Object.entries(ORDERS).filter(isCompared).map(([name, [text]]) => [name, text]));
  $("filters").hidden = !(levels.length || concepts.length || scores);
  filters.level.parentNode.hidden = !levels.length;
  filters.concept.parentNode.hidden = !concepts.length;
  filters.order.parentNode.hidden = !scores;
  if (!scores) filters.order.value = "film";
}

export function chooseClips() {
  const fits = (clip) => (!filters.level.value || clip.level === filters.level.value)
    && (!filters.concept.value || clip.concepts.includes(filters.concept.value));
  found = state.page.clips.filter(fits).sort(ORDERS[filters.order.value][1]);
  nShown = 0;
  $("n-clips").textContent = `${found.length} of ${state.page.clips.length} clips`;
  $("grid").replaceChildren();
  addClips();
}

function addClips() {
  const added = found.slice(nShown, nShown + BATCH);
  $("grid").append(...added.map((clip) => el("li", {}, card(clip))));
  nShown += added.length;
  $("more").hidden = nShown >= found.length;
}

const placeText = (clip) => (clip.start !== null ? clock(clip.start) : clip.scene === null ? "" : `scene ${clip.scene}`);
const saidText = (one) => `${one.annotator}: ${[levelText(one.level), one.concepts.join(", "), ownText(one), one.comment].filter(Boolean).join("; ")}`;
const markedText = (one) => `${one.annotator}: ${one.column}: ${one.value}`;

function levelMark(level) {
  const made = el("span", { className: `level ${level}`, title: levelText(level), textContent: level });
  made.style.background = state.page.levels[level]?.color ?? "";
  return level && made;
}

function card(clip) {
  return el("a", { className: "card", href: address({ clip: clip.id }) },
    el("span", {},
      el("strong", {}, clip.id), `${placeText(clip)} `, levelMark(clip.level),
      el("span", { className: "note" }, [clip.concepts.join(", "), ownText(clip), clip.comment && `“${clip.comment}”`].filter(Boolean).join("; ")),
      el("span", { className: clip.correct === false ? "differs" : "note", title: scoreText(clip) }, shortScore(clip))));
}

$("filters").addEventListener("submit", (event) => {
  event.preventDefault();
  chooseClips();
});
$("filters").addEventListener("change", chooseClips);
$("more").onclick = () => {
  const first = nShown;
  addClips();
  $("grid").children[first].firstChild.focus();
};

// ---- a clip -----------------------------------------------------------------------------------------

export function openClip(id) {
  const { page, film, scores } = state;
  const clip = page.clips.find((one) => one.id === id);
  if (!clip) throw new Error(`This film has no clip ${id}.`);
  const level = [levelText(clip.level), clip.concepts.join(", ")].filter(Boolean).join(": ");
  $("clip-title").textContent = clip.id;
  $("clip-facts").textContent = [`${film.title}, ${placeText(clip)}`, level, ownText(clip)].filter(Boolean).join("; ");
  const marked = [...clip.marked.map(saidText), ...clip.marked_own.map(markedText)];
  // The comment of a clip is made of what its annotators wrote.
  const comment = clip.said.length ? "" : clip.comment;
  const more = [scoreText(clip), ...clip.said.map(saidText), comment, ...new Set(marked)];
  $("clip-more").textContent = more.filter(Boolean).join("; ");
  $("clip-model").textContent = clip.score === undefined ? "" : `${scores.name}. ${scores.text}`;
  $("clip-watch").href = address({ at: clip.id });
}
