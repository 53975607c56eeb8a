// All clips in a grid, and one clip with what models say of it.
import { levelText } from "./marks.js";
import { state } from "./state.js";
import { cutOff, scoreText } from "./timeline.js";
import { $, EPS, address, clock, el, fill, guarded, load, messageOf, options, send } from "./tools.js";

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
let cosines = null; // of each clip with a text, if one is searched
let nChoices = 0;

const farFromAnnotation = (clip) => (clip.correct === false ? Math.abs(clip.score - cutOff()) : -1);
const titleOf = (id) => state.page.films.find((film) => film.id === id)?.title ?? id;

export function prepareFilters() {
  const { page, scores } = state;
  const levels = Object.keys(page.levels).filter((level) => page.clips.some((clip) => clip.level === level));
  options(filters.film, [["", "all"], ...page.films.map((film) => [film.id, film.title])]);
  options(filters.level, [["", "all"], ...levels.map((level) => [level, levelText(level)])]);
  options(filters.concept, [["", "all"], ...Object.keys(page.concepts).map((name) => [name, name])]);
  options(filters.order, Object.entries(ORDERS).map(([name, [text]]) => [name, text]));
  for (const name of ["level", "concept", "where"]) filters[name].parentNode.hidden = page.blind;
  if (page.is_exported) filters.where.parentNode.hidden = true;
  filters.text.parentNode.hidden = !page.can_search;
  filters.order.parentNode.hidden = !scores;
  if (!scores) filters.order.value = "film";
}

export async function chooseClips() {
  const choice = ++nChoices;
  const expression = filters.where.value.trim();
  const words = filters.text.value.trim();
  let allowed, ranked;
  try {
    if (words) $("n-clips").textContent = "Searching ...";
    allowed = expression ? new Set(await load("where", { expression })) : null;
    ranked = words ? new Map(await load("search", { text: words })) : null;
  } catch (error) {
    if (choice === nChoices) showClips([], error.message);
    return;
  }
  if (choice !== nChoices) return; // something else was chosen in the meantime
  cosines = ranked;
  filters.order.disabled = Boolean(cosines);
  const fits = (clip) => (!filters.film.value || clip.film === filters.film.value)
    && (!filters.level.value || clip.level === filters.level.value)
    && (!filters.concept.value || clip.concepts.includes(filters.concept.value))
    && (!allowed || allowed.has(clip.id))
    && (!cosines || cosines.has(clip.id));
  const byText = (one, other) => cosines.get(other.id) - cosines.get(one.id);
  const clips = state.page.clips.filter(fits).sort(cosines ? byText : ORDERS[filters.order.value][1]);
  const order = cosines ? `, the most like “${words}” first` : "";
  showClips(clips, `${clips.length} of ${state.page.clips.length} clips${order}`);
}

function showClips(clips, message) {
  found = clips;
  nShown = 0;
  $("n-clips").textContent = message;
  $("grid").replaceChildren();
  addClips();
}

function addClips() {
  const added = found.slice(nShown, nShown + BATCH);
  $("grid").append(...added.map((clip) => el("li", {}, card(clip, cosines && similarity(cosines.get(clip.id))))));
  nShown += added.length;
  $("more").hidden = nShown >= found.length;
}

const placeText = (clip) => (clip.start !== null ? clock(clip.start) : clip.scene === null ? "" : `scene ${clip.scene}`);
const similarity = (cosine) => `similarity ${cosine.toFixed(3)} (cosine)`;

function levelMark(level) {
  const made = el("span", { className: `level ${level}`, title: levelText(level), textContent: level });
  made.style.background = state.page.levels[level]?.color ?? "";
  return level && made;
}

function card(clip, similar) {
  const blank = el("span", { className: "blank" });
  const src = `thumb/${encodeURIComponent(clip.id)}`;
  const thumbnail = el("img", { loading: "lazy", alt: "", src, onerror: () => thumbnail.replaceWith(blank) });
  const isWrong = clip.correct === false && !similar;
  return el("a", { className: "card", href: address({ clip: clip.id }) }, thumbnail,
    el("span", {},
      el("strong", {}, clip.id), `${titleOf(clip.film)} ${placeText(clip)} `, levelMark(clip.level),
      el("span", { className: "note" }, clip.concepts.join(", ")),
      el("span", { className: isWrong ? "differs" : "" }, similar ?? scoreText(clip)),
      clip.missing && el("span", { className: "note" }, `no features: ${clip.missing}`)));
}

$("filters").addEventListener("submit", (event) => {
  event.preventDefault();
  guarded(chooseClips);
});
$("filters").addEventListener("change", ({ target }) => {
  if (!["where", "text"].includes(target.name)) guarded(chooseClips);
});
$("more").onclick = () => {
  const first = nShown;
  addClips();
  $("grid").children[first].firstChild.focus();
};

// ---- a clip -----------------------------------------------------------------------------------------

export async function openClip(id, switched = {}) {
  const named = (side) => Object.keys(switched).filter((name) => switched[name] === side).join("|");
  const { page, scores, cell } = state;
  const facts = await load("clip", { clip_id: id, on: named("on"), off: named("off") });
  const clip = { ...facts, ...scores?.scores[id] };
  const level = [levelText(clip.level), clip.concepts.join(", ")].filter(Boolean).join(": ");
  $("clip-title").textContent = clip.id;
  $("clip-facts").textContent = [`${titleOf(clip.film)}, ${placeText(clip)}`, level].filter(Boolean).join("; ");
  const more = [scoreText(clip), clip.comment, clip.missing && `no features: ${clip.missing}`, ...clip.notes];
  $("clip-more").textContent = more.filter(Boolean).join("; ");
  $("clip-model").textContent = clip.score === undefined ? "" : `${page.run.cells[cell]}. ${scores.text}`;
  $("clip-watch").href = address({ film: clip.film, clip: clip.id });
  const sheet = $("sheet");
  sheet.onerror = () => (sheet.hidden = true);
  sheet.hidden = false;
  sheet.alt = `Twelve pictures of ${clip.id} in their order, with their times`;
  sheet.src = `sheet/${encodeURIComponent(clip.id)}`;
  $("maps").hidden = !clip.maps.length;
  fill($("map-sheets"), ...clip.maps.map((direction) => mapSheet(clip, direction)));
  $("why").hidden = !clip.explanation;
  if (clip.explanation) explain(clip, switched);
  $("similar").hidden = !clip.nearest?.length;
  fill($("similar-clips"), ...(clip.nearest ?? []).map(([other, cosine]) => {
    const known = page.clips.find((one) => one.id === other);
    return el("li", {}, known ? card(known, similarity(cosine)) : `${other}: ${similarity(cosine)}`);
  }));
}

// The sheet of one direction, with what it is worth; if it cannot be drawn, the reason.
function mapSheet(clip, { name: direction, about }) {
  const src = `map/${encodeURIComponent(clip.id)}?${new URLSearchParams({ direction })}`;
  const sheet = el("img", { loading: "lazy", src, alt: `The pictures of ${clip.id} with the map of ${direction}` });
  sheet.onerror = () => guarded(async () => {
    const answer = await send(src);
    sheet.replaceWith(el("p", { className: "note" }, messageOf(await answer.json())));
  });
  const title = el("h3", { title: state.page.concepts[direction] ?? "" }, direction);
  return el("section", {}, title, el("p", { className: "note" }, about), sheet);
}

function explain(clip, switched) {
  const why = clip.explanation;
  const percent = (share) => `${(100 * share).toFixed(1)} %`;
  const isSwitched = Object.values(switched).some(Boolean);
  const changed = isSwitched ? `; with the concepts as chosen below: ${percent(why.changed)}` : "";
  $("why-probability").textContent = `Probability of ${why.class}: ${percent(why.probability)}${changed}`;
  const sentences = [
    `Model ${why.model}. It starts from ${why.base.toFixed(2)}, and each concept adds to that or takes away; a sum of 0 is 50 %.`,
    why.rest !== null && `What no concept explains adds ${why.rest.toFixed(2)}.`,
    why.trained_on_it && "The model was trained on this clip: this explains the model, it does not test it.",
  ];
  $("why-model").textContent = sentences.filter(Boolean).join(" ");
  const most = Math.max(...why.concepts.map((one) => Math.abs(one.adds)), EPS);
  fill($("why-rows"), ...why.concepts.map((one) => {
    const bar = el("div", { className: one.adds < 0 ? "less" : "more" });
    bar.style.width = `${(4 * Math.abs(one.adds)) / most}rem`;
    const select = el("select", { "aria-label": `${one.name}: what if` });
    options(select, [["", "as it is"], ["off", "absent"], ["on", "present"]], switched[one.name] ?? "");
    select.disabled = Boolean(state.page.is_exported);
    select.onchange = () => guarded(() => openClip(clip.id, { ...switched, [one.name]: select.value }));
    const name = el("th", { scope: "row", title: state.page.concepts[one.name] ?? "" }, one.name);
    const cells = [one.adds.toFixed(2), bar, percent(one.off), percent(one.on), select];
    return el("tr", {}, name, ...cells.map((content) => el("td", {}, content)));
  }));
}
