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
  if (!bar) return tell(t`nothing further in the lane “${lane?.label ?? name}”`);
  seek(bar.start + EPS);
  edit(bar);
  tell(`${clock(bar.start)}: ${describe(lane, bar)}`);
}

async function copyLink() {
  const link = placeLink();
  history.replaceState(null, "", location.pathname + address(Object.fromEntries(new URLSearchParams(link.split("#")[1]))));
  await copyText(link);
  tell(t`obygaze view "${link}" opens this picture, on any machine with the same data; so does the address of this page, here.`);
}

// Of each key: what it does, in words and as a function. `holds`: it needs to know the picture on the
// screen, so the film is stopped first. `marks`: only for annotators.
const KEYS = {
  " ": { text: "play, pause", run: playOrPause },
  ".": { text: "one picture on", run: () => step(1), holds: true },
  ",": { text: "one picture back", run: () => step(-1), holds: true },
  ArrowRight: { text: "one second on", run: () => seek(now() + 1) },
  ArrowLeft: { text: "one second back", run: () => seek(now() - 1) },
  n: { text: "next segment of the chosen lane", run: () => jump($("lane-choice").value, 1), holds: true },
  p: { text: "previous segment of the chosen lane", run: () => jump($("lane-choice").value, -1), holds: true },
  h: { text: "next shot", run: () => jump("shots", 1), holds: true },
  H: { text: "previous shot", run: () => jump("shots", -1), holds: true },
  e: { text: "next decision of the model that differs from the annotation", run: () => jump("score", 1, (bar) => !bar.correct), holds: true },
  v: { text: "next picture that you have not watched", run: nextUnwatched, holds: true, marks: true },
  g: { text: "go to a time or a picture: write it, then Enter", run: () => $("goto").elements.place.focus() },
  l: { text: "play this segment again and again; end this", run: switchLoop },
  f: { text: "faster", run: () => changeSpeed(1) },
  d: { text: "slower", run: () => changeSpeed(-1) },
  "+": { text: "show less time", run: () => zoom(2) },
  "-": { text: "show more time", run: () => zoom(0.5) },
  0: { text: "show the whole film", run: () => zoom(0) },
  c: { text: "copy a link to this time", run: copyLink },
  i: { text: "the mark starts at this picture", run: () => setFrame("start_frame", frame()), holds: true, marks: true },
  o: { text: "the mark ends before this picture", run: () => setFrame("end_frame", lastBeforeThis()), holds: true, marks: true },
  x: { text: "cut here: the mark ends before this picture, the next one starts at it", run: cutHere, holds: true, marks: true },
  k: { text: "then a key of the list: a concept of the mark", run: askForConcept, marks: true },
  Enter: { text: "save the mark", run: () => saveMark(), marks: true },
  s: { text: "split the mark at this picture", run: splitMark, holds: true, marks: true },
  m: { text: "merge the mark with the next one", run: mergeMarks, holds: true, marks: true },
  "<": { text: "move the mark one picture back", run: () => moveMark(-1), holds: true, marks: true },
  ">": { text: "move the mark one picture on", run: () => moveMark(1), holds: true, marks: true },
  Delete: { text: "delete the mark", run: deleteMark, holds: true, marks: true },
  u: { text: "undo, also Ctrl+Z", run: undo, marks: true },
  U: { text: "redo, also Ctrl+Y", run: redo, marks: true },
};
const LEVEL_KEYS = [..."123456789"];
LEVEL_KEYS.forEach((key, number) => (KEYS[key] = { run: () => chooseLevel(number), marks: true }));
const CONCEPT_KEYS = [..."123456789abcdefghijlmnopqrstuvwxyz"];
let asksForConcept = false; // the next key chooses one

function askForConcept() {
  asksForConcept = true;
  takeMarkHere();
  const names = conceptNames(mark).map((name, number) => `${CONCEPT_KEYS[number] ?? "-"} ${name}`);
  tell(t`Concept: ${names.join(", ")}`);
}

function press(key) {
  const action = KEYS[key];
  if (!film || $("film").hidden || !action || (action.marks && $("mark").hidden)) return false;
  guarded(async () => {
    if (action.holds) await hold();
    await action.run();
  });
  return true;
}

// The key that a keyboard event means here: Ctrl+Z is that of undo.
function keyOf(event) {
  if (event.altKey) return null;
  if (!event.ctrlKey && !event.metaKey) return event.key;
  const key = event.key.toLowerCase();
  if (key === "y" || (key === "z" && event.shiftKey)) return "U";
  return key === "z" ? "u" : null;
}

const focusFilm = () => $("main").focus({ preventScroll: true });

document.addEventListener("keydown", (event) => {
  const at = document.activeElement, isFree = at === document.body || at === $("main") || $("film").contains(at);
  if (event.key === "Escape" && (cancelDrag() || asksForConcept)) {
    asksForConcept = false;
    return;
  }
  // Keys of one letter work only while the film has the focus, and not in fields.
  const isField = at.matches("input:not([type=radio], [type=checkbox], [type=range]), textarea, select");
  if (isField && isFree && event.key === "Escape") return focusFilm();
  const key = keyOf(event);
  if (!isFree || isField || key === null || $("keys").open) return;
  if (asksForConcept && !["Shift", "Control", "Meta"].includes(key)) {
    asksForConcept = false;
    event.preventDefault();
    return guarded(() => switchConcept(CONCEPT_KEYS.indexOf(key)));
  }
  if (key === "?") return showKeys();
  if ([" ", "Enter"].includes(key) && at.matches("button, summary, a, input")) return;
  if (key.startsWith("Arrow") && at.matches("input, #scroll")) return;
  if (press(key)) event.preventDefault();
});

// ---- the page of keys ---------------------------------------------------------------------------

const KEY_NAMES = { " ": "space", ArrowRight: "→", ArrowLeft: "←" };

function keyRows(isOfMarks) {
  const rows = Object.entries(KEYS).filter(([, { text, marks }]) => text && Boolean(marks) === isOfMarks);
  return rows.map(([key, { text }]) => [KEY_NAMES[key] ?? key, lookUp(text)]);
}

function showKeys() {
  const levels = Object.keys(page.levels).map((level, number) => [LEVEL_KEYS[number], t`level ${levelText(level)}`]);
  const named = Object.keys(page.concepts).map((name, number) => [CONCEPT_KEYS[number] && `k ${CONCEPT_KEYS[number]}`, name]);
  const rows = (pairs) => pairs.filter(([key]) => key).flatMap(([key, text]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, text)]);
  fill($("keys-watch"), ...rows(keyRows(false)));
  fill($("keys-mark"), ...rows([...keyRows(true), ...levels, ...named]));
  $("keys-of-marks").hidden = !page.annotator;
  $("keys").showModal();
}

$("show-keys").onclick = showKeys;
