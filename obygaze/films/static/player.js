// The film page: watch a film, picture by picture.
"use strict";

const video = $("video");

function pieceAt(time) {
  const piece = film.pieces[countUpTo(film.pieces, time + EPS, (one) => one.start) - 1];
  return piece && (time < piece.end + EPS || film.pieces.length === 1) ? piece : null;
}

// The number, in its file, of the picture that a piece shows; null if their times are not known.
function numberAt(piece, time) {
  const times = piece && film.times.get(piece.key);
  if (!times) return null;
  const number = countUpTo(times, time - piece.start + piece.offset + EPS) - 1;
  return Math.min(Math.max(number, 0), times.length - 2);
}

// A time at which a picture is shown: not at its ends, where players differ, and near its beginning,
// because Chromium takes a picture of a varying rate to end with its packet.
const inside = (times, number) => times[number] + Math.min((times[number + 1] - times[number]) / 2, 0.002);

// When the picture that is shown begins.
function now() {
  const piece = film.piece, number = numberAt(piece, film.at);
  return number === null ? film.at : Math.max(film.times.get(piece.key)[number] - piece.offset, 0) + piece.start;
}

// The number, in the film, of the picture that a piece shows at a time.
function frameOf(piece, time) {
  const number = numberAt(piece, time);
  return number === null ? Math.floor(time * film.rate + EPS) : piece.frame + number - numberAt(piece, piece.start);
}

// The number of the picture that is shown, in the film.
const frame = () => frameOf(film.piece, film.at);

const frameAt = (time) => frameOf(pieceAt(time), time);

async function loadTimes(piece) {
  if (exported || film.times.has(piece.key)) return;
  film.times.set(piece.key, null);
  const own = film, answer = await send(`times/${piece.key}`).catch(() => null);
  if (answer?.ok) {
    const [origin, ...times] = new Float64Array(await answer.arrayBuffer());
    own.times.set(piece.key, times);
    own.origins.set(piece.key, origin); // the time in the file at which the others are 0
  }
  if (own === film && answer?.ok) {
    makeLanes();
    if (video.paused) seek(film.at);
  }
}

function seek(time) {
  film.at = Math.min(Math.max(time, 0), film.end - EPS);
  const piece = pieceAt(film.at);
  show(piece);
  if (piece) {
    const number = numberAt(piece, film.at), times = film.times.get(piece.key);
    const local = number === null ? film.at - piece.start + piece.offset : inside(times, number);
    film.at = local - piece.offset + piece.start;
    film.wanted = { number, tries: number === null ? [] : [(times[number] + times[number + 1]) / 2, times[number + 1] - 0.002] };
    if (!piece.refused) turnTo(local);
    if (piece.refused && number !== null) $("still").src = `still/${piece.key}?picture=${number}`;
  }
  const left = film.at * film.scale - $("scroll").scrollLeft, width = $("scroll").clientWidth;
  if (!drag && (left < 0 || left > width)) $("scroll").scrollLeft += left - width / 3;
  tick();
}

const originOf = (piece) => film.origins.get(piece.key) ?? 0;

function turnTo(local) {
  film.wanted.local = local;
  if (!video.readyState) return; // it turns there once it is loaded
  video.currentTime = local + originOf(film.piece);
  video.requestVideoFrameCallback?.(check);
}

// Whether the browser shows the picture that was asked for. It estimates how long pictures are shown,
// so that with a varying rate another time within the picture may be needed.
function check(_, { mediaTime }) {
  const times = film?.times.get(film.piece?.key), { number, tries } = film?.wanted ?? {};
  if (!times || number === null || !video.paused || video.hidden) return;
  const seen = countUpTo(times, mediaTime - originOf(film.piece) + 0.0006) - 1;
  if (seen === number) return;
  if (tries.length) turnTo(tries.shift());
  else tell(t`Your browser shows picture ${seen} of this video in place of picture ${number}.`);
}

// ---- which picture is on the screen -------------------------------------------------------------

// What the browser says it presents: the piece, and the time in its file. `timeupdate` may be up to
// 250 ms old, and the video's own time is that of its clock, not that of the picture.
let presented = null;
let isHeld = false; // the page itself stopped the video, at a picture that it knows

const knowsPictures = "requestVideoFrameCallback" in HTMLVideoElement.prototype;

function watchPictures(_, { mediaTime }) {
  const piece = film?.piece;
  if (piece && !video.hidden) {
    presented = { piece, local: mediaTime - originOf(piece) };
    if (!video.paused && !video.seeking) {
      film.at = timeOfPresented();
      if (!isLooped(now())) noteWatched(frame());
      showTime();
    }
  }
  video.requestVideoFrameCallback(watchPictures);
}

// The time on the axis of the picture that is presented. Its time in the file is rounded by browsers.
function timeOfPresented() {
  const { piece, local } = presented, times = film.times.get(piece.key);
  if (!times) return local - piece.offset + piece.start;
  const number = Math.min(Math.max(countUpTo(times, local + 0.0006) - 1, 0), times.length - 2);
  return inside(times, number) - piece.offset + piece.start;
}

// After two rendering steps the browser has reported the last picture that it brought to the screen.
// In a hidden window there are none.
const reported = () => new Promise((done) => {
  requestAnimationFrame(() => requestAnimationFrame(done));
  setTimeout(done, 200);
});

// Stop at the picture that is on the screen, and make the browser show just that one.
async function hold() {
  if (video.paused || video.hidden || !film?.piece) return;
  const held = film;
  isHeld = true;
  video.pause();
  await reported();
  if (film !== held || !film.piece) return;
  if (presented?.piece === film.piece) film.at = timeOfPresented();
  else followClock();
  seek(film.at);
}

function followClock() {
  film.at = video.currentTime - originOf(film.piece) - film.piece.offset + film.piece.start;
}

// ---- the pieces of a film -----------------------------------------------------------------------

// Show a piece: its video, or why there is none.
function show(piece) {
  if (piece === film.piece) return;
  film.piece = piece;
  const plays = piece && !piece.refused, source = plays ? `media/${piece.key}` : "";
  video.hidden = !plays;
  showPlayer();
  $("still").hidden = !piece?.refused;
  $("refused").textContent = plays ? "" : exported ? t`This page was exported without videos.`
    : !piece ? t`There is no video for this part of the film.`
    : t`Browsers do not play this video (${piece.refused}), so single pictures are shown. obygaze view --proxy makes a copy that plays.`;
  if (piece) loadTimes(piece);
  if (piece) guarded(() => loadSound(piece));
  if ((video.getAttribute("src") ?? "") === source) return;
  video.replaceChildren();
  if (!source) return video.removeAttribute("src");
  video.src = source;
  const track = { kind: "subtitles", label: t`Subtitles`, src: `subtitles/${piece.key}` };
  if (piece.subtitles) video.append(el("track", track));
}

function showTime() {
  $("time").textContent = clock(now(), 3);
  $("picture").textContent = film.rate ? t`picture ${frame()}` : "";
  showPosition();
  if (film.lanes) showNow();
}

// Write what is at this time, in words.
function tick() {
  showTime();
  showNote();
  const lanes = film.lanes.filter((lane) => lane.kind !== "concept"); // clips and segments name them
  const lines = lanes.flatMap((lane) => barsAt(lane, now() + EPS).map((bar) => [lane, bar, describe(lane, bar)]));
  fill($("here"), ...lines.map(([lane, bar, text]) =>
    el("li", {}, bar.id && lane.kind === "level" ? el("a", { href: address({ clip: bar.id }) }, text) : text)));
}

// Follow the video while it plays, and go on with the next one.
function follow() {
  const piece = film?.piece;
  if (!piece || video.hidden || video.seeking) return;
  // At the end of a piece the clock is ahead of the picture.
  const clockTime = video.currentTime - originOf(piece) - piece.offset + piece.start;
  if (!video.paused && presented?.piece !== piece) followClock();
  if (isLooped(clockTime)) return;
  const next = film.pieces[film.pieces.indexOf(piece) + 1];
  if (next && (video.ended || clockTime >= piece.end - EPS)) {
    film.plays = true;
    return seek(next.start + EPS);
  }
  if (film.at * film.scale - $("scroll").scrollLeft > $("scroll").clientWidth) $("scroll").scrollLeft = film.at * film.scale;
  tick();
}

for (const name of ["timeupdate", "ended"]) video.addEventListener(name, follow);
if (knowsPictures) video.requestVideoFrameCallback(watchPictures);
video.addEventListener("play", () => (isHeld = false));
// The person stopped it with the video's own controls: the number shown must be that of the picture.
video.addEventListener("pause", () => {
  if (isHeld || video.ended || video.seeking || !film?.piece || video.hidden) return;
  if (presented?.piece === film.piece) film.at = timeOfPresented();
  seek(film.at);
});
video.addEventListener("loadedmetadata", () => {
  turnTo(film.wanted.local);
  if (film.plays) video.play();
  film.plays = false;
});
video.addEventListener("error", () => {
  if (!film?.piece || !video.getAttribute("src")) return;
  film.piece.refused = video.error?.message || t`it cannot be read`;
  film.piece = null;
  seek(film.at);
});

// Whether the film was opened: another one may have been chosen while it was loading.
let nOpened = 0;
async function openFilm(id, time) {
  const opened = ++nOpened;
  if (film?.id !== id) {
    const made = await load("film", { film: id });
    if (opened !== nOpened) return false;
    presented = null;
    film = { ...made, times: new Map(), origins: new Map(), sounds: new Map(), at: time };
    video.removeAttribute("src");
    nextStart = undefined; // it is a picture of the film before
    setLoop(null);
    newMark();
    forgetCitation();
  }
  const { run, blind } = page;
  const isScored = run && model;
  $("film-title").textContent = film.title;
  // What the run and the program say of it is English.
  const english = (text) => text && el("span", { lang: "en" }, text);
  const notes = [
    t`${page.dataset}. The time line counts ${lookUp(film.axis)}.`,
    page.annotator && film.axis.startsWith("clips") && t`Your marks get the numbers of pictures in this row: those of the film only if the clips are all of it.`,
    isScored && t`Scores: ${run.cells[cell]}, run ${run.name}; each clip is scored by models that were not trained on it.`,
    isScored && model.leaked && t`But ${model.leaked} clips of this test were used in training: these scores are too good.`,
    isScored && english(model.text),
    isScored && t`A score is the ${lookUp(model.unit)}; at ${cutOff()}, the line in its lane, the decision changes.`,
    blind && (page.queue ? t`Predictions and what others marked are hidden; some clips of the queue have a suggestion.`
      : t`Blind: predictions and what others marked are hidden.`), ...film.notes.map(english)];
  fill($("film-notes"), ...notes.filter(Boolean).flatMap((note) => [note, " "]));
  $("next-error").hidden = !isScored;
  $("cite").hidden = Boolean(exported); // it has no pictures
  showMarking();
  openDraft();
  prepareSearch();
  listNotes();
  makeLanes();
  seek(time);
  showPlayer();
  return true;
}
