// The film page: changes of saved marks: drag, move, split, merge, delete.
"use strict";

const MAX_COMMENT = 2000; // letters
const GRIP = 6; // pixels around an edge at which it can be taken
let drag = null; // what the pointer moves: the mark, its part, where it was taken, and its new place
let wasDragged = false; // the click after a drag does not seek

const ownLane = () => film?.lanes?.find((lane) => lane.name === "your marks");

// Save changed marks, so that it can be undone. Pairs are states before and after.
const changeMarks = (text, pairs) => inTurn(async () => {
  const change = { kind: "marks", film: film.id, text, pairs };
  const wasSaved = await settleChange();
  const wanted = pairs.map(({ before, after }) => ({ from: before, to: after }));
  // Pressed again, because the answer did not come.
  if (wasSaved && !wanted.every(isKnownPair)) return tellSavedBefore();
  await sendChange({ change, step: "do" }, () => putMarks(wanted));
  keepSaved(pairs, "after");
  record(change);
  tell(t`Saved: ${text}. Key u takes it back.`);
});

// The mark of the person at a picture: the one in the form, or else the last that starts before it.
function markAt(picture) {
  const here = film.marks.filter((one) => one.start_frame <= picture && one.end_frame >= picture);
  here.sort((a, b) => a.start_frame - b.start_frame);
  return here.find((one) => one.mark === mark.mark) ?? here.at(-1);
}

// The mark that a key changes: the saved one in the form, or else the one at this picture.
function chosenMark() {
  const chosen = savedMark(mark.mark) ?? markAt(frame());
  if (!chosen) throw new Error(t`There is no mark of yours at this picture.`);
  return chosen;
}

function isVisible({ start_frame, end_frame }) {
  const [start, end] = spanOf(start_frame, end_frame);
  return now() >= start - EPS && now() < end;
}

function splitMark() {
  const picture = frame(), before = markAt(picture);
  if (!before) throw new Error(t`There is no mark of yours at this picture.`);
  if (before.start_frame === picture) throw new Error(t`The mark starts at this picture: go on at least one picture to split it.`);
  const first = { ...before, end_frame: picture - 1 };
  const second = { ...before, mark: newId(), start_frame: picture };
  return changeMarks(t`a mark split`, [{ before, after: first }, { before: null, after: second }]);
}

// Join the mark with the next one; the level is that of the first, and so are the tiers where it has a value.
function mergeMarks() {
  const first = chosenMark();
  const isAfter = (one) => one.start_frame > first.start_frame
    || (one.start_frame === first.start_frame && one.mark > first.mark);
  const later = film.marks.filter(isAfter).sort((a, b) => a.start_frame - b.start_frame || (a.mark > b.mark ? 1 : -1));
  const second = later[0];
  if (!second) throw new Error(t`There is no mark of yours after this one.`);
  const comment = [...new Set([first.comment, second.comment])].filter(Boolean).join("; ");
  if (comment.length > MAX_COMMENT) throw new Error(t`Not merged: a comment has at most ${MAX_COMMENT} letters, both together have ${comment.length}.`);
  const after = { ...first, end_frame: Math.max(first.end_frame, second.end_frame),
    concepts: [...new Set([...first.concepts, ...second.concepts])], comment, more: { ...first.more } };
  const lost = second.level === first.level ? [] : [t`, its level ${second.level} became ${first.level}`];
  for (const [tier, value] of Object.entries(tiersOf(second))) {
    const kept = first.more?.[tier] || value;
    if (value && kept !== value) lost.push(t`, its ${tier} ${value} became ${kept}`);
    after.more[tier] = kept;
  }
  return changeMarks(t`two marks merged${lost.join("")}`, [{ before: first, after }, { before: second, after: null }]);
}

function deleteMark() {
  const before = chosenMark();
  if (before.mark === mark.mark) {
    if (isUnsaved) forgetDraft(mark.mark);
    isUnsaved = false;
  }
  forgetFormChanges(before.mark);
  return changeMarks(t`a mark deleted`, [{ before, after: null }]);
}

function lastPicture() {
  return Math.max(Math.round(film.end * film.rate) - 1, 0);
}

function moveMark(pictures) {
  const before = chosenMark();
  const after = moved(before, pictures);
  if (after.start_frame === before.start_frame) return;
  return changeMarks(t`a mark moved`, [{ before, after }]);
}

function moved(one, pictures) {
  const least = -one.start_frame, most = Math.max(lastPicture() - one.end_frame, 0);
  const by = Math.min(Math.max(pictures, least), most);
  return { ...one, start_frame: one.start_frame + by, end_frame: one.end_frame + by };
}

// ---- drag ---------------------------------------------------------------------------------------

const timeAt = (event) => (event.offsetX + $("scroll").scrollLeft) / film.scale;

// The mark of the person under the pointer, and which part of it: an edge, or its body.
function partAt(event) {
  const lane = ownLane();
  if (form.hidden || !lane || event.offsetY < lane.y || event.offsetY >= lane.y + lane.height) return null;
  const time = timeAt(event), reach = GRIP / film.scale;
  const from = countUpTo(lane.reach, time - reach), to = countUpTo(lane.bars, time + reach, (bar) => bar.start);
  // The mark in the form first: it is drawn with thick edges.
  const near = lane.bars.slice(from, to).sort((a, b) => (b.mark === mark.mark) - (a.mark === mark.mark));
  const isNear = (edge) => Math.abs(edge - time) <= reach;
  for (const bar of near) {
    const isWide = (bar.end - bar.start) * film.scale > 3 * GRIP;
    if (isNear(bar.end) && (isWide || time > bar.start)) return { bar, part: "end_frame" };
    if (isNear(bar.start)) return { bar, part: "start_frame" };
  }
  const bar = near.find((one) => one.start <= time && one.end > time);
  return bar ? { bar, part: "body" } : null;
}

// The first picture after the boundary that is nearest to a time: that at the end of the film has none.
function boundaryAt(time) {
  const number = frameAt(time), [start, end] = spanOf(number, number);
  return time - start > end - time ? number + 1 : number;
}

function draggedMark(time) {
  const { before, part, taken } = drag;
  if (part === "body") return moved(before, boundaryAt(time) - boundaryAt(taken));
  const boundary = Math.min(Math.max(boundaryAt(time), 0), lastPicture() + 1);
  if (part === "start_frame") return { ...before, start_frame: Math.min(boundary, before.end_frame) };
  return { ...before, end_frame: Math.max(boundary - 1, before.start_frame) };
}

// Draw the mark at its new place, and show its picture there: the first, or at its end the last.
function showDragged(after) {
  const lane = ownLane(), [start, end] = spanOf(after.start_frame, after.end_frame);
  const bars = lane.bars.map((bar) => (bar.mark === after.mark ? { ...bar, start, end } : bar));
  putBars(lane.kind, lane.name, bars);
  const picture = drag.part === "end_frame" ? after.end_frame : after.start_frame;
  seek(spanOf(picture, picture)[0] + EPS);
}

// Draw a mark where it is saved.
function showSaved(id) {
  const saved = savedMark(id);
  changeLanes(new Set([id]), saved ? [saved] : []);
}

function startDrag(event) {
  wasDragged = false;
  const found = event.button === 0 && event.pointerType !== "touch" && film?.lanes && partAt(event);
  if (!found) return;
  const isInForm = found.bar.mark === mark.mark && isUnsaved;
  const before = isInForm ? { ...formState() } : savedMark(found.bar.mark);
  if (!before || !Number.isInteger(before.end_frame)) return;
  drag = { before, after: before, part: found.part, taken: timeAt(event), x: event.offsetX, isMoving: false, isInForm };
  event.target.setPointerCapture(event.pointerId);
}

function moveDrag(event) {
  if (!drag) {
    const part = film?.lanes && partAt(event)?.part;
    event.target.style.cursor = part === "body" ? "grab" : part ? "ew-resize" : "";
    return;
  }
  if (!drag.isMoving && Math.abs(event.offsetX - drag.x) < 4) return;
  if (!drag.isMoving) video.pause();
  drag.isMoving = true;
  const after = draggedMark(timeAt(event));
  const isSame = after.start_frame === drag.after.start_frame && after.end_frame === drag.after.end_frame;
  drag.after = after;
  if (!isSame) showDragged(after);
}

function endDrag() {
  if (!drag) return;
  const { before, after, isMoving, isInForm, part } = drag;
  drag = null;
  wasDragged = isMoving;
  const isSame = after.start_frame === before.start_frame && after.end_frame === before.end_frame;
  if (!isMoving) return;
  if (isSame) return showSaved(before.mark);
  if (isInForm) {
    Object.assign(mark, { start_frame: after.start_frame, end_frame: after.end_frame });
    showFrames();
    formChanged(t`the place of a mark`);
    return showSaved(before.mark);
  }
  const text = part === "body" ? t`a mark moved` : part === "end_frame" ? t`the end of a mark` : t`the start of a mark`;
  guarded(() => changeMarks(text, [{ before, after }]).catch((error) => {
    showSaved(before.mark);
    throw error;
  }));
}

function cancelDrag() {
  if (!drag) return false;
  const { before } = drag;
  drag = null;
  wasDragged = true;
  showSaved(before.mark);
  return true;
}

$("canvas").addEventListener("pointerdown", startDrag);
$("canvas").addEventListener("pointermove", moveDrag);
$("canvas").addEventListener("pointerup", endDrag);
$("canvas").addEventListener("pointercancel", cancelDrag);
