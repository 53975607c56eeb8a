// The page of a film: which part of it is shown, and its start.
//
//   keys.js, clicks            the document in the page (site.py)
//          |                            |
//          | what to do                 | positions in seconds
//          v                            v
//      player.js                     main.js
//          |                            |
//          v                            v
//   state.js: one object, each part written by one module, and `changed(part)`
//          |                            |
//          | read, and draw anew        |
//          v                            v
//   timeline.js  clips.js  -------->  the elements of page.html, by page.css
import { chooseClips, openClip, prepareFilters } from "./clips.js";
import { focusFilm } from "./keys.js";
import { now, openVideos, pause, picture, seek } from "./player.js";
import { changed, on, state } from "./state.js";
import { $, EPS, address, clock, el, fill, guarded, options } from "./tools.js";

const given = JSON.parse($("document").textContent);

function route() {
  const asked = new URLSearchParams(location.hash.replace(/^#\/?/, ""));
  const name = ["clips", "clip"].find((one) => asked.has(one)) ?? "film";
  if (name !== "film") pause();
  for (const id of ["clips", "film", "clip"]) $(id).hidden = id !== name;
  document.body.className = `shows-${name}`;
  if (name === "film") showFilm(asked);
  if (name === "clip") openClip(asked.get("clip"));
  document.title = `${$(`${name}-title`).textContent} - obygaze`;
  focusFilm();
  if (name !== "film") scrollTo(0, 0);
}

function showFilm(asked) {
  fill($("film-notes"), ...notes().flatMap((note) => [note, " "]));
  changed("film");
  const span = state.film.spans[asked.get("at")];
  seek(span ? span[0] + EPS : Number(asked.get("t")) || state.at);
}

function sourceOfScores() {
  const { name, models } = state.page.scored_by;
  return `scores of ${state.scores.name} (${name}), of ${models}`;
}

// What a reader has to know of the film and the scores.
function notes() {
  const { page, film, scores } = state;
  const ofScores = scores && [
    `These are ${sourceOfScores()}.`,
    scores.leaked && `But ${scores.leaked} of the clips with such scores, of all films, were used in training: their scores are too good.`,
    `A score is the ${scores.unit}; at ${((scores.scale[0] + scores.scale[1]) / 2).toFixed(1)}, the line in its row, the decision changes.`,
  ];
  return [`${page.dataset}. The time line counts ${film.counts}.`, ...(ofScores || [])].filter(Boolean);
}

// Show the scores of one model, or of none.
function chooseModel(number) {
  const { page } = state;
  const scores = number === null ? null : given.scores[number];
  Object.assign(state, { cell: number, scores });
  const none = { score: undefined, low: undefined, high: undefined, fits: undefined, positive: undefined, correct: undefined, basis: undefined };
  for (const clip of page.clips) Object.assign(clip, none, scores?.scores[clip.id], { of: scores });
  showPage();
}

function showPage() {
  const { page, film, scores, cell } = state;
  const { scored_by: scoredBy, concepts, pages } = page;
  $("clips-title").textContent = $("film-title").textContent = film.title;
  const ofScores = scoredBy && (scores ? sourceOfScores() : `${scoredBy.name}: choose above whose scores are shown`);
  const facts = [page.title, page.dataset, page.view && `levels and concepts in the ${page.view} view`, ofScores];
  $("changed").hidden = !page.changed;
  $("changed").textContent = page.changed;
  $("about").textContent = facts.filter(Boolean).join("; ");
  $("film-label").hidden = pages.length < 2;
  options($("film-choice"), pages.map((one) => [one.address, one.title]), page.address);
  for (const id of ["model-text", "sentence"]) $(id).textContent = scores?.text ?? "";
  $("cell-label").hidden = !scoredBy;
  options($("cell-choice"), [["", "no model"], ...state.models.map((one, number) => [number, one.name])], cell ?? "");
  $("of-scores").hidden = !scoredBy;
  $("no-concepts").hidden = Object.keys(concepts).length > 0;
  $("not-shown").textContent = film.notes.map((note) => `${note}.`).join(" ");
  fill($("definitions"), ...Object.entries(concepts).flatMap(([name, meaning]) => [el("dt", {}, name), el("dd", {}, meaning || "no definition")]));
  prepareFilters();
  chooseClips();
}

function showTime() {
  const { film } = state;
  $("time").textContent = clock(now(), 3);
  $("picture").textContent = picture() === null ? "" : `picture ${picture()}`;
  const position = $("position");
  position.max = film.end_s;
  position.value = now();
  position.setAttribute("aria-valuetext", `${clock(now())} of ${clock(film.end_s)}`);
}

on("time", showTime);
$("film-choice").onchange = ({ target }) => (location.href = target.value);
$("cell-choice").onchange = ({ target }) => {
  chooseModel(target.value === "" ? null : Number(target.value));
  route();
  target.focus();
};
$("skip").onclick = (event) => {
  event.preventDefault();
  $("main").focus();
};
for (const link of document.querySelectorAll("[data-part]")) link.href = address({ [link.dataset.part]: "" });
addEventListener("hashchange", () => guarded(route));
guarded(() => {
  state.page = given.page;
  state.film = given.film;
  state.models = given.scores;
  openVideos();
  chooseModel(state.page.scored_by?.named ?? null);
  route();
});
