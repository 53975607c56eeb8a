// The form beside the film: the mark that is chosen, or what is known of a new one.
import { MAX_COMMENT, levelText, markHere, markInForm, chosenMark, setComment, setLevel, switchConcept } from "./marks.js";
import { now, picture, startOf } from "./player.js";
import { canMark, on, state } from "./state.js";
import { $, clock, el, fill, guarded } from "./tools.js";

export const LEVEL_KEYS = [..."123456789"];
export const CONCEPT_KEYS = [..."123456789abcdefghijlmnopqrstuvwxyz"];

const comment = $("comment");
let commented = null; // the mark whose comment is in the field

// The concepts that a mark may have.
export function conceptNames() {
  const { concepts } = state.page;
  return [...Object.keys(concepts), ...markInForm().concepts.filter((name) => !(name in concepts))];
}

function choice(text, key, title, isChosen, act) {
  const facts = { type: "button", className: "choice", title, "aria-pressed": String(isChosen), onclick: () => guarded(act) };
  return el("button", facts, text, key && el("kbd", { "aria-hidden": "true" }, key));
}

function placeText(number, isEnd) {
  if (number === undefined) return "not set";
  const place = isEnd ? `before picture ${number + 1}` : `picture ${number}`;
  return `${clock(startOf(isEnd ? number + 1 : number), 2)}, ${place}`;
}

function showForm() {
  const { film, page } = state;
  $("mark").hidden = $("seen").hidden = !canMark();
  $("looks").hidden = !film?.can_mark || canMark();
  $("why-looks").textContent = `This window only looks: ${state.why}.`;
  $("not-shown").textContent = film?.notes.map((note) => `${note}.`).join(" ") ?? "";
  $("cannot-mark").hidden = !film?.problem;
  $("cannot-mark").textContent = film?.problem ? `You cannot mark before this is corrected: ${film.problem}` : "";
  if (!canMark()) return;
  const mark = markInForm();
  const levels = Object.keys(page.levels).map((level, number) => {
    const made = choice(level, LEVEL_KEYS[number], levelText(level), mark.level === level, () => setLevel(level));
    made.style.setProperty("--level", page.levels[level].color);
    return made;
  });
  fill($("levels"), ...levels);
  const concepts = conceptNames().map((name, number) => {
    const key = CONCEPT_KEYS[number];
    const meaning = page.concepts[name] ?? "not in the vocabulary";
    return choice(name, key && `k ${key}`, meaning || name, mark.concepts.includes(name), () => switchConcept(name));
  });
  fill($("concepts"), ...concepts);
  $("mark-title").textContent = chosenMark() ? "Your mark" : "New mark";
  $("first").textContent = placeText(mark.first, false);
  $("last").textContent = placeText(mark.last, true);
  // What somebody is writing stays while the mark is the same.
  if (commented !== state.chosen || document.activeElement !== comment) comment.value = mark.comment;
  commented = state.chosen;
}

function showTime() {
  const { film } = state;
  $("time").textContent = clock(now(), 3);
  $("picture").textContent = picture() === null ? "" : `picture ${picture()}`;
  const position = $("position");
  position.max = film.end_s;
  position.value = now();
  position.setAttribute("aria-valuetext", `${clock(now())} of ${clock(film.end_s)}`);
}

comment.maxLength = MAX_COMMENT;
comment.addEventListener("change", () => guarded(() => setComment(comment.value)));
$("mark-here").onclick = () => guarded(markHere);
on("film marks segments turn", showForm);
on("time", showTime);
