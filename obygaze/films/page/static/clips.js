// All clips in a grid, and one clip with what models say of it.
import { levelText } from "./marks.js";
import { state } from "./state.js";
import { cutOff, ownText, scoreText, shortScore } from "./timeline.js";
import { $, EPS, address, clock, el, fill, hasPictures, load, options } from "./tools.js";

const DARK = matchMedia("(prefers-color-scheme: dark)");
const BATCH = 60; // clips that are added to the grid at once

const ORDERS = {
  film: ["as in the film", () => 0],
  errors: ["farthest from the annotation first", (one, other) => farFromAnnotation(other) - farFromAnnotation(one)],
  high: ["highest score first", (one, other) => (other.score ?? -1e9) - (one.score ?? -1e9)],
  low: ["lowest score first", (one, other) => (one.score ?? 1e9) - (other.score ?? 1e9)],
};

const filters = $("filters").elements;
let found = []; // the clips of the grid
let nShown = 0; // how many of them are there already
let shownSheet = ""; // the address of the pictures of the clip that is shown

const farFromAnnotation = (clip) => (clip.correct === false ? Math.abs(clip.score - cutOff()) : -1);
const titleOf = (id) => state.page.films.find((film) => film.id === id)?.title ?? id;

export function prepareFilters() {
  const { page, scores } = state;
  const levels = Object.keys(page.levels).filter((level) => page.clips.some((clip) => clip.level === level));
  options(filters.level, [["", "all"], ...levels.map((level) => [level, levelText(level)])]);
  const concepts = Object.keys(page.concepts).filter((name) => page.clips.some((clip) => clip.concepts.includes(name)));
  options(filters.concept, [["", "all"], ...concepts.map((name) => [name, name])]);
  const isCompared = ([name]) => name !== "errors" || page.clips.some((clip) => clip.correct !== undefined);
  options(filters.order, Object.entries(ORDERS).filter(isCompared).map(([name, [text]]) => [name, text]));
  $("filters").hidden = page.blind || !(levels.length || concepts.length || scores);
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
  $("n-clips").textContent = `${found.length} of ${state.page.clips.length} ${state.page.units}`;
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

function thumbnailOf(clip) {
  const blank = el("span", { className: "blank" });
  const src = `thumb/${encodeURIComponent(clip.id)}`;
  const thumbnail = el("img", { loading: "lazy", alt: "", src, onerror: () => thumbnail.replaceWith(blank) });
  return thumbnail;
}

function card(clip) {
  return el("a", { className: "card", href: address({ clip: clip.id }) }, hasPictures && thumbnailOf(clip),
    el("span", {},
      el("strong", {}, clip.id), `${titleOf(clip.film)} ${placeText(clip)} `, levelMark(clip.level),
      el("span", { className: "note" }, [clip.concepts.join(", "), ownText(clip)].filter(Boolean).join("; ")),
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

export async function openClip(id) {
  const { page, scores, cell } = state;
  const facts = await load("clip", { clip_id: id });
  const clip = { ...facts, ...scores?.scores[id] };
  const level = [levelText(clip.level), clip.concepts.join(", ")].filter(Boolean).join(": ");
  $("clip-title").textContent = clip.id;
  $("clip-facts").textContent = [`${titleOf(clip.film)}, ${placeText(clip)}`, level, ownText(clip)].filter(Boolean).join("; ");
  const marked = [...(clip.marked ?? []).map(saidText), ...(clip.marked_own ?? []).map(markedText)];
  // The comment of a clip is made of what its annotators wrote.
  const comment = clip.said.length ? "" : clip.comment;
  const more = [scoreText(clip), ...clip.said.map(saidText), comment, ...new Set(marked), ...clip.notes];
  $("clip-more").textContent = more.filter(Boolean).join("; ");
  $("clip-model").textContent = clip.score === undefined ? "" : `${page.scored_by.cells[cell]}. ${scores.text}`;
  $("clip-watch").href = address({ film: clip.film, clip: clip.id });
  const sheet = $("sheet");
  sheet.onerror = () => (sheet.hidden = true);
  sheet.hidden = !hasPictures;
  sheet.alt = `Twelve pictures of ${clip.id} in their order, with their times`;
  shownSheet = `sheet/${encodeURIComponent(clip.id)}`;
  showSheet();
  $("why").hidden = !clip.explanation;
  if (clip.explanation) explain(clip.explanation);
}

// On the paper of the page, which is dark or light.
function showSheet() {
  if (hasPictures && shownSheet) $("sheet").src = DARK.matches ? `${shownSheet}?paper=dark` : shownSheet;
}

DARK.addEventListener("change", showSheet);

function explain(why) {
  $("why-probability").textContent = `Probability of ${why.class}: ${(100 * why.probability).toFixed(1)} %`;
  const sentences = [
    `Model ${why.model}. It starts from ${why.base.toFixed(2)}, and each concept adds to that or takes away; ${why.sum}.`,
    why.rest !== null && `What no concept explains adds ${why.rest.toFixed(2)}.`,
    why.training,
  ];
  $("why-model").textContent = sentences.filter(Boolean).join(" ");
  const most = Math.max(...why.concepts.map((one) => Math.abs(one.adds)), EPS);
  fill($("why-rows"), ...why.concepts.map((one) => {
    const bar = el("div", { className: one.adds < 0 ? "less" : "more" });
    bar.style.width = `${(4 * Math.abs(one.adds)) / most}rem`;
    const name = el("th", { scope: "row", title: state.page.concepts[one.name] ?? "" }, one.name);
    const cells = [one.adds.toFixed(2), bar];
    return el("tr", {}, name, ...cells.map((content) => el("td", {}, content)));
  }));
}
