// The keys and the icons of the film: what each does, in words and as a function.
import * as player from "./player.js";
import { on, state } from "./state.js";
import { jump, zoom } from "./timeline.js";
import { $, EPS, clock, el, fill, guarded } from "./tools.js";

// `holds`: it needs to know the picture on the screen, so the film is stopped first. `icon`: a path in
// a square of 24.
const KEYS = {
  " ": { text: "Play, pause", run: player.playOrPause, icon: "M7 4v16l13-8z" },
  ",": { text: "One picture back", run: () => player.step(-1), holds: true, icon: "M17 5v14l-9-7zM6 5h2v14H6z" },
  ".": { text: "One picture on", run: () => player.step(1), holds: true, icon: "M7 5v14l9-7zM16 5h2v14h-2z" },
  ArrowLeft: { text: "One second back", run: () => player.seek(player.now() - 1), icon: "M12 6v12l-7-6zM20 6v12l-7-6z" },
  ArrowRight: { text: "One second on", run: () => player.seek(player.now() + 1), icon: "M4 6v12l7-6zM12 6v12l7-6z" },
  p: { text: "Previous segment of the chosen row", run: () => jump($("lane-choice").value, -1), holds: true, icon: "M20 5v14l-9-7zM4 5h4v14H4z" },
  n: { text: "Next segment of the chosen row", run: () => jump($("lane-choice").value, 1), holds: true, icon: "M4 5v14l9-7zM16 5h4v14h-4z" },
  e: { text: "Next decision of the model that differs from the annotation", run: () => jump(`score ${state.cell ?? 0}`, 1, (bar) => bar.correct === false), holds: true, icon: "M6 8l2-2 10 10-2 2zM16 6l2 2L8 18l-2-2z" },
  d: { text: "Slower", run: () => player.changeSpeed(-1), icon: "M5 11h14v2H5z" },
  f: { text: "Faster", run: () => player.changeSpeed(1), icon: "M11 5h2v6h6v2h-6v6h-2v-6H5v-2h6z" },
  q: { text: "Sound off, on", run: player.switchSound, icon: "M4 9v6h4l6 5V4L8 9zM17 8c2 2 2 6 0 8z" },
  F: { text: "Full screen", run: switchFullScreen, icon: "M4 4h7v2H6v5H4zM20 20h-7v-2h5v-5h2z" },
  g: { text: "Go to a time or a picture: write it, then Enter", run: () => $("place").select() },
  "-": { text: "Show more time", run: () => zoom(0.5), icon: "M10 4a6 6 0 104 11l5 5 2-2-5-5A6 6 0 0010 4zM7 9h6v2H7z" },
  "+": { text: "Show less time", run: () => zoom(2), icon: "M10 4a6 6 0 104 11l5 5 2-2-5-5A6 6 0 0010 4zM9 7h2v2h2v2h-2v2H9v-2H7V9h2z" },
  0: { text: "Show the whole film", run: () => zoom(0), icon: "M3 11l4-4v3h10V7l4 4-4 4v-3H7v3z" },
};
const KEY_NAMES = { " ": "space", ArrowRight: "→", ArrowLeft: "←" };
const PAUSE = "M6 4h4v16H6zM14 4h4v16h-4z";

let pressed = Promise.resolve();

function switchFullScreen() {
  return document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen();
}

// The time that a text means: 0:12:30.5, 90 s, or the number of a picture.
function timeOfText(text) {
  const number = /^(?:picture|#)?\s*(\d{1,9})$/i.exec(text.trim());
  if (number && player.picture() === null) throw new Error("The pictures of this film have no numbers: there is no file of the whole film.");
  if (number) return player.startOf(Math.min(Number(number[1]), state.film.n_pictures));
  const time = /^(?:(?:(\d{1,3}):)?(\d{1,4}):)?(\d{1,6}(?:[.,]\d{1,9})?)\s*s?$/i.exec(text.trim());
  if (!time) throw new Error("Expected a time such as 0:12:30.5 or 90 s, or the number of a picture.");
  const [hours, minutes, seconds] = [time[1] ?? 0, time[2] ?? 0, time[3].replace(",", ".")];
  return 3600 * Number(hours) + 60 * Number(minutes) + Number(seconds);
}

$("goto").addEventListener("submit", (event) => {
  event.preventDefault();
  guarded(() => {
    const time = timeOfText($("place").value);
    if (time >= state.film.end_s) throw new Error(`The film ends at ${clock(state.film.end_s, 1)}.`);
    player.seek(time + EPS);
    focusFilm(); // so that keys work again
  });
});

// ---- press ------------------------------------------------------------------------------------------

// One after another, each at the picture that it finds.
function press(run, holds = false) {
  pressed = pressed.then(() => guarded(async () => {
    if (holds) await player.hold();
    guarded(run);
  }));
}

export const focusFilm = () => $("main").focus({ preventScroll: true });

document.addEventListener("keydown", (event) => {
  const at = document.activeElement;
  const isFree = at === document.body || at === $("main") || $("film").contains(at);
  if ($("film").hidden || !isFree || event.altKey || event.ctrlKey || event.metaKey) return;
  const { key } = event;
  // Keys are text in a field; Esc leaves it.
  if (at.matches("input:not([type=range]), select")) {
    if (key === "Escape" && !event.isComposing) focusFilm();
    return;
  }
  if (key === "?" || (key === "Escape" && $("help").open)) return showKeys();
  // A control that was reached by Tab keeps its own keys.
  if ([" ", "Enter"].includes(key) && at.matches("button, summary, a, input")) return;
  if (key.startsWith("Arrow") && at.matches("input, #scroll")) return;
  const action = KEYS[key];
  if (!action) return;
  press(action.run, action.holds);
  event.preventDefault();
});

// After a click with the mouse the film has the focus again, so that keys do what the page says.
$("film").addEventListener("click", (event) => {
  const isField = event.target.closest("input:not([type=range]), select, summary, a");
  if (event.detail > 0 && !isField) focusFilm();
});
$("position").addEventListener("input", () => player.seek(Number($("position").value)));

// ---- icons and help ---------------------------------------------------------------------------------

function drawIcon(button, path) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const shape = document.createElementNS("http://www.w3.org/2000/svg", "path");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  shape.setAttribute("d", path);
  svg.append(shape);
  fill(button, svg);
}

for (const button of document.querySelectorAll("[data-key]")) {
  const { key } = button.dataset;
  const { text, run, holds, icon } = KEYS[key];
  drawIcon(button, icon);
  button.title = `${text} (${KEY_NAMES[key] ?? key})`;
  button.setAttribute("aria-label", text);
  button.onclick = () => press(run, holds);
}

const buttonOf = (key) => document.querySelector(`[data-key="${key}"]`);

on("player", () => {
  drawIcon(buttonOf(" "), player.plays() ? PAUSE : KEYS[" "].icon);
  $("speed").textContent = `${player.speed()} ×`;
  buttonOf("q").setAttribute("aria-pressed", String(player.isMuted()));
});
on("film", () => {
  buttonOf("e").hidden = !state.models.length;
  const pairs = [...Object.entries(KEYS).map(([key, { text }]) => [KEY_NAMES[key] ?? key, text]), ["?", "These keys"]];
  fill($("keys"), ...pairs.flatMap(([key, text]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, text)]));
});

function showKeys() {
  $("help").open = !$("help").open;
  if ($("help").open) $("help").scrollIntoView();
  else scrollTo(0, 0); // back to the film
}
