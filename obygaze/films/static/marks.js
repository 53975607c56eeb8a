// The film page: the form of a mark, and how marks are saved.
"use strict";

const form = $("mark");
let mark = {}; // the mark in the form
let isUnsaved = false;
let nextStart; // the first picture of the next mark, if this one was ended by a cut
let nEdits = 0; // changes in the form, to see those that are made while a save runs
let lastForm = {}; // the state of the form after the last change of it that can be undone

// crypto.randomUUID is missing in pages that came over plain http.
const newId = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const newMark = () => fillForm({ mark: newId(), version: 0, level: "", concepts: [], comment: "", start_frame: nextStart });

const conceptsOf = (one) => [...one.concepts].sort().join("|");
const isSameMark = (one, other) => conceptsOf(one) === conceptsOf(other)
  && ["start_frame", "end_frame", "level", "comment"].every((key) => one[key] === other[key])
  && JSON.stringify(tiersOf(one)) === JSON.stringify(tiersOf(other));
const savedMark = (id) => film.marks.find((one) => one.mark === id);

// ---- the form -----------------------------------------------------------------------------------

function edit(bar) {
  if (bar.mark && !form.hidden && !isUnsaved) fillForm(savedMark(bar.mark) ?? bar);
}

const choice = (type, name, value, text, title, checked, key, depth = 0) => el("label", { title, className: depth ? "below" : "" },
  el("input", { type, name, value, checked: Boolean(checked) }), ` ${text}`, key && el("kbd", { "aria-hidden": "true" }, key));

function fillForm(wanted) {
  mark = { ...wanted, movie_id: wanted.movie_id ?? film?.id };
  nextStart = undefined;
  isUnsaved = false;
  fill($("mark-levels"), el("legend", {}, t`Level`), ...Object.keys(page.levels).map((level, number) =>
    choice("radio", "level", level, levelText(level), "", level === mark.level, LEVEL_KEYS[number])));
  fill($("mark-concepts"), el("legend", {}, t`Concepts`), ...conceptNames(mark).map((name, number) =>
    choice("checkbox", "concept", name, name, page.concepts[name] ?? t`not in the vocabulary`, mark.concepts.includes(name),
      CONCEPT_KEYS[number] && `k ${CONCEPT_KEYS[number]}`, depthOf(name))));
  if (!conceptNames(mark).length) $("mark-concepts").append(withoutConcepts());
  showTiers(mark);
  form.elements.comment.value = mark.comment;
  $("mark-title").textContent = mark.version ? t`Change your mark` : t`Mark a segment`;
  $("mark-file").textContent = page.marks;
  $("mark-delete").hidden = !mark.version;
  $("mark-theirs").hidden = $("mark-mine").hidden = true;
  lastForm = formState();
  showFrames();
}

function formState() {
  const checked = [...form.querySelectorAll("[name=concept]:checked")].map((box) => box.value);
  const { level, comment } = form.elements;
  const { newer, ...values } = mark;
  const more = { ...values.more, ...tiersInForm() };
  return { ...values, level: level?.value ?? "", comment: comment.value, concepts: checked, more, isUnsaved };
}

function showFormState({ isUnsaved: wasUnsaved, ...state }) {
  fillForm(state);
  isUnsaved = wasUnsaved;
  lastForm = formState();
  nEdits += 1;
  keepDraft();
}

// Something in the form was changed; `text` says what.
function formChanged(text) {
  isUnsaved = true;
  nEdits += 1;
  keepDraft();
  noteForm(text);
}

function noteForm(text = t`the form of a mark`) {
  const state = formState();
  const isSame = isSameMark(state, lastForm) && state.mark === lastForm.mark;
  if (form.hidden || isSame) return;
  record({ kind: "form", text, before: lastForm, after: state });
  lastForm = state;
}

// The person wants an empty form: what was in it can be taken back.
function discardMark() {
  noteForm();
  const before = formState();
  if (isUnsaved) forgetDraft(mark.mark);
  newMark();
  if (before.isUnsaved) record({ kind: "form", text: t`the form of a mark emptied`, before, after: formState() });
}

function showFrames() {
  ["start_frame", "end_frame"].forEach((key, end) => {
    const isSet = Number.isInteger(mark[key]);
    const place = end ? t`before picture ${mark[key] + 1}` : t`picture ${mark[key]}`;
    const text = isSet ? `${clock(spanOf(mark[key], mark[key])[end], 2)}, ${place}` : t`not set`;
    $(key).textContent = text;
  });
  drawSoon();
}

// A segment ends before the picture that is shown, where the next one may start. Only the last
// picture of the film has none after it.
function lastBeforeThis() {
  const last = Math.round(film.end * film.rate) - 1;
  return frame() >= last ? frame() : frame() - 1;
}

// End this mark before the picture, and start the next one with it.
function cutHere() {
  setFrame("end_frame", frame() - 1);
  nextStart = frame();
  if (form.elements.level.value) return saveMark();
  markStatus(t`Choose its level and save it: the next mark starts at picture ${nextStart}.`);
}

function setFrame(key, number) {
  mark[key] = number;
  if (key === "end_frame") nextStart = undefined; // this mark does not end at the cut any more
  showFrames();
  formChanged(key === "end_frame" ? t`the end of a mark` : t`the start of a mark`);
  if (!knowsPictures) markStatus(t`This browser does not say which picture it shows: compare the picture before you save.`);
}

// If the form is empty, the mark of the person at this picture.
function takeMarkHere() {
  const isEmpty = !mark.version && !isUnsaved;
  const here = isEmpty && markAt(frame());
  if (here) fillForm(here);
}

function chooseLevel(number) {
  const level = Object.keys(page.levels)[number];
  if (!level) return;
  takeMarkHere();
  form.querySelectorAll("[name=level]")[number].checked = true;
  formChanged(t`level ${level}`);
  markStatus(t`Level ${levelText(level)}. Enter saves the mark.`);
}

function switchConcept(number) {
  takeMarkHere();
  const name = conceptNames(mark)[number];
  if (!name) return tell(t`No concept has this key.`);
  const box = form.querySelectorAll("[name=concept]")[number];
  box.checked = !box.checked;
  formChanged(t`concept ${name}`);
  markStatus(t`${name}: ${box.checked ? t`marked` : t`not marked`}. Enter saves the mark.`);
}

// ---- save ---------------------------------------------------------------------------------------

const post = (name, value) => send(`api/${name}`,
  { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) });

const saveMark = (wanted = {}) => inTurn(() => saveForm(wanted));

async function saveForm(wanted) {
  const state = formState();
  Object.assign(mark, { level: state.level, comment: state.comment, concepts: state.concepts, more: state.more });
  const needed = { start_frame: t`its start`, end_frame: t`its end`, level: t`its level` };
  const missing = Object.keys(needed).filter((key) => (mark[key] ?? "") === "").map((key) => needed[key]);
  if (missing.length) return markStatus(t`Not saved: choose ${missing.join(t` and `)}.`);
  if (mark.end_frame < mark.start_frame) return markStatus(t`Not saved: it ends before it starts.`);
  markStatus(t`Saving ...`);
  isUnsaved = true;
  const edits = nEdits, saved = mark;
  try {
    const found = await settleChange();
    const wasSaved = found?.step === "do" && found.change.pairs[0].after;
    if (wasSaved && wasSaved.mark === saved.mark && isSameMark(wasSaved, saved)) {
      forgetDraft(saved.mark);
      newMark();
      return markStatus(t`It was saved before.`);
    }
    const before = saved.newer === undefined ? savedMark(saved.mark) : saved.newer;
    const text = before ? t`a changed mark` : t`a new mark`;
    const change = { kind: "marks", film: saved.movie_id, text, pairs: [{ before: before ?? null, after: { ...saved, newer: undefined } }] };
    const [answer, reply] = await sendChange({ change, step: "do" }, async () => {
      const sent = await post("mark", { ...saved, newer: undefined, tiers: tiersOf(saved), ...wanted });
      return [sent, await sent.json()];
    });
    if (answer.status === 409) return await refuse(reply.newer);
    if (!answer.ok) throw new Error(answer.status === 507 ? t`the disk is full` : reply.error);
    markStatus(t`Saved at ${new Date().toLocaleTimeString(locale)}.`);
    forgetDraft(reply.mark);
    forgetFormChanges(reply.mark);
    takeMarks([reply]);
    const pair = { before: before ?? null, after: savedMark(reply.mark) };
    if (pair.after) record({ kind: "marks", text, pairs: [pair] });
    if (saved !== mark) return; // another mark is in the form by now
    if (edits === nEdits) newMark();
    else {
      Object.assign(mark, { version: reply.version, state: reply.state, newer: undefined });
      markStatus(t`Saved as it was when you pressed Save. What you changed since is not saved yet.`);
      keepDraft();
    }
  } catch (error) {
    markStatus(t`Not saved: ${error.message}. The mark stays in this form; press Save again.`);
  }
}

// Another window was faster; or it was this one, and the answer was lost.
async function refuse(newer) {
  const isSame = newer && isSameMark(newer, mark);
  if (isSame) {
    forgetDraft(mark.mark);
    newMark();
  } else $("mark-theirs").hidden = $("mark-mine").hidden = false;
  mark.newer = isSame ? undefined : newer;
  markStatus(isSame ? t`It was saved before.` : newer
    ? t`Not saved: another window changed this mark to ${levelText(newer.level)}, pictures ${newer.start_frame} to ${newer.end_frame} (both are part of it), “${newer.comment}”.`
    : t`Not saved: another window deleted this mark.`);
  await refreshMarks();
}

// Whether the mark of a pair is now as the pair has it before the change.
function isKnownPair({ from, to }) {
  const now = savedMark((from ?? to).mark);
  return now && from ? isSameMark(now, from) : !now && !from;
}

// Save pairs of marks, from one state to another, all or none; null is no mark.
async function putMarks(pairs) {
  const wanted = pairs.map(({ from, to }) => {
    const now = savedMark((from ?? to).mark);
    if (!isKnownPair({ from, to })) throw outdated(t`Nothing is changed: this mark was changed since, in another window or by hand.`);
    return { ...(to ?? from), tiers: tiersOf(to ?? from), version: now?.version ?? 0, state: now?.state, deleted: !to };
  });
  const answer = await post("marks", { changes: wanted });
  const reply = await answer.json();
  if (answer.status === 409) {
    await refreshMarks();
    throw outdated(t`Not saved: ${messageOf(reply)}`);
  }
  if (!answer.ok) throw new Error(answer.status === 507 ? t`Not saved: the disk is full.` : t`Not saved: ${messageOf(reply)}`);
  takeMarks(reply);
}

// Put marks, as the program has them now, into the film that is shown.
function takeMarks(saved) {
  const ofFilm = saved.filter((one) => one.movie_id === film?.id);
  const ids = new Set(ofFilm.map((one) => one.mark));
  const left = ofFilm.filter((one) => !one.deleted).map(({ deleted, ...state }) => state);
  film.marks = [...film.marks.filter((one) => !ids.has(one.mark)), ...left];
  const shown = ofFilm.find((one) => one.mark === mark.mark);
  if (shown && !isUnsaved) shown.deleted ? newMark() : fillForm(savedMark(shown.mark));
  changeLanes(ids, left);
  tick();
}

// The form, if marks have a place and the table can be read; and the rows of the table that are no marks.
function showMarking() {
  const canMark = page.annotator && !page.queue && film.rate && film.unknown.length === 0 && !film.cannot_mark;
  $("mark").hidden = $("watched").hidden = $("edits").hidden = !canMark;
  if (canMark) showWatched();
  const badRows = page.annotator ? film.bad_rows ?? [] : [];
  $("bad-rows").hidden = badRows.length === 0;
  $("bad-rows-file").textContent = page.marks;
  fill($("bad-rows-list"), ...badRows.map((row) => el("li", {}, `${row.problem} (${row.text})`)));
  $("cannot-mark").hidden = !film.cannot_mark;
  $("cannot-mark").textContent = film.cannot_mark ? t`You cannot mark before this is corrected: ${film.cannot_mark}` : "";
}

const markStatus = (text) => ($("mark-status").textContent = text);

// Show what was changed in other windows, by others, and by hand.
async function refreshMarks() {
  if (!film || !page.annotator) return;
  const own = film, known = own.marks_state;
  const { marks, only_changed, segments, marks_state, bad_rows, cannot_mark } = await load("marks", { film: own.id, known });
  if (own !== film) return;
  Object.assign(film, { marks_state, bad_rows, cannot_mark });
  showMarking();
  if (only_changed) takeMarks(marks);
  else film.marks = marks;
  if (segments) film.segments = segments;
  if (only_changed && !segments) return;
  makeLanes();
  tick();
}

// ---- drafts: what is in the form outlives this window --------------------------------------------

let isDraftKept = true;
let draftTimer;

function keepDraft() {
  isDraftKept = false;
  clearTimeout(draftTimer);
  draftTimer = setTimeout(() => guarded(sendDraft), 400);
}

async function sendDraft() {
  clearTimeout(draftTimer);
  const { isUnsaved: hasDraft, ...state } = formState();
  const edits = nEdits;
  const sent = { movie_id: mark.movie_id, mark: mark.mark, form: hasDraft ? state : null };
  const body = JSON.stringify(sent);
  const answer = await send("api/draft", { method: "POST", keepalive: true, headers: { "Content-Type": "application/json" }, body });
  if (!answer.ok) throw new Error(t`The draft of this mark is not kept: ${messageOf(await answer.json())}`);
  if (edits === nEdits) isDraftKept = true;
}

function forgetDraft(id) {
  clearTimeout(draftTimer);
  isDraftKept = true;
  guarded(() => post("draft", { movie_id: film.id, mark: id, form: null }));
}

// Put the latest draft of the film into the form.
function openDraft() {
  const draft = (film.drafts ?? [])[0];
  if (form.hidden || isUnsaved || !draft) return;
  const { form: state, mark: id, when } = draft;
  const saved = savedMark(id);
  if (saved && isSameMark(saved, state)) return forgetDraft(id);
  fillForm({ ...state, mark: id, version: state.version ?? 0, state: state.state || undefined,
    start_frame: state.start_frame ?? undefined, end_frame: state.end_frame ?? undefined });
  isUnsaved = true;
  lastForm = formState();
  markStatus(t`This is your draft of ${new Date(when).toLocaleString(locale)}: it is not saved yet.`);
}

form.addEventListener("submit", (event) => (event.preventDefault(), saveMark()));
form.addEventListener("input", () => {
  isUnsaved = true;
  nEdits += 1;
  keepDraft();
});
form.addEventListener("change", ({ target }) => noteForm(target.name === "comment" ? t`a comment` : `${target.dataset.tier ?? target.name} ${target.value}`));
$("mark-new").onclick = discardMark;
$("mark-delete").onclick = () => press("Delete");
$("mark-mine").onclick = () => saveMark({ version: mark.newer?.version ?? 0, state: mark.newer?.state });
$("mark-theirs").onclick = () => {
  forgetDraft(mark.mark);
  if (mark.newer) fillForm(mark.newer);
  else newMark();
};
// Move rows that are no marks into a table of their own, all or those given; or `back` from there.
async function putAside(rows, back = false) {
  const answer = await post("set-aside", { rows, back });
  const reply = await answer.json();
  if (answer.status === 400) throw outdated(messageOf(reply));
  if (!answer.ok) throw new Error(messageOf(reply));
  await refreshMarks();
  return reply;
}

$("set-aside").onclick = () => guarded(() => inTurn(async () => {
  const { path, rows } = await putAside(null);
  record({ kind: "aside", text: t`rows set aside`, rows });
  tell(t`These rows are in ${path} now.`);
}));
addEventListener("beforeunload", (event) => isUnsaved && !isDraftKept && event.preventDefault());
addEventListener("pagehide", () => isUnsaved && !isDraftKept && guarded(sendDraft));
// In turn with changes: an answer from before a save must not be shown after it.
addEventListener("focus", () => guarded(() => inTurn(refreshMarks)));
setInterval(() => isUnsaved && !isDraftKept && guarded(sendDraft), 5000);
