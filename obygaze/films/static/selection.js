// The film page: the filters in the address, saved searches, tables and statistics of what is shown.
"use strict";

// The filters by their names in the address, where "film" opens a film.
const FILTERS = { of: "film", level: "level", concept: "concept", order: "order", where: "where", text: "text" };
const SEARCHES = "obygaze searches of "; // how the browser keeps them, for each manifest

function filtersChosen() {
  const facts = {};
  for (const [key, name] of Object.entries(FILTERS)) {
    const value = $("filters").elements[name].value.trim();
    if (value && !(key === "order" && value === "film")) facts[key] = value;
  }
  return facts;
}

// Take the filters from the address; whether they have changed.
function filtersFrom(asked) {
  let isChanged = false;
  for (const [key, name] of Object.entries(FILTERS)) {
    const field = $("filters").elements[name], before = field.value;
    field.value = asked.get(key) ?? (name === "order" ? "film" : "");
    if (field.tagName === "SELECT" && field.selectedIndex < 0) field.selectedIndex = 0;
    if (field.value !== before) isChanged = true;
  }
  return isChanged;
}

function filtersToAddress() {
  if ($("clips").hidden) return;
  history.replaceState(null, "", location.pathname + address(filtersChosen()));
  showTables();
}

// Links to the chosen clips as tables.
function showTables() {
  const facts = filtersChosen();
  delete facts.order;
  if (model) facts.cell = cell;
  for (const kind of ["csv", "xlsx"]) {
    $(`table-${kind}`).href = `table/${kind}?${new URLSearchParams(facts)}`;
    $(`table-${kind}`).hidden = Boolean(exported);
  }
}

function searchesKept() {
  try {
    return JSON.parse(localStorage.getItem(SEARCHES + page.title)) ?? {};
  } catch {
    return {}; // the browser keeps nothing, or somebody changed it
  }
}

function showSearches() {
  const searches = searchesKept();
  fill($("searches"), ...Object.entries(searches).map(([name, place]) => {
    const forget = el("button", { type: "button", textContent: t`Forget`, "aria-label": t`Forget the search ${name}` });
    forget.onclick = () => {
      keepSearches(Object.fromEntries(Object.entries(searches).filter(([other]) => other !== name)));
      ($("searches").querySelector("button") ?? $("keep").elements.name).focus();
    };
    return el("li", {}, el("a", { href: place, textContent: name }), " ", forget);
  }));
}

function keepSearches(searches) {
  try {
    localStorage.setItem(SEARCHES + page.title, JSON.stringify(searches));
  } catch (error) {
    tell(t`This browser does not keep searches: ${error.message}`);
  }
  showSearches();
}

$("keep").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = $("keep").elements.name.value.trim();
  if (!name) return tell(t`Give the search a name.`);
  keepSearches({ ...searchesKept(), [name]: address(filtersChosen()) });
  $("keep").elements.name.value = "";
});

// ---- statistics ---------------------------------------------------------------------------------

const percent = (share) => `${(100 * share).toFixed(1)} %`;
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

function tableOf(headers, rows) {
  const head = el("tr", {}, ...headers.map((text) => el("th", { scope: "col", textContent: text })));
  const lines = rows.map(([name, ...cells]) => el("tr", {}, el("th", { scope: "row", textContent: name }),
    ...cells.map((text) => el("td", { textContent: text }))));
  return el("table", {}, el("thead", {}, head), el("tbody", {}, ...lines));
}

// Of the clips that are chosen: how many have which level and concept.
function showClipStatistics() {
  if (!$("clip-statistics").open) return;
  const rows = [], add = (name, clips) => clips.length && rows.push([name, clips.length, percent(clips.length / found.length)]);
  for (const level of Object.keys(page.levels)) add(levelText(level), found.filter((clip) => clip.level === level));
  add(t`without a level`, found.filter((clip) => !clip.level));
  for (const name of Object.keys(page.concepts)) add(name, found.filter((clip) => clip.concepts.includes(name)));
  const scores = found.filter((clip) => clip.score !== undefined).map((clip) => clip.score);
  const films = new Set(found.map((clip) => clip.film)).size;
  const ofFilms = films === 1 ? t`${found.length} clips of 1 film` : t`${found.length} clips of ${films} films`;
  const parts = [ofFilms, scores.length && t`mean score ${mean(scores).toFixed(3)} of ${scores.length} clips`];
  fill($("clip-statistics-text"), el("p", {}, parts.filter(Boolean).join("; ")), tableOf([t`level or concept`, t`clips`, t`share`], rows));
}

// The seconds that bars cover between two times; where they overlap, once.
function secondsCovered(bars, from, to) {
  let sum = 0, end = from;
  for (const bar of bars) {
    const start = Math.max(bar.start, end), stop = Math.min(bar.end, to);
    if (stop > start) [sum, end] = [sum + stop - start, stop];
  }
  return sum;
}

// The mean of numbers by time, and the least and largest one.
function meanByTime(bars, from, to) {
  let sum = 0, seconds = 0;
  for (const bar of bars) {
    const length = Math.min(bar.end, to) - Math.max(bar.start, from);
    [sum, seconds] = [sum + length * bar.value, seconds + length];
  }
  const values = bars.map((bar) => bar.value);
  return t`mean ${short(sum / seconds)}, ${short(Math.min(...values))} to ${short(Math.max(...values))}`;
}

let counted = {}; // the lanes and the times of the statistics that are shown

// Of the part of the time line that is visible.
function showFilmStatistics() {
  if (!$("film-statistics").open || !film?.lanes) return;
  const from = $("scroll").scrollLeft / film.scale, to = Math.min(from + $("scroll").clientWidth / film.scale, film.end);
  // While the film plays, the time line is drawn at each picture.
  if (counted.lanes === film.lanes && counted.from === from && counted.to === to) return;
  counted = { lanes: film.lanes, from, to };
  const rows = [];
  for (const lane of film.lanes) {
    const bars = lane.bars.filter((bar) => bar.end > from && bar.start < to);
    const add = (text, chosen, more = "") => {
      const seconds = secondsCovered(chosen, from, to);
      if (chosen.length) rows.push([lane.label, text, chosen.length, seconds.toFixed(1), percent(seconds / (to - from)), more]);
    };
    if (lane.kind === "level") for (const level of [...Object.keys(page.levels), ""]) add(level || t`no level`, bars.filter((bar) => bar.level === level));
    else if (lane.kind === "numbers") add("", bars, bars.length ? meanByTime(bars, from, to) : "");
    else if (lane.kind === "score") add("", bars, bars.length ? t`mean ${mean(bars.map((bar) => bar.score)).toFixed(3)}` : "");
    else if (lane.kind !== "sound") add("", bars);
  }
  fill($("film-statistics-text"), el("p", {}, t`From ${clock(from, 1)} to ${clock(to, 1)}, ${(to - from).toFixed(1)} seconds.`),
    tableOf([t`lane`, t`level`, t`pieces`, t`seconds`, t`share of the time`, t`values`], rows));
}

$("clip-statistics").addEventListener("toggle", showClipStatistics);
$("film-statistics").addEventListener("toggle", showFilmStatistics);
