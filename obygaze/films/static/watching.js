// The film page: play, speed, sound, loop, and places to go to. The picture is never covered.
"use strict";

const SPEEDS = [0.1, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4];
let loop = null; // the segment that is played again and again, and whether the picture is in it

const playOrPause = () => (video.paused ? video.play() : video.pause());

function setSpeed(speed) {
  // A new video starts with the default one.
  video.defaultPlaybackRate = video.playbackRate = speed;
  $("speed").value = speed;
}

function changeSpeed(steps) {
  const number = Math.min(Math.max(SPEEDS.indexOf(video.defaultPlaybackRate) + steps, 0), SPEEDS.length - 1);
  setSpeed(SPEEDS[number]);
  tell(t`Speed ${SPEEDS[number]}`);
}

// The segment in the form, or else the one of the chosen lane at this time.
function segmentHere() {
  const isSet = Number.isInteger(mark.start_frame) && Number.isInteger(mark.end_frame);
  if (!form.hidden && isSet) return spanOf(mark.start_frame, mark.end_frame);
  const lane = film.lanes.find((one) => one.name === $("lane-choice").value);
  const bar = lane && barsAt(lane, now() + EPS).at(-1);
  return bar ? [bar.start, bar.end] : null;
}

// Play, also if another file has to be loaded first.
function playOn() {
  if (video.readyState) video.play();
  else film.plays = true;
}

function setLoop(wanted) {
  loop = wanted;
  $("loop").setAttribute("aria-pressed", String(Boolean(loop)));
}

function switchLoop() {
  const segment = loop ? null : segmentHere();
  if (!loop && !segment) throw new Error(t`There is no segment here in the chosen lane, and none in the form.`);
  setLoop(segment && { film: film.id, start: segment[0], end: segment[1], isInside: true });
  if (!loop) return tell(t`The segment is not played again.`);
  seek(loop.start + EPS);
  playOn();
  tell(t`${clock(loop.start, 1)} to ${clock(loop.end, 1)} is played again and again. Key l ends this.`);
}

// Go back to the start of the segment when its end was reached; whether it was.
function isLooped(time) {
  if (!loop || loop.film !== film.id) return false;
  // A file may end before the segment does; the last one ends the film.
  const isOver = video.ended && film.piece === film.pieces.at(-1);
  const isAtEnd = loop.isInside && (time >= loop.end - EPS || isOver);
  loop.isInside = isAtEnd || (time >= loop.start - EPS && time < loop.end);
  if (!isAtEnd) return false;
  const plays = !video.paused || video.ended;
  seek(loop.start + EPS);
  if (plays) playOn();
  return true;
}

// The time that a text means: 0:12:30.5, 90 s, or the number of a picture.
function timeOfText(text) {
  const picture = /^(?:picture|image|#)?\s*(\d{1,9})$/i.exec(text.trim());
  if (picture && !film.rate) throw new Error(t`The pictures of this film have no numbers: its pictures per second are not known.`);
  if (picture) return spanOf(Number(picture[1]), Number(picture[1]))[0];
  const time = /^(?:(?:(\d{1,3}):)?(\d{1,4}):)?(\d{1,6}(?:[.,]\d{1,9})?)\s*s?$/i.exec(text.trim());
  if (!time) throw new Error(t`Expected a time such as 0:12:30.5 or 90 s, or the number of a picture.`);
  const [hours, minutes, seconds] = [time[1] ?? 0, time[2] ?? 0, time[3].replace(",", ".")];
  return 3600 * Number(hours) + 60 * Number(minutes) + Number(seconds);
}

function goToText(text) {
  const time = timeOfText(text);
  if (time >= film.end) throw new Error(t`The film ends at ${clock(film.end, 1)}.`);
  seek(time + EPS);
  tell(`${clock(now(), 2)}${film.rate ? t`, picture ${frame()}` : ""}`);
}

// The first picture from this one on that was not watched; after the end of the film, from its start.
function nextUnwatched() {
  if (!page.annotator || !film.rate) throw new Error(t`What was watched is known only with --annotate NAME.`);
  const ofFilm = unsent.filter((one) => one.film === film.id).map((one) => [one.start, one.end]);
  const watched = [...film.watched, ...ofFilm].sort((a, b) => a[0] - b[0]);
  const firstUnwatched = (from) => {
    let picture = from;
    for (const [first, last] of watched) if (first <= picture && last >= picture) picture = last + 1;
    return picture;
  };
  const last = Math.max(Math.round(film.end * film.rate) - 1, 0);
  let picture = firstUnwatched(frame());
  if (picture > last) picture = firstUnwatched(0);
  if (picture > last) return tell(t`You have watched all of this film.`);
  seek(spanOf(picture, picture)[0] + EPS);
  tell(t`Not watched yet: from ${clock(now(), 1)}`);
}

// ---- the bar below the picture ------------------------------------------------------------------

function showPlayer() {
  $("player").hidden = video.hidden;
  $("play").textContent = video.paused ? t`Play` : t`Pause`;
  $("sound").setAttribute("aria-pressed", String(video.muted));
  $("subtitles").hidden = !video.textTracks.length;
  const isShown = [...video.textTracks].some((track) => track.mode === "showing");
  $("subtitles").setAttribute("aria-pressed", String(isShown));
}

function showPosition() {
  const position = $("position");
  position.max = film.end;
  if (document.activeElement !== position || !video.paused) position.value = now();
  position.setAttribute("aria-valuetext", t`${clock(now())} of ${clock(film.end)}`);
}

fill($("speed"), ...SPEEDS.map((speed) => el("option", { value: speed, textContent: `${speed} ×` })));
$("speed").value = 1;
$("speed").onchange = () => setSpeed(Number($("speed").value));
$("position").oninput = () => seek(Number($("position").value));
$("sound").onclick = () => (video.muted = !video.muted);
$("volume").oninput = () => (video.volume = Number($("volume").value));
$("full").onclick = () => guarded(() => (document.fullscreenElement ? document.exitFullscreen() : $("show").requestFullscreen()));
$("subtitles").onclick = () => {
  const isShown = $("subtitles").getAttribute("aria-pressed") === "true";
  for (const track of video.textTracks) track.mode = isShown ? "disabled" : "showing";
  showPlayer();
};
$("goto").addEventListener("submit", (event) => {
  event.preventDefault();
  guarded(() => {
    goToText($("goto").elements.place.value);
    focusFilm(); // so that keys work again
  });
});
for (const name of ["play", "pause", "volumechange", "loadedmetadata", "emptied"]) video.addEventListener(name, showPlayer);
video.textTracks.addEventListener("addtrack", showPlayer);
video.onclick = () => guarded(playOrPause);
