// The marks of the person: each change is saved at once, and can be undone.
//
// A mark is whole, and is saved, once it has its start, its end and its level. What is known of a mark
// before that is in `state.begun`. A change goes to the server with the state of the mark that it was
// made from; changes are sent one after another.
import { picture } from "./player.js";
import { changed, state } from "./state.js";
import { Stopped, clock, load, post, quietly, tell } from "./tools.js";

export const MAX_COMMENT = 2000;
const REFRESH_MS = 3000;

const known = new Map(); // the marks as the server last said, of all films that were shown, by id
let unanswered = null; // a change whose answer was lost: it may be saved
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

// A new mark has its id from the beginning: what is sent again, because its answer was lost, is one mark.
const emptyMark = () => ({ mark: crypto.randomUUID(), concepts: [], comment: "" });

export const chosenMark = () => state.film?.marks.get(state.chosen) ?? null;

// The mark in the form: the chosen one, or what is known of a new one.
export const markInForm = () => chosenMark() ?? state.begun ?? emptyMark();

export const levelText = (level) => (state.page.levels[level] ? `${level} ${state.page.levels[level].name}` : level);

function show(chosen, begun = null) {
  state.chosen = chosen;
  state.begun = begun;
  changed("marks");
}

export const choose = (id) => inFilm(() => show(id));

// If the form is empty, put the last mark into it that begins before or at a picture and has it.
function takeMarkAt(here) {
  if (chosenMark() || state.begun) return;
  let found = null;
  for (const mark of state.film.marks.values()) {
    const isHere = mark.start_frame <= here && mark.end_frame >= here;
    if (isHere && (!found || mark.start_frame >= found.start_frame)) found = mark;
  }
  if (found) show(found.mark);
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
  const parts = { start_frame: "its start", end_frame: "its end", level: "its level" };
  return Object.keys(parts).filter((part) => (mark[part] ?? "") === "").map((part) => parts[part]);
}

// ---- change ---------------------------------------------------------------------------------------

// Change the mark in the form, or a new one; `change` returns the values of some of its parts.
async function edit(text, change) {
  await settle();
  const before = chosenMark();
  if (before) {
    const after = { ...before, ...change(before) };
    if (!isSame(before, after)) await save({ text, before, after });
    return;
  }
  const was = state.begun;
  const begun = { ...emptyMark(), ...was };
  Object.assign(begun, change(begun));
  const missing = missingOf(begun);
  show(null, begun); // it stays in the form if it cannot be saved
  if (missing.length) {
    record({ text, film: state.film.id, before: null, after: null, begun: { before: was, after: begun } });
    tell(`${text}. To save the mark, choose ${missing.join(" and ")}.`);
    return;
  }
  const after = { ...begun, movie_id: state.film.id };
  await save({ text, before: null, after, begun: { before: was, after: null } });
}

// What a key does is about the picture that was shown when it was pressed; it runs in turn.
const here = (task) => {
  const shown = picture();
  return inFilm(() => task(shown));
};

const startAt = (first) => edit(`The mark starts at picture ${first}`, () => ({ start_frame: first }));

function endAt(last) {
  if (last < markInForm().start_frame) throw new Error("Not saved: it would end before it starts.");
  return edit(`The mark ends before picture ${last + 1}`, () => ({ end_frame: last }));
}

// After the end of the mark in the form, a start is that of a new mark.
export const setStart = () => here((shown) => {
  if (markInForm().end_frame < shown) show(null);
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
  const concepts = isMarked ? others : [...others, name];
  return edit(`${name} is ${isMarked ? "not marked" : "marked"}`, () => ({ concepts }));
});

export const setComment = (comment) => inFilm(() => edit("The comment", () => ({ comment })));

export const setSpan = (id, text, start_frame, end_frame) => inFilm(() => {
  const before = state.film.marks.get(id);
  return before && save({ text, before, after: { ...before, start_frame, end_frame } });
});

// A stretch that was drawn becomes a mark as soon as it has a level.
export const beginSpan = (start_frame, end_frame) => inFilm(() => {
  show(null);
  return edit("A stretch is drawn", () => ({ start_frame, end_frame }));
});

export const remove = () => here((shown) => {
  if (!state.begun) return save({ text: "A mark deleted", before: markAt(shown), after: null });
  record({ text: "A new mark discarded", film: state.film.id, before: null, after: null, begun: { before: state.begun, after: null } });
  show(null);
  tell("Discarded.");
});

// ---- undo -----------------------------------------------------------------------------------------

function record(change) {
  state.undo.push(change);
  state.redo = [];
  changed("undo");
}

const takeBack = (from, to, isUndo) => inTurn(async () => {
  const change = from.at(-1);
  if (!change) return tell(isUndo ? "There is nothing to undo." : "There is nothing to do again.");
  const [before, after] = isUndo ? [change.after, change.before] : [change.before, change.after];
  try {
    if (before || after) await put(before, after);
  } catch (error) {
    // What somebody else has changed since cannot be taken back any more.
    if (error.isOutdated) from.pop();
    throw error;
  } finally {
    changed("undo");
  }
  from.pop();
  to.push(change);
  if (change.film === state.film?.id) showChange(change, isUndo ? "before" : "after");
  changed("undo");
  tell(`${isUndo ? "Undone" : "Done again"}: ${change.text}.`);
});

// Put what a change is about into the form, as it is on one side of the change.
function showChange(change, side) {
  const mark = change[side];
  const isThere = mark && state.film.marks.has(mark.mark);
  show(isThere ? mark.mark : null, isThere ? null : change.begun?.[side] ?? null);
}

export const undo = () => takeBack(state.undo, state.redo, true);
export const redo = () => takeBack(state.redo, state.undo, false);

// ---- save -----------------------------------------------------------------------------------------

const PARTS = ["start_frame", "end_frame", "level", "comment"];
const isSame = (one, other) => PARTS.every((part) => one[part] === other[part])
  && [...one.concepts].sort().join("|") === [...other.concepts].sort().join("|");
const isAlike = (one, other) => (one && other ? isSame(one, other) : !one && !other);

const outdated = (text) => Object.assign(new Error(text), { isOutdated: true });

// Save a change, so that it can be undone.
async function save(change) {
  const made = { film: state.film.id, ...change };
  try {
    made.after = await put(made.before, made.after);
  } catch (error) {
    if (error instanceof Stopped) unanswered = made;
    throw error;
  }
  accept(made);
  tell(`${made.text}. Saved.`);
}

function accept(change) {
  record(change);
  if (change.film === state.film?.id) showChange(change, "after");
}

// Save a mark that was `before` as it is to be `after`; null is no mark. Returns it as it is saved: above
// a concept of a vocabulary the server marks another one.
async function put(before, after) {
  await settle();
  const { mark, movie_id, start_frame, end_frame, level, concepts, comment } = after ?? before;
  const newest = known.get(mark) ?? null;
  if (after && isAlike(newest, after)) return newest; // it arrived late, and was read meanwhile
  if (!isAlike(newest, before)) throw outdated("Nothing is changed: this mark was changed since, in another window or by hand.");
  const values = { mark, movie_id, start_frame, end_frame, level, concepts, comment };
  let saved;
  try {
    saved = await post("marks", { ...values, state: newest?.state ?? null, deleted: !after });
  } catch (error) {
    if (error.status === 409) {
      await read();
      const there = known.get(mark) ?? null;
      if (after && isAlike(there, after)) return there; // it was saved, and its answer was lost
      throw outdated(otherWindow(mark));
    }
    const isLost = error instanceof Stopped; // perhaps only the answer
    error.message = `${isLost ? "Perhaps not saved" : "Not saved"}: ${error.message}`;
    throw error;
  }
  take([saved]);
  return after && saved;
}

function otherWindow(mark) {
  const newest = known.get(mark);
  if (!newest) return "Not saved: another window deleted this mark.";
  const place = `${clock(newest.start, 1)} to ${clock(newest.end, 1)}`;
  return `Not saved: another window changed this mark to ${levelText(newest.level)}, ${place}. Press the key again to change it all the same.`;
}

// If the answer to the last change was lost, ask whether it is saved.
async function settle() {
  const change = unanswered;
  if (!change || change.film !== state.film?.id) return;
  await read();
  unanswered = null;
  const { before, after } = change;
  if (isAlike(known.get((before ?? after).mark) ?? null, after)) accept(change);
}

// Put marks, as the server has them now, into the film that is shown.
function take(marks) {
  for (const { deleted, ...mark } of marks) {
    if (deleted) known.delete(mark.mark);
    else known.set(mark.mark, mark);
    if (mark.movie_id !== state.film?.id) continue;
    if (deleted) state.film.marks.delete(mark.mark);
    else state.film.marks.set(mark.mark, mark);
  }
  if (!chosenMark()) state.chosen = null;
  changed("marks");
}

// Read what was changed in other windows, by others, and by hand.
async function read() {
  const { film } = state;
  const { marks, segments, ...facts } = await load("marks", { film: film.id, known: film.state });
  if (film !== state.film) return;
  Object.assign(film, facts);
  if (!marks) return; // all is as it was
  const chosen = chosenMark();
  for (const id of film.marks.keys()) known.delete(id);
  film.marks = new Map();
  film.segments = segments;
  take(marks);
  changed("segments");
  const newest = chosen && known.get(chosen.mark);
  if (chosen && !newest) tell("Another window deleted this mark.");
  else if (chosen && !isSame(chosen, newest)) tell(`Meanwhile another window changed this mark: it is ${levelText(newest.level)} now.`);
}

// A film was opened: its marks by id.
export function openMarks(film) {
  for (const mark of film.marks) known.set(mark.mark, mark);
  film.marks = new Map(film.marks.map((mark) => [mark.mark, mark]));
  state.chosen = null;
  state.begun = null;
}

const refresh = () => state.film?.can_mark && !document.hidden && quietly(() => inTurn(async () => {
  await settle();
  await read();
}));

addEventListener("focus", refresh);
setInterval(refresh, REFRESH_MS);
