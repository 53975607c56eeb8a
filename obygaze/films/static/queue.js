// The film page: clips of a queue, which are judged one after another.
"use strict";

const judgeForm = $("judge");
let queued = null; // the clip that is judged, as the program sent it
let shownSince = 0; // when it was shown, or the window was seen again
let shownFor = 0; // milliseconds for which it was shown before that

// The place of a clip of the queue; without a position, of the first that is not judged yet.
async function placeInQueue(position) {
  queued = await load("queue", position === undefined ? {} : { position });
  shownFor = 0;
  shownSince = performance.now();
  const isDone = queued.position === null;
  $("judge-title").textContent = isDone ? t`All ${queued.clips} clips of the queue are judged` : t`Clip ${queued.position + 1} of ${queued.clips}: ${queued.clip_id}`;
  for (const part of judgeForm.querySelectorAll("fieldset, label, .row")) part.hidden = isDone;
  $("judge-suggestion").textContent = "";
  if (isDone) return { film: page.films[0].id };
  const { suggestion, mark: before } = queued;
  $("judge-suggestion").textContent = suggestion
    ? t`The model ${suggestion.model} suggests ${suggestion.levels.map(levelText).join(t` or `)} (score ${suggestion.score.toFixed(2)}).`
    : t`For this clip no suggestion is shown.`;
  fill($("judge-levels"), el("legend", {}, t`Level`), ...Object.keys(page.levels).map((level) =>
    choice("radio", "judge-level", level, levelText(level), "", level === before?.level)));
  fill($("judge-concepts"), el("legend", {}, t`Concepts`), ...Object.entries(page.concepts).map(([name, meaning]) =>
    choice("checkbox", "judge-concept", name, name, meaning, before?.concepts.includes(name))));
  if (!Object.keys(page.concepts).length) $("judge-concepts").append(withoutConcepts());
  judgeForm.elements["judge-comment"].value = before?.comment ?? "";
  $("judge-back").disabled = queued.position === 0;
  return { film: queued.film, t: queued.start + EPS };
}

function secondsShown() {
  const since = document.hidden ? 0 : performance.now() - shownSince;
  return (shownFor + since) / 1000;
}

async function judge() {
  const level = judgeForm.querySelector("[name=judge-level]:checked")?.value;
  if (!level) return judgeStatus(t`Not saved: choose its level.`);
  const concepts = [...judgeForm.querySelectorAll("[name=judge-concept]:checked")].map((box) => box.value);
  const body = JSON.stringify({
    position: queued.position, level, concepts, comment: judgeForm.elements["judge-comment"].value,
    seconds: secondsShown(), version: queued.mark?.version ?? 0, state: queued.mark?.state,
  });
  const answer = await send("api/judge", { method: "POST", headers: { "Content-Type": "application/json" }, body });
  const reply = await answer.json();
  if (!answer.ok) return judgeStatus(t`Not saved: ${messageOf(reply)}`);
  judgeStatus(t`Saved: ${queued.clip_id} is ${level}.`);
  await refreshMarks();
  await showQueued();
}

async function showQueued(position) {
  const place = await placeInQueue(position);
  if (!(await openFilm(place.film, place.t ?? 0))) return;
  judgeForm.hidden = false;
  $("judge-title").focus({ preventScroll: true });
}

const judgeStatus = (text) => ($("judge-status").textContent = text);

// Play the clip, and stop at its end.
let stopAt = null;
function playQueued() {
  seek(queued.start + EPS);
  stopAt = queued.end;
  video.play();
}

video.addEventListener("timeupdate", () => {
  if (stopAt === null || video.paused || film.at < stopAt - EPS) return;
  stopAt = null;
  video.pause();
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) shownFor += performance.now() - shownSince;
  else shownSince = performance.now();
});
judgeForm.addEventListener("submit", (event) => (event.preventDefault(), guarded(judge)));
$("judge-play").onclick = () => guarded(playQueued);
$("judge-back").onclick = () => guarded(() => showQueued(queued.position - 1));
$("judge-next").onclick = () => guarded(() => showQueued());
