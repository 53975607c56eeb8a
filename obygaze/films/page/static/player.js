// The video: which picture is on the screen, and how to get to another one.
import { changed, state } from "./state.js";
import { $, EPS, countUpTo, guarded, hasPictures, send, tell } from "./tools.js";

const video = $("video");
const SPEEDS = [0.1, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4];
const ROUNDING_S = 0.0006; // browsers round the times of pictures
const NO_VIDEO = hasPictures ? "There is no video for this part of the film." : "This copy of the page has no videos and no pictures.";

let timesOf = new Map(); // when the pictures of a video are shown, and the end of the last one, by key
let originOf = new Map(); // the time in the file at which these times are 0, by key
// What the browser says it presents: the piece, and the time in its file. The video's own time is
// that of its clock, not that of the picture.
let presented = null;
let wanted = null; // the picture that was asked for, and other times at which it should be shown
let isHeld = false; // the page itself stopped the video, at a picture that it knows
let isPlaying = false; // until somebody stops it: at its end a video is paused, too
let playsNext = false; // play as soon as the next video is loaded

// ---- times and numbers of pictures ------------------------------------------------------------------

function pieceAt(time) {
  const { pieces } = state.film;
  const piece = pieces[countUpTo(pieces, time + EPS, (one) => one.start_s) - 1];
  const isInside = piece && (time < piece.end_s + EPS || pieces.length === 1);
  return isInside ? piece : null;
}

const localTime = (piece, time) => time - piece.start_s + piece.offset_s;
const filmTime = (piece, local) => local - piece.offset_s + piece.start_s;

// The number, in its file, of the picture that is shown at a time of the file.
function numberAt(times, local) {
  const number = countUpTo(times, local) - 1;
  return Math.min(Math.max(number, 0), times.length - 2);
}

// A time at which a picture is shown: not at its ends, where players differ, and near its beginning,
// because Chromium takes a picture of a varying rate to end with its packet.
const inside = (times, number) => times[number] + Math.min((times[number + 1] - times[number]) / 2, 0.002);

// The number of the picture at a time; null where there is no file of the whole film, or its pictures
// are not known yet.
export function pictureAt(time) {
  const times = timesOf.get(pieceAt(time)?.key);
  return times && state.film.n_pictures ? numberAt(times, time + EPS) : null;
}

export const picture = () => pictureAt(state.at);

// When a picture of the film begins; after the last one, when it ends.
export const startOf = (number) => Math.max(timesOf.get(state.film.pieces[0].key)[number], 0);

// When the picture that is shown begins.
export function now() {
  const times = state.piece && timesOf.get(state.piece.key);
  if (!times) return state.at;
  const number = numberAt(times, localTime(state.piece, state.at) + EPS);
  return Math.max(filmTime(state.piece, times[number]), 0);
}

async function loadTimes(piece) {
  if (timesOf.has(piece.key)) return;
  timesOf.set(piece.key, null);
  const { film } = state;
  const answer = await send(`times/${piece.key}`);
  if (!answer.ok) return;
  const [origin, ...times] = new Float64Array(await answer.arrayBuffer());
  if (film !== state.film) return;
  originOf.set(piece.key, origin);
  timesOf.set(piece.key, times);
  if (video.paused) seek(state.at);
}

// Whether the numbers of the pictures on the screen are known.
export const knowsPictures = () => Boolean(state.piece && timesOf.get(state.piece.key));

// ---- seek ---------------------------------------------------------------------------------------

export function openVideos() {
  timesOf = new Map();
  originOf = new Map();
  presented = null;
  state.piece = undefined; // also that there is no piece is to be shown
  $("watch").classList.toggle("bare", !state.film.pieces.length);
  video.removeAttribute("src");
}

export function seek(time, isStep = false) {
  state.at = Math.min(Math.max(time, 0), state.film.end_s - EPS);
  const piece = pieceAt(state.at);
  isPlaying = !video.paused;
  show(piece);
  changed("seek");
  const times = piece && timesOf.get(piece.key);
  if (piece) {
    let local = localTime(piece, state.at);
    wanted = { number: null, tries: [], isStep };
    if (times) {
      const number = numberAt(times, local + EPS);
      local = inside(times, number);
      state.at = filmTime(piece, local);
      const tries = [(times[number] + times[number + 1]) / 2, times[number + 1] - 0.002];
      wanted = { number, tries, isStep };
    }
    if (!piece.refused) turnTo(local);
  }
  changed("time");
}

function turnTo(local) {
  wanted.local = local;
  if (!video.readyState) return; // it turns there once it is loaded
  video.currentTime = local + (originOf.get(state.piece.key) ?? 0);
  video.requestVideoFrameCallback(check);
}

// Whether the browser shows the picture that was asked for. It estimates how long pictures are shown,
// so that with a varying rate another time within the picture may be needed.
function check(_, { mediaTime }) {
  const times = state.piece && timesOf.get(state.piece.key);
  if (!times || wanted.number === null || !video.paused || video.hidden) return;
  const seen = numberAt(times, mediaTime - originOf.get(state.piece.key) + ROUNDING_S);
  if (seen === wanted.number) return;
  if (wanted.tries.length) turnTo(wanted.tries.shift());
  else tell(`Your browser shows picture ${seen} of this video in place of picture ${wanted.number}.`);
}

// Go to the picture that is so many pictures further.
export function step(pictures) {
  const { piece, film } = state;
  const times = piece && timesOf.get(piece.key);
  if (!times) return seek(state.at + pictures / 25);
  const number = numberAt(times, localTime(piece, state.at) + EPS) + pictures;
  const time = number in times ? filmTime(piece, inside(times, number)) : NaN;
  if (time > piece.start_s && time < piece.end_s) return seek(time, true);
  const next = film.pieces[film.pieces.indexOf(piece) + pictures];
  if (next) seek(pictures > 0 ? next.start_s + EPS : next.end_s - 2 * EPS, true);
}

// ---- which picture is on the screen ---------------------------------------------------------------

function watchPictures(_, { mediaTime }) {
  const { piece } = state;
  if (piece && !video.hidden) {
    presented = { piece, local: mediaTime - (originOf.get(piece.key) ?? 0) };
    const time = timeOfPresented();
    // Of steps one after another, each picture that is shown counts.
    if (video.paused && wanted?.isStep) changed("stepped", pictureAt(time));
    if (!video.seeking) {
      if (!video.paused) {
        state.at = time;
        changed("time");
      }
      changed("presented", { picture: pictureAt(time), time, plays: !video.paused });
    }
  }
  video.requestVideoFrameCallback(watchPictures);
}

// The time on the time line of the picture that is presented.
function timeOfPresented() {
  const { piece, local } = presented;
  const times = timesOf.get(piece.key);
  if (!times) return filmTime(piece, local);
  return filmTime(piece, inside(times, numberAt(times, local + ROUNDING_S)));
}

// After two rendering steps the browser has reported the last picture that it brought to the screen.
// In a hidden window there are none.
const reported = () => new Promise((done) => {
  requestAnimationFrame(() => requestAnimationFrame(done));
  setTimeout(done, 200);
});

// Stop at the picture that is on the screen, and make the browser show just that one. A busy browser
// presents several more before it stops.
export async function hold() {
  if (video.paused || video.hidden || !state.piece) return;
  const held = state.film;
  // After a seek the picture that was asked for counts, before it is there.
  const time = video.seeking ? state.at : timeOnScreen();
  isHeld = true;
  video.pause();
  await reported();
  if (state.film === held && state.piece) seek(time);
}

function timeOnScreen() {
  const { piece } = state;
  if (presented?.piece === piece) return timeOfPresented();
  return filmTime(piece, video.currentTime - (originOf.get(piece.key) ?? 0));
}

// ---- the pieces of a film -------------------------------------------------------------------------

// Show a piece: its video, or why there is none.
function show(piece) {
  if (piece === state.piece) return;
  state.piece = piece;
  const plays = piece && !piece.refused;
  const source = plays ? `media/${piece.key}` : "";
  video.hidden = !plays;
  $("refused").hidden = Boolean(plays);
  $("refused").textContent = !piece ? NO_VIDEO
    : `Browsers do not play this video (${piece.refused}). Make a copy that they play: ffmpeg -i OLD NEW.mp4, and link it.`;
  if (piece) guarded(() => loadTimes(piece));
  if ((video.getAttribute("src") ?? "") === source) return;
  if (!source) return video.removeAttribute("src");
  video.src = source;
}

// Follow the video while it plays, and go on with the next one.
function follow() {
  const { piece } = state;
  if (!piece || video.hidden || video.seeking) return;
  const time = filmTime(piece, video.currentTime - (originOf.get(piece.key) ?? 0));
  if (!video.paused && presented?.piece !== piece) state.at = time;
  // At the end of a piece the clock is ahead of the picture.
  if (isPlaying && (video.ended || time >= piece.end_s - EPS) && playNext()) return;
  changed("time");
}

// Play the next piece of the film; whether there is one.
function playNext() {
  const next = state.film.pieces[state.film.pieces.indexOf(state.piece) + 1];
  if (!next) return false;
  playsNext = true;
  seek(next.start_s + EPS);
  return true;
}

for (const name of ["timeupdate", "ended"]) video.addEventListener(name, follow);
video.requestVideoFrameCallback(watchPictures);
video.addEventListener("play", () => {
  isHeld = false;
  isPlaying = true;
});
// Something else stopped it: the number shown must be that of the picture.
video.addEventListener("pause", () => {
  if (!video.ended) isPlaying = false;
  if (!isHeld && !video.ended && !video.seeking && state.piece && !video.hidden) seek(timeOnScreen());
});
video.addEventListener("loadedmetadata", () => {
  turnTo(wanted.local);
  if (playsNext) video.play();
  playsNext = false;
});
video.addEventListener("error", () => {
  if (!state.piece || !video.getAttribute("src")) return;
  state.piece.refused = video.error?.message || "it cannot be read";
  state.piece = null;
  seek(state.at);
});
for (const name of ["play", "pause", "volumechange", "loadedmetadata", "emptied"]) {
  video.addEventListener(name, () => changed("player"));
}

// ---- play -----------------------------------------------------------------------------------------

export const plays = () => !video.paused;

export const pause = () => video.pause();

// At the last picture of a file a browser would play this file from its start.
export function playOrPause() {
  if (!video.paused) video.pause();
  else if (!video.ended || !playNext()) return video.play();
}

export function changeSpeed(steps) {
  const number = SPEEDS.indexOf(video.defaultPlaybackRate) + steps;
  const speed = SPEEDS[Math.min(Math.max(number, 0), SPEEDS.length - 1)];
  // A new video starts with the default one.
  video.defaultPlaybackRate = video.playbackRate = speed;
  changed("player");
  tell(`Speed ${speed}`);
}

export const speed = () => video.defaultPlaybackRate;

export const isMuted = () => video.muted;

export function switchSound() {
  video.muted = !video.muted;
}

video.addEventListener("click", () => guarded(playOrPause));
