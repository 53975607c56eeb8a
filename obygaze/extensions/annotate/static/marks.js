// The film page: the form of a mark.
"use strict";

const form = $("mark");
let mark = {}; // the mark in the form
let isUnsaved = false;
let nextStart; // the first picture of the next mark, if this one was ended by a cut
let nEdits = 0; // changes in the form, to see those that are made while a save runs

// crypto.randomUUID is missing in pages that came over plain http.
const newId = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const newMark = () => fillForm({ mark: newId(), version: 0, level: "", concepts: [], comment: "", start_frame: nextStart });

function edit(bar) {
  if (bar.mark && !form.hidden && !isUnsaved) fillForm(film.marks.find((one) => one.mark === bar.mark) ?? bar);
}

const choice = (type, name, value, text, title, checked) =>
  el("label", { title }, el("input", { type, name, value, checked: Boolean(checked) }), ` ${text}`);

function fillForm(wanted) {
  mark = { ...wanted, movie_id: wanted.movie_id ?? film?.id };
  nextStart = undefined;
  isUnsaved = false;
  fill($("mark-levels"), el("legend", {}, "Level"), ...Object.keys(page.levels).map((level) =>
    choice("radio", "level", level, levelText(level), "", level === mark.level)));
  fill($("mark-concepts"), el("legend", {}, "Concepts"), ...Object.entries(page.concepts).map(([name, meaning]) =>
    choice("checkbox", "concept", name, name, meaning, mark.concepts.includes(name))));
  form.elements.comment.value = mark.comment;
  $("mark-title").textContent = mark.version ? "Change your mark" : "Mark a segment";
  $("mark-file").textContent = page.marks;
  $("mark-delete").hidden = !mark.version;
  $("mark-theirs").hidden = $("mark-mine").hidden = true;
  showFrames();
}

function showFrames() {
  ["start_frame", "end_frame"].forEach((key, end) => {
    const place = end ? `before picture ${mark[key] + 1}` : `picture ${mark[key]}`;
    const text = mark[key] === undefined ? "not set" : `${clock(spanOf(mark[key], mark[key])[end], 2)}, ${place}`;
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
  markStatus(`Choose its level and save it: the next mark starts at picture ${nextStart}.`);
}

function setFrame(key, number) {
  mark[key] = number;
  if (key === "end_frame") nextStart = undefined; // this mark does not end at the cut any more
  isUnsaved = true;
  nEdits += 1;
  showFrames();
  if (!knowsPictures) markStatus("This browser does not say which picture it shows: compare the picture before you save.");
}

async function saveMark(changes = {}) {
  const concepts = [...form.querySelectorAll("[name=concept]:checked")].map((box) => box.value);
  const { level, comment } = form.elements;
  Object.assign(mark, { level: level.value, comment: comment.value, concepts });
  const needed = { start_frame: "its start", end_frame: "its end", level: "its level" };
  const missing = Object.keys(needed).filter((key) => (mark[key] ?? "") === "").map((key) => needed[key]);
  if (missing.length) return markStatus(`Not saved: choose ${missing.join(" and ")}.`);
  if (mark.end_frame < mark.start_frame) return markStatus("Not saved: it ends before it starts.");
  markStatus("Saving ...");
  isUnsaved = true;
  const edits = nEdits, saved = mark;
  try {
    const body = JSON.stringify({ ...mark, ...changes });
    const answer = await send("api/mark", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    const reply = await answer.json();
    if (answer.status === 409) return await refuse(reply.newer);
    if (!answer.ok) throw new Error(answer.status === 507 ? "the disk is full" : reply.error);
    markStatus(`${reply.deleted ? "Deleted" : "Saved"} at ${new Date().toLocaleTimeString()}.`);
    if (saved !== mark) return await refreshMarks(); // another mark is in the form by now
    if (edits === nEdits || reply.deleted) newMark();
    else {
      Object.assign(mark, { version: reply.version, state: reply.state });
      markStatus("Saved as it was when you pressed Save. What you changed since is not saved yet.");
    }
    await refreshMarks();
  } catch (error) {
    markStatus(`Not saved: ${error.message}. The mark stays in this form; press Save again.`);
  }
}

// Another window was faster; or it was this one, and the answer was lost.
async function refuse(newer) {
  const concepts = (one) => [...one.concepts].sort().join("|");
  const isSame = newer && concepts(newer) === concepts(mark)
    && ["start_frame", "end_frame", "level", "comment"].every((key) => newer[key] === mark[key]);
  if (isSame) newMark();
  else $("mark-theirs").hidden = $("mark-mine").hidden = false;
  mark.newer = newer;
  markStatus(isSame ? "It was saved before." : newer
    ? `Not saved: another window changed this mark to ${levelText(newer.level)}, pictures ${newer.start_frame} to ${newer.end_frame} (both are part of it), “${newer.comment}”.`
    : "Not saved: another window deleted this mark.");
  await refreshMarks();
}

// The form, if marks have a place and the table can be read; and the rows of the table that are no marks.
function showMarking() {
  const canMark = page.annotator && !page.queue && film.rate && film.unknown.length === 0 && !film.cannot_mark;
  $("mark").hidden = $("watched").hidden = !canMark;
  if (canMark) showWatched();
  const badRows = page.annotator ? film.bad_rows ?? [] : [];
  $("bad-rows").hidden = badRows.length === 0;
  $("bad-rows-file").textContent = page.marks;
  fill($("bad-rows-list"), ...badRows.map((row) => el("li", {}, `${row.problem} (${row.text})`)));
  $("cannot-mark").hidden = !film.cannot_mark;
  $("cannot-mark").textContent = film.cannot_mark ? `You cannot mark before this is corrected: ${film.cannot_mark}` : "";
}

const markStatus = (text) => ($("mark-status").textContent = text);

async function refreshMarks() {
  if (!film || !page.annotator) return;
  const own = film, { marks, segments, bad_rows, cannot_mark } = await load("film", { film: own.id });
  Object.assign(own, { marks, segments, bad_rows, cannot_mark });
  if (own !== film) return;
  showMarking();
  makeLanes();
  tick();
}

form.addEventListener("submit", (event) => (event.preventDefault(), saveMark()));
form.addEventListener("input", () => ((isUnsaved = true), (nEdits += 1)));
$("mark-new").onclick = newMark;
$("mark-delete").onclick = () => saveMark({ deleted: true });
$("mark-mine").onclick = () => saveMark({ version: mark.newer?.version ?? 0, state: mark.newer?.state });
$("mark-theirs").onclick = () => (mark.newer ? fillForm(mark.newer) : newMark());
$("set-aside").onclick = () => guarded(async () => {
  const answer = await send("api/set-aside", { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" });
  const reply = await answer.json();
  if (!answer.ok) throw new Error(messageOf(reply));
  await refreshMarks();
  tell(`These rows are in ${reply.path} now.`);
});
addEventListener("beforeunload", (event) => isUnsaved && event.preventDefault());
addEventListener("focus", () => guarded(refreshMarks));
