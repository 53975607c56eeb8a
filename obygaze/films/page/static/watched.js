// What was seen. Between two pictures that the browser presents while the film plays, a busy browser
// may leave some out: all of them count if the two are at most a quarter of a second of film apart,
// and no seek lies between. A seek adds nothing. Stepping adds the pictures that it shows.
import { picture, plays, seek, startOf } from "./player.js";
import { changed, on, state } from "./state.js";
import { $, EPS, clock, guarded, post, tell } from "./tools.js";

const MOST_BETWEEN_S = 0.25;

let before = null; // the picture that was presented before this one, if no seek lies between
let unsent = []; // stretches of pictures that were seen since they were last sent

const isCounted = () => Boolean(state.film?.can_mark);

function count(first, last) {
  if (!isCounted() || first === null) return;
  const { id } = state.film;
  const stretch = unsent.at(-1);
  if (stretch?.film === id && first <= stretch.last + 1 && first >= stretch.first) stretch.last = Math.max(stretch.last, last);
  else unsent.push({ film: id, first, last });
}

on("presented", (one) => {
  const isNear = before && one.picture >= before.picture && one.time - before.time <= MOST_BETWEEN_S + EPS;
  if (one.plays && isNear) count(before.picture, one.picture);
  before = one;
});
on("seek", () => (before = null));
$("video").addEventListener("seeking", () => (before = null));
on("stepped", (number) => count(number, number));

async function sendSeen() {
  const stretches = unsent;
  unsent = [];
  for (const id of new Set(stretches.map((one) => one.film))) {
    const ofFilm = stretches.filter((one) => one.film === id);
    try {
      await putWatched(id, ofFilm.map((one) => [one.first, one.last]));
    } catch (error) {
      // The next time, again; but what the program refuses, it would refuse again.
      if (!error.status || error.status >= 500) unsent = [...ofFilm, ...unsent];
      tell(`What you watched is not saved: ${error.message}`);
    }
  }
}

// Add stretches to what was watched, or (`removed`) take them back.
export async function putWatched(id, stretches, removed = false) {
  const watched = await post("watched", { movie_id: id, stretches, removed });
  if (state.film?.id !== id) return;
  state.film.watched = watched;
  changed("watched");
}

// The stretches of the film that were not watched.
export function notWatched() {
  const others = [];
  let next = 0;
  for (const { start_frame: first, end_frame: last } of state.film.watched) {
    if (first > next) others.push([next, first - 1]);
    next = last + 1;
  }
  if (next < state.film.n_pictures) others.push([next, state.film.n_pictures - 1]);
  return others;
}

// The first picture from this one on that was not watched; after the end of the film, from its start.
export async function toUnwatched() {
  await sendSeen();
  const others = notWatched();
  if (!others.length) return tell("You have watched all of this film.");
  const here = picture();
  const [first] = others.find(([, last]) => last >= here) ?? others[0];
  const next = others.some(([start, last]) => start <= here && last >= here) ? here : first;
  seek(startOf(next) + EPS);
  tell(`Not watched yet: from ${clock(startOf(next), 1)}`);
}

on("watched film", () => {
  if (!isCounted()) return;
  const seen = state.film.watched.reduce((sum, one) => sum + one.end_frame - one.start_frame + 1, 0);
  const share = Math.min(100, Math.floor((100 * seen) / Math.max(1, state.film.n_pictures)));
  $("watched-share").textContent = `You have watched ${share} % of this film.`;
  $("watched-bar").value = share;
});

setInterval(() => unsent.length && !plays() && guarded(sendSeen), 1000);
setInterval(() => unsent.length && guarded(sendSeen), 5000);
addEventListener("pagehide", () => unsent.length && guarded(sendSeen));
