// The marks of the person: each change is saved at once, and can be undone.
//
// A mark is whole, and is saved, once it has its start, its end and its level. What is known of a mark
// before that is in `state.begun`. A change takes marks away and puts others in their place, so undoing
// is the same change turned round, and to send a change again does nothing. Only the window that took
// its turn last may change marks.
import { picture } from "./player.js";
import { canMark, changed, state } from "./state.js";
import { Stopped, load, post, quietly, tell } from "./tools.js";

export const MAX_COMMENT = 2000;

let unanswered = null; // a change whose answer was lost: it may be saved, and is sent again
let turn = Promise.resolve();

// Run tasks one after another.
export function inTurn(task) {
  const result = turn.then(task);
  turn = result.catch(() => {});
  return result;
}

// Run a task in its turn, but only in the film that is shown now: by then another one may be open.
function inFilm(task) {
  const { film } = state;
  return inTurn(() => film === state.film && task());
}

// ---- which mark -----------------------------------------------------------------------------------

// There is one mark of the same pictures.
export const keyOf = ({ first, last }) => `${first}-${last}`;

const emptyMark = () => ({ concepts: [], comment: "" });

export const chosenMark = () => state.film?.marks.get(state.chosen) ?? null;

// The mark in the form: the chosen one, or what is known of a new one.
export const markInForm = () => chosenMark() ?? state.begun ?? emptyMark();

export const levelText = (level) => (state.page.levels[level] ? `${level} ${state.page.levels[level].name}` : level);

function show(chosen, begun = null) {
  state.chosen = chosen;
  state.begun = begun;
  changed("marks");
}

export const choose = (key) => inFilm(() => show(key));

// If the form is empty, put the last mark into it that begins before or at a picture and has it.
function takeMarkAt(here) {
  if (chosenMark() || state.begun) return;
  let found = null;
  for (const mark of state.film.marks.values()) {
    const isHere = mark.first <= here && mark.last >= here;
    if (isHere && (!found || mark.first >= found.first)) found = mark;
  }
  if (found) show(keyOf(found));
}

function markAt(here) {
  takeMarkAt(here);
  const mark = chosenMark();
  if (!mark) throw new Error("There is no mark of yours at this picture.");
  return mark;
}

// The form becomes empty: the next mark is a new one.
export const done = () => inFilm(() => {
  if (!state.begun) return show(null);
  const missing = missingOf(state.begun);
  if (!missing.length) return edit("A new mark", () => ({})); // it could not be saved before
  tell(`Not saved yet: choose ${missing.join(" and ")}.`);
});

function missingOf(mark) {
  const parts = { first: "its start", last: "its end", level: "its level" };
  return Object.keys(parts).filter((part) => (mark[part] ?? "") === "").map((part) => parts[part]);
}

// ---- change ---------------------------------------------------------------------------------------

// Change the mark in the form, or a new one; `change` returns the values of some of its parts.
async function edit(text, change) {
  await settle();
  const before = chosenMark();
  if (before) {
    const after = { ...before, ...change(before) };
    if (!isSame(before, after)) await save({ text, gone: [before], made: [after] });
    return;
  }
  const was = state.begun;
  const begun = { ...emptyMark(), ...was };
  Object.assign(begun, change(begun));
  const missing = missingOf(begun);
  show(null, begun); // it stays in the form if it cannot be saved
  if (!missing.length) return save({ text, gone: [], made: [begun], begun: { gone: was, made: null } });
  record({ text, film: state.film.id, gone: [], made: [], begun: { gone: was, made: begun } });
  tell(`${text}. To save the mark, choose ${missing.join(" and ")}.`);
}

// What a key does is about the picture that was shown when it was pressed; it runs in turn.
function here(task) {
  const shown = picture();
  if (shown === null) throw new Error("The pictures of this film are not known yet.");
  return inFilm(() => task(shown));
}

const startAt = (first) => edit(`The mark starts at picture ${first}`, () => ({ first }));

function endAt(last) {
  if (last < markInForm().first) throw new Error("Not saved: it would end before it starts.");
  return edit(`The mark ends before picture ${last + 1}`, () => ({ last }));
}

// After the end of the mark in the form, a start is that of a new mark.
export const setStart = () => here((shown) => {
  if (markInForm().last < shown) show(null);
  return startAt(shown);
});

// A mark ends before the picture that is shown, where the next one may start. Only the last picture
// of the film has none after it.
export const setEnd = () => here((shown) => endAt(shown >= state.film.n_pictures - 1 ? shown : shown - 1));

export const setLevel = (level) => here((shown) => {
  takeMarkAt(shown);
  return edit(`Level ${levelText(level)}`, () => ({ level }));
});

export const switchConcept = (name) => here((shown) => {
  takeMarkAt(shown);
  const isMarked = markInForm().concepts.includes(name);
  const others = markInForm().concepts.filter((one) => one !== name);
  const marked = isMarked ? others : [...others, name];
  return edit(`${name} is ${isMarked ? "not marked" : "marked"}`, () => ({ concepts: marked }));
});

export const setComment = (comment) => inFilm(() => edit("The comment", () => ({ comment })));

export const setSpan = (key, text, first, last) => inFilm(async () => {
  await settle();
  const before = state.film.marks.get(key);
  return before && save({ text, gone: [before], made: [{ ...before, first, last }] });
});

// A stretch that was drawn becomes a mark as soon as it has a level.
export const beginSpan = (first, last) => inFilm(() => {
  show(null);
  return edit("A stretch is drawn", () => ({ first, last }));
});

export const remove = () => here(async (shown) => {
  await settle();
  if (!state.begun) return save({ text: "A mark deleted", gone: [markAt(shown)], made: [] });
  record({ text: "A new mark discarded", film: state.film.id, gone: [], made: [], begun: { gone: state.begun, made: null } });
  show(null);
  tell("Discarded.");
});

// ---- undo -----------------------------------------------------------------------------------------

function record(change) {
  state.undo.push(change);
  state.redo = [];
  changed("undo");
}

const takeBack = (from, to, [away, back], word) => inTurn(async () => {
  await settle();
  const change = from().at(-1);
  if (!change) return tell(`There is nothing to ${word === "Undone" ? "undo" : "do again"}.`);
  if (change.gone.length || change.made.length) {
    try {
      change[back] = await put(change.film, change[away], change[back]);
    } catch (error) {
      // What somebody else has changed since cannot be taken back any more.
      if (error.status === 409) from().pop();
      throw error;
    } finally {
      changed("undo");
    }
  }
  from().pop();
  to().push(change);
  showChange(change, back);
  changed("undo");
  tell(`${word}: ${change.text}.`);
});

// Put what a change is about into the form, as it is on one side of the change.
function showChange(change, side) {
  if (change.film !== state.film?.id) return;
  const [mark] = change[side];
  show(mark ? keyOf(mark) : null, mark ? null : change.begun?.[side] ?? null);
}

const undone = () => state.undo;
const redone = () => state.redo;
export const undo = () => takeBack(undone, redone, ["made", "gone"], "Undone");
export const redo = () => takeBack(redone, undone, ["gone", "made"], "Done again");

// ---- save -----------------------------------------------------------------------------------------

const PARTS = ["first", "last", "level", "comment"];
const isSame = (one, other) => PARTS.every((part) => one[part] === other[part])
  && [...one.concepts].sort().join("|") === [...other.concepts].sort().join("|");

// Save a change, so that it can be undone.
async function save(change) {
  const taken = change.made.find((one) => state.film.marks.has(keyOf(one)) && !change.gone.some((other) => keyOf(other) === keyOf(one)));
  if (taken) throw new Error(`Not saved: you have a mark of the pictures ${taken.first} to ${taken.last} already.`);
  await finish({ film: state.film.id, ...change });
}

async function finish(change) {
  try {
    change.made = await put(change.film, change.gone, change.made);
  } catch (error) {
    unanswered = error instanceof Stopped ? change : null;
    throw error;
  }
  unanswered = null;
  record(change);
  showChange(change, "made");
  tell(`${change.text}. Saved.`);
}

const settle = () => unanswered && finish(unanswered);

// Put marks in the place of others, and return them as they are saved.
async function put(film, gone, made) {
  let saved;
  try {
    saved = await sent("marks", { movie_id: film, gone, new: made });
  } catch (error) {
    if (error.status === 409) await read();
    error.message = `${error instanceof Stopped ? "Perhaps not saved" : "Not saved"}: ${error.message}`;
    throw error;
  }
  if (film === state.film?.id) {
    for (const mark of gone) state.film.marks.delete(keyOf(mark));
    for (const mark of saved) state.film.marks.set(keyOf(mark), mark);
    changed("marks");
  }
  return saved;
}

// Send what only the window may send that has the turn.
export async function sent(name, value) {
  try {
    return await post(name, { turn: state.turn, ...value });
  } catch (error) {
    if (error.status === 423) look(error.message);
    throw error;
  }
}

// ---- whose turn it is -------------------------------------------------------------------------------

function look(why) {
  state.turn = "";
  state.why = why;
  show(null, state.begun);
  changed("turn");
}

// From now on this window marks, and another one that did so looks.
export async function takeTurn() {
  try {
    state.turn = (await post("turn", {})).turn;
  } catch (error) {
    if (error.status !== 423) throw error;
    look(error.message);
  }
}

export const markHere = () => inTurn(async () => {
  await takeTurn();
  await read();
  changed("turn");
});

// Read what was changed in other windows, by others, and by hand.
async function read() {
  const { film } = state;
  const found = await load("marks", { film: film.id });
  if (film !== state.film) return;
  Object.assign(film, found);
  prepare(film);
  if (!chosenMark()) state.chosen = null;
  changed("segments");
  changed("marks");
  changed("watched");
}

const prepare = (film) => (film.marks = new Map(film.marks.map((mark) => [keyOf(mark), mark])));

// A film was opened: its marks by their pictures.
export function openMarks(film) {
  prepare(film);
  state.chosen = null;
  state.begun = null;
}

export const refresh = () => inTurn(async () => {
  if (canMark()) await settle();
  await read();
});

addEventListener("focus", () => state.film?.can_mark && quietly(refresh));
