// What was seen. Between two pictures that the browser presents while the film plays, a busy browser
// may leave some out: all of them count if the two are at most a quarter of a second of film apart,
// and no seek lies between. A seek adds nothing. Stepping adds the pictures that it shows.
import { refresh, sent } from "./marks.js";
import { plays } from "./player.js";
import { canMark, changed, on, state } from "./state.js";
import { $, EPS, Stopped, guarded, tell } from "./tools.js";

const MOST_BETWEEN_S = 0.25;

let before = null; // the picture that was presented before this one, if no seek lies between
let unsent = []; // stretches of pictures that were seen since they were last sent

function count(first, last) {
  if (!canMark() || first === null) return;
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
      if (error.status === 409) refresh();
      if (!error.status || error.status === 409 || error.status >= 500) unsent = [...ofFilm, ...unsent];
      if (!(error instanceof Stopped)) tell(`What you watched is not saved: ${error.message}`);
    }
  }
}

async function putWatched(id, stretches) {
  const watched = await sent("watched", { movie_id: id, stretches });
  if (state.film?.id !== id) return;
  state.film.watched = watched;
  changed("watched");
}

on("watched film turn", () => {
  if (!canMark()) return;
  const seen = state.film.watched.reduce((sum, one) => sum + one.last - one.first + 1, 0);
  const share = Math.min(100, Math.floor((100 * seen) / Math.max(1, state.film.n_pictures)));
  $("watched-share").textContent = `You have watched ${share} % of this film.`;
  $("watched-bar").value = share;
});

setInterval(() => unsent.length && !plays() && guarded(sendSeen), 1000);
setInterval(() => unsent.length && guarded(sendSeen), 5000);
addEventListener("pagehide", () => unsent.length && guarded(sendSeen));
