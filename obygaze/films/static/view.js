// The film page: which part of it is shown, and its start.
"use strict";

async function route() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const isQueue = asked.has("queue");
  judgeForm.hidden = !isQueue;
  if (isQueue) for (const [key, value] of Object.entries(await placeInQueue())) asked.set(key, value);
  const name = ["film", "clip", "vocabulary"].find((one) => asked.has(one)) ?? "clips";
  const isLeft = film && name === "film" && asked.get("film") !== film.id;
  if (isLeft && isUnsaved && !isDraftKept) {
    const isKept = await sendDraft().then(() => true, () => false);
    if (!isKept && !confirm(t`Your mark is not saved, and no draft of it is kept. Leave it?`)) return history.back();
  }
  if (name !== "film") video.pause();
  for (const id of ["clips", "film", "clip", "vocabulary"]) $(id).hidden = id !== name;
  $("film-choice").value = asked.get("film") ?? "";
  if (name === "clips" && filtersFrom(asked)) await chooseClips();
  if (name === "clips") showTables();
  if (name === "film") {
    if (!(await openFilm(asked.get("film"), Number(asked.get("t")) || 0))) return;
    if (asked.has("picture") && !asked.has("t") && film.rate) seek(Number(asked.get("picture")) / film.rate + EPS);
    const span = film.spans[asked.get("clip")];
    if (span) seek(span[0] + EPS);
  } else if (name === "clip") await openClip(asked.get("clip"));
  else if (name === "vocabulary") showVocabulary();
  document.title = `${$(`${name}-title`).textContent} - obygaze`;
  $("main").focus({ preventScroll: true });
  if (name !== "film") scrollTo(0, 0);
}

// The value at which the decision changes.
const cutOff = () => ((model.scale[0] + model.scale[1]) / 2).toFixed(1);

// Show the scores of one model, or of none.
async function chooseModel(number) {
  const chosen = number === null ? null : await load("scores", { cell: number });
  cell = number;
  model = chosen;
  if (model) model.decidesAlike = new Set(Object.values(model.scores).map((one) => one.positive)).size === 1;
  const empty = { score: undefined, low: undefined, high: undefined, fits: undefined, positive: undefined, correct: undefined };
  for (const clip of page.clips) Object.assign(clip, empty, model?.scores[clip.id]);
}

async function readPage() {
  const { run, blind, annotator } = page;
  $("clips-title").textContent = page.title;
  $("about").textContent = [page.dataset, run && (model ? t`scores of ${run.cells[cell]} (run ${run.name}), of models that were not trained on the clip`
    : t`run ${run.name}: choose above whose scores are shown`),
    annotator && t`you annotate as ${annotator}`, blind && t`blind: predictions and what others marked are hidden`,
    exported && t`exported, without videos`].filter(Boolean).join("; ");
  options($("film-choice"), [["", t`choose ...`], ...page.films.map((one) => [one.id, one.title])]);
  $("model-text").hidden = !model;
  $("model-text").textContent = model?.text ?? "";
  $("cell-label").hidden = !run;
  options($("cell-choice"), [["", t`no model`], ...(run?.cells ?? []).map((text, number) => [number, text])], cell ?? "");
  fill($("levels"), ...Object.keys(page.levels).flatMap((level) => [levelMark(level), ` ${levelName(level)} `]));
  prepareFilters();
  showSearches();
  await chooseClips();
}

const chooseAnew = () => guarded(async () => (filtersToAddress(), await chooseClips()));
$("filters").addEventListener("submit", (event) => (event.preventDefault(), chooseAnew()));
$("filters").addEventListener("change", (event) => !["where", "text"].includes(event.target.name) && chooseAnew());
$("more").onclick = () => {
  const first = shown;
  addClips();
  $("grid").children[first].firstChild.focus();
};
$("film-choice").onchange = (event) => event.target.value && (location.hash = address({ film: event.target.value }));
$("cell-choice").onchange = (event) => guarded(async () => {
  await chooseModel(event.target.value === "" ? null : Number(event.target.value));
  await readPage();
  await route();
});
$("concept-source").onchange = () => makeLanes();
$("skip").onclick = (event) => (event.preventDefault(), $("main").focus());
$("scroll").addEventListener("scroll", drawSoon, { passive: true });
$("canvas").onclick = (event) => {
  if (wasDragged) return;
  const time = (event.offsetX + $("scroll").scrollLeft) / film.scale;
  const lane = film.lanes.find((one) => event.offsetY >= one.y && event.offsetY < one.y + one.height);
  const bar = lane && barsAt(lane, time).at(-1);
  seek(time);
  if (bar) edit(bar), tell(describe(lane, bar));
};
document.querySelectorAll("[data-key]").forEach((button) => (button.onclick = () => press(button.dataset.key)));
addEventListener("resize", fitLanes);
addEventListener("hashchange", () => guarded(route));
// The token is in a cookie by now, and must not stay in the address.
if (location.search) history.replaceState(null, "", location.pathname + location.hash);
guarded(async () => {
  readColors();
  page = await load("overview");
  $("to-queue").hidden = !page.queue;
  if (page.queue && !location.hash) history.replaceState(null, "", address({ queue: "" }));
  $("to-vocabulary").hidden = !page.annotator && !page.vocabulary.terms.length;
  readChanges();
  await chooseModel(page.run?.named ?? null);
  await readPage();
  await route();
  await inTurn(settleChange);
});
