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

async function saveNote() {
  const shown = noteShown, text = formOfNote.elements.text.value;
  const body = JSON.stringify({ movie_id: shown.film, frame: shown.frame, text, before: shown.text });
  const answer = await send("api/note", { method: "POST", headers: { "Content-Type": "application/json" }, body });
  const reply = await answer.json();
  if (answer.status === 409) {
    shown.text = reply.text;
    throw new Error(t`Not saved: another window changed this note to “${reply.text}”. Press Save again to replace it.`);
  }
  if (!answer.ok) throw new Error(t`Not saved: ${messageOf(reply)}`);
  if (film.id !== shown.film) return;
  film.picture_notes = reply;
  noteShown = null;
  makeLanes();
  listNotes();
  tick();
  tell(text.trim() ? t`The note is saved.` : t`The note is deleted.`);
}

formOfNote.addEventListener("submit", (event) => (event.preventDefault(), guarded(saveNote)));
addEventListener("beforeunload", (event) => isNoteChanged() && event.preventDefault());
