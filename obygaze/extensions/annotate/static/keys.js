// The film page: its keys.
"use strict";

function step(pictures) {
  const piece = film.piece, number = numberAt(piece, film.at), place = film.pieces.indexOf(piece);
  if (number === null) return seek(film.at + pictures / (film.rate || 25));
  const times = film.times.get(piece.key), wanted = number + pictures;
  const time = inside(times, wanted) - piece.offset + piece.start;
  if (time > piece.start && time < piece.end) seek(time);
  else if (film.pieces[place + pictures]) seek(pictures > 0 ? film.pieces[place + 1].start + EPS : film.pieces[place - 1].end - 2 * EPS);
}

function jump(name, direction, fits = () => true) {
  const lane = film.lanes.find((one) => one.name === name), from = now() + 2 * EPS * direction;
  const bars = (lane?.bars ?? []).filter((bar) => fits(bar) && (bar.start - from) * direction > 0);
  const bar = direction > 0 ? bars[0] : bars.at(-1);
  if (!bar) return tell(`nothing further in the lane “${lane?.label ?? name}”`);
  seek(bar.start + EPS);
  edit(bar);
  tell(`${clock(bar.start)}: ${describe(lane, bar)}`);
}

async function copyLink() {
  // Rounded up, so that the time is not before the picture begins.
  const time = (Math.ceil(now() * 1e6) / 1e6).toFixed(6);
  const link = location.href.split("#")[0] + address({ film: film.id, t: time });
  history.replaceState(null, "", link);
  await navigator.clipboard?.writeText(link).catch(() => null);
  tell(`The address of this page leads to this time now: ${link}`);
}

const KEYS = {
  n: () => jump($("lane-choice").value, 1),
  p: () => jump($("lane-choice").value, -1),
  e: () => jump("score", 1, (bar) => !bar.correct),
  ".": () => step(1),
  ",": () => step(-1),
  " ": () => (video.paused ? video.play() : video.pause()),
  "+": () => zoom(2),
  "-": () => zoom(0.5),
  0: () => zoom(0),
  c: copyLink,
  i: () => setFrame("start_frame", frame()),
  o: () => setFrame("end_frame", lastBeforeThis()),
  x: cutHere,
};

function press(key) {
  if (!film || $("film").hidden || !KEYS[key] || ("iox".includes(key) && $("mark").hidden)) return false;
  guarded(async () => {
    if ("npe.,iox".includes(key)) await hold();
    await KEYS[key]();
  });
  return true;
}

document.addEventListener("keydown", (event) => {
  const at = document.activeElement, isFree = at === document.body || at === $("main") || $("film").contains(at);
  // Keys of one letter work only while the film has the focus, and not in fields.
  if (!isFree || at.matches("input:not([type=radio], [type=checkbox]), textarea, select")) return;
  if (event.ctrlKey || event.metaKey || event.altKey || (event.key === " " && at.matches("button, summary, a, video, input"))) return;
  if (press(event.key)) event.preventDefault();
});
