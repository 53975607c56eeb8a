// The film page: notes at pictures.
"use strict";

const formOfNote = $("note");
let noteShown = null; // the picture and the text of the note in the form

const ownNote = (number) => film.picture_notes.find((one) => one.frame === number && one.annotator === page.annotator)?.text ?? "";
const isNoteChanged = () => noteShown !== null && formOfNote.elements.text.value.trim() !== noteShown.text;

// Show the note of the picture, unless another one is being written.
function showNote() {
  const canNote = page.annotator && film.rate && film.unknown.length === 0;
  formOfNote.hidden = !canNote;
  const isSame = noteShown?.film === film.id && noteShown.frame === frame();
  if (!canNote || isSame || (isNoteChanged() && noteShown.film === film.id)) return;
  noteShown = { film: film.id, frame: frame(), text: ownNote(frame()) };
  formOfNote.elements.text.value = noteShown.text;
  $("note-picture").textContent = t`picture ${noteShown.frame}`;
}

function listNotes() {
  fill($("notes"), ...film.picture_notes.map((one) => {
    const start = spanOf(one.frame, one.frame)[0];
    const button = el("button", { type: "button", textContent: `${clock(start, 1)}` });
    button.onclick = () => guarded(async () => (await hold(), seek(start + EPS)));
    return el("li", {}, button, ` ${one.annotator}: ${one.text}`);
  }));
  $("notes-title").hidden = film.picture_notes.length === 0;
}

const saveNote = () => inTurn(async () => {
  const shown = noteShown, text = formOfNote.elements.text.value.trim(), before = shown.text;
  try {
    await putNote(shown.film, shown.frame, text, before);
  } catch (error) {
    if (error.newer === undefined) throw error;
    shown.text = error.newer;
    throw new Error(t`Not saved: another window changed this note to “${error.newer}”. Press Save again to replace it.`);
  }
  if (text !== before) record({ kind: "note", film: shown.film, text: t`a note`, picture: shown.frame, before, after: text });
  tell(text ? t`The note is saved.` : t`The note is deleted.`);
});

// Save the text of a note in place of another one; "" is none.
async function putNote(id, number, text, before) {
  const answer = await post("note", { movie_id: id, frame: number, text, before });
  const reply = await answer.json();
  if (answer.status === 409) throw outdated(t`Nothing is changed: another window changed this note.`, { newer: reply.text });
  if (!answer.ok) throw new Error(t`Not saved: ${messageOf(reply)}`);
  if (film.id !== id) return;
  film.picture_notes = reply;
  noteShown = null;
  if (!putBars("notes", "notes", noteBars())) makeLanes();
  listNotes();
  tick();
}

formOfNote.addEventListener("submit", (event) => (event.preventDefault(), guarded(saveNote)));
addEventListener("beforeunload", (event) => isNoteChanged() && event.preventDefault());
