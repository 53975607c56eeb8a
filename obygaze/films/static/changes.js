// The film page: what was changed, in order, so that all of it can be undone and redone.
"use strict";

// A change is data: its kind, its film, a text, and what there was before and after it. Its inverse is
// the same with before and after exchanged.
const MOST_CHANGES = 1000;
let changes = [];
let nDone = 0; // the changes after these were undone

// How a change of each kind goes from one of its states ("before", "after") to the other.
const APPLY = {
  marks: async ({ pairs }, from, to) => {
    await putMarks(pairs.map((pair) => ({ from: pair[from], to: pair[to] })));
    keepSaved(pairs, to);
  },
  form: (change, from, to) => showFormState(change[to]),
  note: (change, from, to) => putNote(change.film, change.picture, change[to], change[from]),
  vocabulary: (change, from, to) => putVocabulary(change[to], change[from]),
  aside: ({ rows }, from, to) => putAside(rows, to === "before"),
  watched: ({ film: id, stretches }, from, to) => postWatched(id, stretches, to === "before"),
};

// Keep marks as they are saved: a concept may have got others above it since they were read.
function keepSaved(pairs, side) {
  for (const pair of pairs) if (pair[side]) pair[side] = savedMark(pair[side].mark) ?? pair[side];
}

// Tasks that change something run one after another: the second undo starts where the first one ended.
let lastTask = Promise.resolve();
function inTurn(task) {
  const done = lastTask.then(task);
  lastTask = done.catch(() => null);
  return done;
}

// A change of marks that was sent and whose answer did not come: it may be saved, as the program may have
// ended after it saved. It is looked up before the next one, so that nothing saved is missing in the list.
let unanswered = null;

// Send a change of marks; once it is saved it is in the list of changes.
async function sendChange(sent, send) {
  unanswered = sent;
  keepChanges();
  const reply = await send();
  unanswered = null;
  return reply;
}

// Find out whether the change without an answer was saved; return it if it was.
async function settleChange() {
  if (!unanswered) return null;
  const { change, step } = unanswered, goal = step === "undo" ? "before" : "after";
  const { marks } = await load("marks", { film: change.film });
  const isThere = change.pairs.every((pair) => {
    const now = marks.find((one) => one.mark === (pair.before ?? pair.after).mark);
    return pair[goal] ? now && isSameMark(now, pair[goal]) : !now;
  });
  const sent = unanswered;
  unanswered = null;
  if (isThere && step === "do") {
    if (change.pairs[0].after) forgetFormChanges(change.pairs[0].after.mark);
    record(change);
  } else if (isThere) nDone += step === "redo" ? 1 : -1;
  keepChanges();
  await refreshMarks();
  return isThere ? sent : null;
}

const tellSavedBefore = () => tell(t`It was saved before.`);

function record(change) {
  changes.length = nDone;
  changes.push({ film: film?.id, ...change });
  if (changes.length > MOST_CHANGES) changes.shift();
  nDone = changes.length;
  keepChanges();
}

// Forget the steps that led to a mark in the form: it is saved now, and undone as a whole.
function forgetFormChanges(id) {
  const isOther = (change) => change.kind !== "form" || change.after.mark !== id;
  nDone = changes.slice(0, nDone).filter(isOther).length;
  changes = changes.filter(isOther);
  keepChanges();
}

function applyChange(change, step) {
  const [from, to] = step === "undo" ? ["after", "before"] : ["before", "after"];
  const apply = () => APPLY[change.kind](change, from, to);
  return change.kind === "marks" ? sendChange({ change, step }, apply) : apply();
}

// The error of a step that finds a mark, a note or the vocabulary in another state than it left.
const outdated = (text, facts = {}) => Object.assign(new Error(text), { isOutdated: true, ...facts });

// Go one step back or on. One that cannot be taken any more does not keep those before and after it from it.
async function takeStep(change, step) {
  await goTo(change);
  try {
    await applyChange(change, step);
  } catch (error) {
    if (!error.isOutdated) throw error;
    unanswered = null;
    changes.splice(changes.indexOf(change), 1);
    if (step === "undo") nDone -= 1;
    keepChanges();
    throw new Error(t`${error.message} This step is left out of the list.`);
  }
  nDone += step === "undo" ? -1 : 1;
  keepChanges();
}

const undo = () => inTurn(async () => {
  noteForm();
  if ((await settleChange())?.step === "undo") return tellSavedBefore();
  const change = changes[nDone - 1];
  if (!change) return tell(t`There is nothing to undo.`);
  await takeStep(change, "undo");
  tell(t`Undone: ${change.text}.`);
});

const redo = () => inTurn(async () => {
  if ((await settleChange())?.step === "redo") return tellSavedBefore();
  const change = changes[nDone];
  if (!change) return tell(t`There is nothing to do again.`);
  await takeStep(change, "redo");
  tell(t`Done again: ${change.text}.`);
});

// Show the film of a change: what is undone should be seen.
async function goTo({ kind, film: id, pairs, picture }) {
  if (kind === "vocabulary") {
    if (!$("vocabulary").hidden) return;
    history.pushState(null, "", address({ vocabulary: "" }));
    return route();
  }
  if (id !== film?.id || $("film").hidden) {
    history.pushState(null, "", address({ film: id }));
    await route();
  }
  if (picture !== undefined && frame() !== picture) seek(spanOf(picture, picture)[0] + EPS);
  const changed = pairs?.[0].before ?? pairs?.[0].after;
  if (changed && !isVisible(changed)) seek(spanOf(changed.start_frame, changed.end_frame)[0] + EPS);
}

// Changes stay when the page is loaded again in this tab. A thousand of them are a long text, so they are
// not written while somebody waits for a save.
const changesName = () => `changes ${page.marks}`;
let changesTimer;

function keepChanges() {
  showUndo();
  clearTimeout(changesTimer);
  changesTimer = setTimeout(writeChanges, 300);
}

function writeChanges() {
  if (changesTimer === undefined) return;
  clearTimeout(changesTimer);
  changesTimer = undefined;
  try {
    sessionStorage.setItem(changesName(), JSON.stringify({ changes, nDone, unanswered }));
  } catch {
    // Without this storage, only this page knows what can be undone.
  }
}

addEventListener("pagehide", writeChanges);

function readChanges() {
  if (!page.annotator) return;
  try {
    ({ changes, nDone, unanswered = null } = JSON.parse(sessionStorage.getItem(changesName())) ?? { changes, nDone });
  } catch {
    [changes, nDone] = [[], 0];
  }
  showUndo();
}

function showUndo() {
  const [last, next] = [changes[nDone - 1], changes[nDone]];
  for (const name of ["undo", "vocabulary-undo"]) {
    $(name).disabled = !last;
    $(name).textContent = last ? t`Undo: ${last.text}` : t`Undo`;
  }
  for (const name of ["redo", "vocabulary-redo"]) {
    $(name).disabled = !next;
    $(name).textContent = next ? t`Redo: ${next.text}` : t`Redo`;
  }
}
