// The video: which picture is on the screen, and how to get to another one.
import { changed, on, state } from "./state.js";
import { $, EPS, countUpTo, guarded, tell } from "./tools.js";

const video = $("video");
const SPEEDS = [0.1, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4];
const ROUNDING_S = 0.0006; // browsers round the times of pictures

const timesOf = new Map(); // when the pictures of a video are shown, and the end of the last one, by its name
const originOf = new Map(); // the time in the file at which these times are 0, by its name
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
  // Files may overlap, and a short one may lie within a long one: the last one that has the time is taken.
  const isIn = (one) => one.start_s <= time + EPS && (time < one.end_s + EPS || pieces.length === 1);
  return pieces.findLast(isIn) ?? null;
}

// The piece that begins when another one has ended, or the one that has ended when it begins.
function pieceBeside(piece, isNext) {
  const { pieces } = state.film;
  if (isNext) return pieces.find((one) => one.start_s >= piece?.end_s - EPS);
  return pieces.findLast((one) => one.end_s <= piece.start_s + EPS);
}

const refusedOf = (piece) => state.film.videos[piece.video].refused;
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

// The number of the picture that is shown; null where there is no file of the whole film, or its
// pictures are not known.
export function picture() {
  const times = timesOf.get(pieceAt(state.at)?.video);
  return times && state.film.n_pictures ? numberAt(times, state.at + EPS) : null;
}

// When a picture of the film begins; after the last one, when it ends.
export const startOf = (number) => Math.max(timesOf.get(state.film.pieces[0].video)[number], 0);

// When the picture that is shown begins.
export function now() {
  const times = state.piece && timesOf.get(state.piece.video);
  if (!times) return state.at;
  const number = numberAt(times, localTime(state.piece, state.at) + EPS);
  return Math.max(filmTime(state.piece, times[number]), 0);
}

// ---- seek ---------------------------------------------------------------------------------------

export function openVideos() {
  const { pieces, videos } = state.film;
  for (const [name, { times }] of Object.entries(videos)) {
    if (times === null) continue;
    const bytes = Uint8Array.from(atob(times), (letter) => letter.charCodeAt(0));
    const [origin, ...boundaries] = new Float64Array(bytes.buffer);
    originOf.set(name, origin);
    timesOf.set(name, boundaries);
  }
  state.piece = undefined; // also that there is no piece is to be shown
  $("watch").classList.toggle("bare", !pieces.length);
}

export function seek(time) {
  state.at = Math.min(Math.max(time, 0), state.film.end_s - EPS);
  const piece = pieceAt(state.at);
  isPlaying = !video.paused;
  show(piece);
  const times = piece && timesOf.get(piece.video);
  if (piece) {
    let local = localTime(piece, state.at);
    wanted = { number: null, tries: [] };
    if (times) {
      const number = numberAt(times, local + EPS);
      local = inside(times, number);
      state.at = filmTime(piece, local);
      const tries = [(times[number] + times[number + 1]) / 2, times[number + 1] - 0.002];
      wanted = { number, tries };
    }
    if (!refusedOf(piece)) turnTo(local);
  }
  changed("time");
}

function turnTo(local) {
  wanted.local = local;
  if (!video.readyState) return; // it turns there once it is loaded
  video.currentTime = local + (originOf.get(state.piece.video) ?? 0);
  video.requestVideoFrameCallback(check);
}

// Whether the browser shows the picture that was asked for. It estimates how long pictures are shown,
// so that with a varying rate another time within the picture may be needed.
function check(_, { mediaTime }) {
  const times = state.piece && timesOf.get(state.piece.video);
  if (!times || wanted.number === null || !video.paused || video.hidden) return;
  const seen = numberAt(times, mediaTime - originOf.get(state.piece.video) + ROUNDING_S);
  if (seen === wanted.number) return;
  if (wanted.tries.length) turnTo(wanted.tries.shift());
  else tell(`Your browser shows picture ${seen} of this video in place of picture ${wanted.number}.`);
}

// Go to the picture that is so many pictures further.
export function step(pictures) {
  const { piece } = state;
  const times = piece && timesOf.get(piece.video);
  if (!times) return seek(state.at + pictures / 25);
  const number = numberAt(times, localTime(piece, state.at) + EPS) + pictures;
  const time = number in times ? filmTime(piece, inside(times, number)) : NaN;
  if (time > piece.start_s && time < piece.end_s) return seek(time);
  const next = pieceBeside(piece, pictures > 0);
  if (next) seek(pictures > 0 ? next.start_s + EPS : next.end_s - 2 * EPS);
}

// ---- which picture is on the screen ---------------------------------------------------------------

function watchPictures(_, { mediaTime }) {
  const { piece } = state;
  if (piece && !video.hidden) {
    presented = { piece, local: mediaTime - (originOf.get(piece.video) ?? 0) };
    if (!video.seeking && !video.paused) {
      state.at = timeOfPresented();
      changed("time");
    }
  }
  video.requestVideoFrameCallback(watchPictures);
}

// The time on the time line of the picture that is presented.
function timeOfPresented() {
  const { piece, local } = presented;
  const times = timesOf.get(piece.video);
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
  // After a seek the picture that was asked for counts, before it is there.
  const time = video.seeking ? state.at : timeOnScreen();
  isHeld = true;
  video.pause();
  await reported();
  if (state.piece) seek(time);
}

function timeOnScreen() {
  const { piece } = state;
  if (presented?.piece === piece) return timeOfPresented();
  return filmTime(piece, video.currentTime - (originOf.get(piece.video) ?? 0));
}

// ---- the pieces of a film -------------------------------------------------------------------------

// Show a piece: its video, or why there is none.
function show(piece) {
  if (piece === state.piece) return;
  state.piece = piece;
  const refused = piece && refusedOf(piece);
  const plays = piece && !refused;
  const source = plays ? state.film.videos[piece.video].address : "";
  video.hidden = !plays;
  $("refused").hidden = Boolean(plays);
  $("refused").textContent = !piece ? "There is no video for this part of the film."
    : `This page cannot play the video (${refused}). Link a file that browsers play; ffmpeg -i OLD NEW.mp4 makes one.`;
  if ((video.getAttribute("src") ?? "") === source) return;
  if (!source) return video.removeAttribute("src");
  video.src = source;
}

// In place of a video that browsers do not play: a picture of the clip at this time, of several the one
// that begins last.
function showStill() {
  const { spans } = state.film;
  const isHere = ({ id, still }) => still && spans[id]?.[0] <= state.at + EPS && state.at < spans[id][1];
  const [clip] = state.page.clips.filter(isHere).sort((one, other) => spans[other.id][0] - spans[one.id][0]);
  $("still").hidden = !clip || !video.hidden;
  if (clip) $("still").src = clip.still;
}

on("time", showStill);

// Follow the video while it plays, and go on with the next one.
function follow() {
  const { piece } = state;
  if (!piece || video.hidden || video.seeking) return;
  const time = filmTime(piece, video.currentTime - (originOf.get(piece.video) ?? 0));
  if (!video.paused && presented?.piece !== piece) state.at = time;
  // At the end of a piece the clock is ahead of the picture.
  if (isPlaying && (video.ended || time >= piece.end_s - EPS) && playNext()) return;
  changed("time");
}

// Play the next piece of the film; whether there is one.
function playNext() {
  const next = pieceBeside(state.piece, true);
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
  state.film.videos[state.piece.video].refused = video.error?.message || "it cannot be read";
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
