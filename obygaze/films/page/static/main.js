// The film page: which part of it is shown, and its start.
//
//        keys.js, clicks                      the server (routes.py, site.py)
//              |                                 ^                |
//              | what to do                      | changes        | documents with finished
//              v                                 |                v positions in seconds
//   player.js  marks.js  watched.js  <------- tools.js: load, post, send
//       |          |          |
//       | write    |          |
//       v          v          v
//   state.js: one object, each part written by one module, and `changed(part)`
//       |          |          |
//       | read, and draw anew |
//       v          v          v
//   timeline.js  form.js  clips.js  -------->  the elements of index.html, by page.css
//
// player.js also says which pictures the browser presents; watched.js counts them.
import { chooseClips, openClip, prepareFilters } from "./clips.js";
import { focusFilm } from "./keys.js";
import { inTurn, openMarks, takeTurn } from "./marks.js";
import { openVideos, pause, seek } from "./player.js";
import { changed, state } from "./state.js";
import { $, EPS, address, el, fill, guarded, load, options } from "./tools.js";
import "./form.js";
import "./watched.js";

let nOpened = 0;

async function route() {
  const asked = new URLSearchParams(location.hash.replace(/^#\/?/, ""));
  const name = ["film", "clip"].find((one) => asked.has(one)) ?? "clips";
  if (name !== "film") pause();
  for (const id of ["clips", "film", "clip"]) $(id).hidden = id !== name;
  document.body.className = `shows-${name}`;
  $("film-choice").value = asked.get("film") ?? "";
  if (name === "film" && !(await openFilm(asked))) return;
  if (name === "clip") await openClip(asked.get("clip"));
  document.title = `${$(`${name}-title`).textContent} - obygaze`;
  focusFilm();
  if (name !== "film") scrollTo(0, 0);
}

// Whether the film was opened: another one may have been chosen while it was loading.
async function openFilm(asked) {
  const opened = ++nOpened;
  const id = asked.get("film");
  if (state.film?.id !== id) {
    const film = await load("film", { film: id });
    // What was done in the film before is finished in it.
    await inTurn(async () => {
      if (opened !== nOpened) return;
      // The window that came last marks.
      if (film.can_mark && state.turn === null) await takeTurn();
      openMarks(film);
      state.film = film;
      openVideos();
      state.at = 0;
    });
    if (opened !== nOpened) return false;
  }
  $("film-title").textContent = state.film.title;
  fill($("film-notes"), ...notes().flatMap((note) => [note, " "]));
  changed("film");
  const span = state.film.spans[asked.get("clip")];
  seek(span ? span[0] + EPS : Number(asked.get("t")) || state.at);
  return true;
}

function sourceOfScores() {
  const { cells, name, models } = state.page.scored_by;
  return `scores of ${cells[state.cell]} (${name}), of ${models}`;
}

// What a reader has to know of the film and the scores.
function notes() {
  const { page, film, scores } = state;
  const { blind } = page;
  const ofScores = scores && [
    `These are ${sourceOfScores()}.`,
    scores.leaked && `But ${scores.leaked} of these clips were used in training: these scores are too good.`,
    scores.text,
    `A score is the ${scores.unit}; at ${((scores.scale[0] + scores.scale[1]) / 2).toFixed(1)}, the line in its row, the decision changes.`,
  ];
  return [
    `${page.dataset}. The time line counts ${film.counts}.`,
    ...(ofScores || []),
    blind && "Blind: predictions and what others marked are hidden.",
  ].filter(Boolean);
}

// Show the scores of one model, or of none.
async function chooseModel(number) {
  const { page } = state;
  const scores = number === null ? null : await load("scores", { cell: number });
  if (scores) scores.decidesAlike = new Set(Object.values(scores.scores).map((one) => one.positive)).size === 1;
  Object.assign(state, { cell: number, scores });
  const none = { score: undefined, low: undefined, high: undefined, fits: undefined, positive: undefined, correct: undefined, basis: undefined };
  for (const clip of page.clips) Object.assign(clip, none, scores?.scores[clip.id]);
  showPage();
}

function showPage() {
  const { page, scores, cell } = state;
  const { scored_by: scoredBy, blind, annotator, concepts } = page;
  $("clips-title").textContent = page.title;
  const ofScores = scoredBy && (scores ? sourceOfScores() : `${scoredBy.name}: choose above whose scores are shown`);
  const facts = [page.dataset, ofScores, annotator && `you annotate as ${annotator}`, blind && "blind: predictions and what others marked are hidden"];
  facts.splice(1, 0, page.view && `levels and concepts in the ${page.view} view`);
  $("changed").hidden = !page.changed;
  $("changed").textContent = page.changed;
  $("about").textContent = facts.filter(Boolean).join("; ");
  options($("film-choice"), [["", "choose ..."], ...page.films.map((film) => [film.id, film.title])]);
  $("model-text").textContent = scores?.text ?? "";
  $("cell-label").hidden = !scoredBy;
  options($("cell-choice"), [["", "no model"], ...(scoredBy?.cells ?? []).map((text, number) => [number, text])], cell ?? "");
  $("vocabulary-problem").textContent = page.problem;
  $("vocabulary-file").textContent = page.vocabulary;
  $("marks-file").textContent = page.marks ?? "";
  $("seen-percent").textContent = page.seen_percent;
  $("of-marks").hidden = !annotator;
  $("of-scores").hidden = !scoredBy;
  $("no-concepts").hidden = Object.keys(concepts).length > 0;
  fill($("definitions"), ...Object.entries(concepts).flatMap(([name, meaning]) => [el("dt", {}, name), el("dd", {}, meaning || "no definition")]));
  prepareFilters();
  chooseClips();
}

$("film-choice").onchange = ({ target }) => target.value && (location.hash = address({ film: target.value }));
$("cell-choice").onchange = ({ target }) => guarded(async () => {
  await chooseModel(target.value === "" ? null : Number(target.value));
  if (state.film) changed("film");
  await route();
  target.focus();
});
$("skip").onclick = (event) => {
  event.preventDefault();
  $("main").focus();
};
addEventListener("hashchange", () => guarded(route));
// The token is in a cookie by now, and must not stay in the address.
if (location.search) history.replaceState(null, "", location.pathname + location.hash);
guarded(async () => {
  state.page = await load("overview");
  await chooseModel(state.page.scored_by?.named ?? null);
  await route();
});
