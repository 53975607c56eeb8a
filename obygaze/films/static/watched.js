// The film page: which pictures were watched.
"use strict";

// Pictures that were watched since they were last sent to the program, as stretches.
let unsent = [];
let lastWatched = null; // the film and the number of the last picture that was watched

function noteWatched(number) {
  if (!page.annotator || page.queue || !film.rate) return; // of a queue, what is judged is watched
  const before = lastWatched;
  lastWatched = { film: film.id, number };
  // A browser that is busy leaves pictures out; a seek is a longer way.
  const isNext = before?.film === film.id && number >= before.number && number <= before.number + film.rate;
  const stretch = unsent.at(-1);
  if (isNext && stretch?.film === film.id) stretch.end = Math.max(stretch.end, number);
  else unsent.push({ film: film.id, start: isNext ? before.number : number, end: number });
}

async function sendWatched() {
  const stretches = unsent;
  unsent = [];
  for (const id of new Set(stretches.map((one) => one.film))) {
    const ofFilm = stretches.filter((one) => one.film === id);
    try {
      await postWatched(id, ofFilm.map((one) => [one.start, one.end]));
    } catch (error) {
      // The next time, again; but what the program refuses, it would refuse again.
      if (!error.isRefused) unsent = [...ofFilm, ...unsent];
      tell(t`What you watched is not saved: ${error.message}`);
    }
  }
}

// Add stretches to what was watched, or (`removed`) take them back.
async function postWatched(id, stretches, removed = false) {
  const body = JSON.stringify({ movie_id: id, stretches, removed });
  const answer = await send("api/watched", { method: "POST", keepalive: true, headers: { "Content-Type": "application/json" }, body });
  const reply = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(messageOf(reply)), { isRefused: answer.status < 500 });
  if (film?.id !== id) return;
  film.watched = reply;
  showWatched();
}

// The stretches from picture 0 to the last one that are in none of those given, which are in order.
function notIn(stretches, last) {
  const others = [];
  let next = 0;
  for (const [start, end] of stretches) {
    if (start > next) others.push([next, start - 1]);
    next = end + 1;
  }
  if (next <= last) others.push([next, last]);
  return others;
}

function showWatched() {
  const all = Math.max(1, Math.round(film.end * film.rate));
  const seen = film.watched.reduce((sum, [first, last]) => sum + last - first + 1, 0);
  $("watched-share").textContent = t`You have watched ${Math.min(100, Math.floor((100 * seen) / all))} % of this film.`;
  if (film.lanes && !putBars("watched", "watched", watchedBars())) makeLanes();
}

$("watched-all").onclick = () => guarded(() => inTurn(async () => {
  const added = notIn(film.watched, lastPicture());
  if (!added.length) return tell(t`You have watched all of this film already.`);
  await postWatched(film.id, added);
  record({ kind: "watched", text: t`all of the film watched`, stretches: added });
  tell(t`All of the film counts as watched: time without marks is EN.`);
}));
setInterval(() => unsent.length && video.paused && guarded(sendWatched), 1000);
setInterval(() => unsent.length && guarded(sendWatched), 5000);
addEventListener("pagehide", () => unsent.length && guarded(sendWatched));
