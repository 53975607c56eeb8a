// The film page. All text is inserted as text, so that no title or comment can be markup.
"use strict";

const $ = (id) => document.getElementById(id);
const exported = typeof EXPORTED === "undefined" ? null : EXPORTED;
const INK = "#26251f", MUTED = "#68655c", LINE = "#dedbd2", MODEL = "#2f5d8a", DIFFERS = "#a8324a";
const EPS = 1e-6; // seconds; times that differ by less are equal
const BATCH = 60; // clips that are added to the grid at once
let page; // what all parts need: films, clips, levels, concepts, the run
let cell = null; // the chosen model of the run; none, until somebody or the protocol names one
let model = null; // its scores, and what the run says of it

// ---- small tools --------------------------------------------------------------------------------

function el(tag, facts = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(facts)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter(Boolean));
  return made;
}

const fill = (parent, ...children) => parent.replaceChildren(...children.filter(Boolean));

async function send(address, options) {
  const lost = () => { throw new Error("obygaze view has stopped; start it again and open its new address"); };
  return fetch(address, options).catch(lost);
}

async function load(name, asked = {}) {
  if (exported) return exported[[name, ...Object.values(asked).slice(0, 1)].join(" ")];
  const answer = await send(`api/${name}?${new URLSearchParams(asked)}`);
  const found = await answer.json();
  if (!answer.ok) throw new Error(messageOf(found));
  return found;
}

const messageOf = ({ error, hint }) => (hint ? `${error}. Try: ${hint}` : error);

let silence;
function tell(text) {
  $("status").textContent = text;
  clearTimeout(silence);
  silence = setTimeout(() => ($("status").textContent = ""), 9000);
}

const guarded = (task) => Promise.resolve().then(task).catch((error) => tell(error.message));

function clock(seconds, digits = 0) {
  const units = Math.round(seconds * 10 ** digits), whole = Math.floor(units / 10 ** digits);
  const two = (n) => String(n % 60).padStart(2, "0");
  const rest = digits ? "." + String(units % 10 ** digits).padStart(digits, "0") : "";
  return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60))}:${two(whole)}${rest}`;
}

// The number of items of a sorted list that are not above a value.
function countUpTo(list, value, of = (item) => item) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (of(list[middle]) <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function options(select, pairs, chosen = select.value) {
  fill(select, ...pairs.map(([value, text]) => el("option", { value, textContent: text })));
  select.value = chosen;
  if (select.selectedIndex < 0) select.selectedIndex = 0;
}

const address = (facts) => "#" + new URLSearchParams(facts);
const clipOf = (id) => page.clips.find((clip) => clip.id === id);
const titleOf = (id) => page.films.find((one) => one.id === id)?.title ?? id;
const levelText = (level) => (page.levels[level] ? `${level} ${page.levels[level].name}` : level);

function levelMark(level) {
  if (!level) return null;
  const made = el("span", { className: `level ${level}`, title: levelText(level), textContent: level });
  made.style.background = page.levels[level]?.color ?? "";
  return made;
}

function scoreText(one) {
  if (one.score === undefined) return "";
  const band = one.fits > 1 ? ` (${one.low.toFixed(2)} to ${one.high.toFixed(2)} in ${one.fits} fits)` : "";
  const decision = one.positive ? "positive" : "negative";
  return `score of the model ${one.score.toFixed(2)}${band}, ${decision}: ${one.correct ? "agrees with" : "differs from"} the annotation`;
}

// ---- the grid of clips --------------------------------------------------------------------------

const ORDERS = {
  film: ["as in the film", () => 0],
  errors: ["farthest from the annotation first", (a, b) => farFromAnnotation(b) - farFromAnnotation(a)],
  high: ["highest score first", (a, b) => (b.score ?? -1e9) - (a.score ?? -1e9)],
  low: ["lowest score first", (a, b) => (a.score ?? 1e9) - (b.score ?? 1e9)],
};
let found = []; // the clips of the grid
let shown = 0; // how many of them are there already
let cosines = null; // of each clip with a text, if one is searched
let nChoices = 0;

function farFromAnnotation(clip) {
  if (!model) return 0;
  const middle = (model.scale[0] + model.scale[1]) / 2;
  return clip.correct === false ? Math.abs(clip.score - middle) : -1;
}

function prepareFilters() {
  const { film, level, concept, order } = $("filters").elements;
  const levels = Object.keys(page.levels).filter((name) => page.clips.some((clip) => clip.level === name));
  options(film, [["", "all"], ...page.films.map((one) => [one.id, one.title])]);
  options(level, [["", "all"], ...levels.map((name) => [name, levelText(name)])]);
  options(concept, [["", "all"], ...Object.keys(page.concepts).map((name) => [name, name])]);
  options(order, Object.entries(ORDERS).map(([name, [text]]) => [name, text]));
  level.parentNode.hidden = concept.parentNode.hidden = page.blind;
  order.parentNode.hidden = !model;
  if (!model) order.value = "film";
  $("where-label").hidden = $("text-label").hidden = page.blind || Boolean(exported);
}

async function chooseClips() {
  const choice = ++nChoices, { film, level, concept, order, where, text } = $("filters").elements;
  const [expression, words] = [where.value.trim(), text.value.trim()];
  let allowed, ranked;
  try {
    if (words) $("n-clips").textContent = "Searching ...";
    allowed = expression ? new Set(await load("where", { expression })) : null;
    ranked = words ? new Map(await load("search", { text: words })) : null;
  } catch (error) {
    if (choice === nChoices) showClips([], error.message);
    return;
  }
  if (choice !== nChoices) return; // something else was chosen in the meantime
  cosines = ranked;
  order.disabled = Boolean(cosines);
  const fits = (clip) => (!film.value || clip.film === film.value)
    && (!level.value || clip.level === level.value)
    && (!concept.value || clip.concepts.includes(concept.value))
    && (!allowed || allowed.has(clip.id))
    && (!cosines || cosines.has(clip.id));
  const byText = (a, b) => cosines.get(b.id) - cosines.get(a.id);
  const clips = page.clips.filter(fits).sort(cosines ? byText : ORDERS[order.value][1]);
  const orderText = cosines ? `, the most like “${words}” first` : "";
  showClips(clips, `${clips.length} of ${page.clips.length} clips${orderText}`);
}

function showClips(clips, message) {
  found = clips;
  shown = 0;
  $("n-clips").textContent = message;
  $("grid").replaceChildren();
  addClips();
}

function addClips() {
  $("grid").append(...found.slice(shown, shown + BATCH).map((clip) => el("li", {}, card(clip, cosines && similarityText(cosines.get(clip.id))))));
  shown = $("grid").children.length;
  $("more").hidden = shown >= found.length;
}

function thumbnail(clip) {
  const blank = el("span", { className: "blank" });
  const number = exported?.pictures.indexOf(clip.id);
  if (number < 0) return blank;
  const src = exported ? `thumb/${number}.jpg` : `thumb/${encodeURIComponent(clip.id)}`;
  return el("img", { loading: "lazy", alt: "", src, onerror: (event) => event.target.replaceWith(blank) });
}

const placeText = (clip) => (clip.start !== null ? clock(clip.start) : clip.scene === null ? "" : `scene ${clip.scene}`);

const similarityText = (cosine) => `similarity ${cosine.toFixed(3)} (cosine)`;

function card(clip, similarity) {
  return el("a", { className: "card", href: address({ clip: clip.id }) }, thumbnail(clip),
    el("span", {},
      el("strong", {}, clip.id), `${titleOf(clip.film)} ${placeText(clip)} `, levelMark(clip.level),
      el("span", { className: "note" }, clip.concepts.join(", ")),
      el("span", { className: clip.correct === false && !similarity ? "differs" : "" }, similarity ?? scoreText(clip)),
      clip.missing && el("span", { className: "note" }, `no features: ${clip.missing}`)));
}

// ---- a film: its lanes --------------------------------------------------------------------------

const HEIGHTS = { shots: 10, watched: 8, level: 22, found: 12, score: 50, gap: 12, concept: 12 };
const COLORS = { watched: "#9aa7b0", found: MODEL, gap: "#e6c9c9", concept: "#7d8f74" };
const LONGEST_GAP = 1; // seconds between clips that are shown as one stretch
const TOP = 20, GAP = 5; // above all lanes, for the time, and below each
let film = null; // the document of the film that is shown, with its lanes and state

// Start and end of frames in seconds: exact if the times of the pictures of its one video are known.
function spanOf(first, last) {
  const times = film.pieces.length === 1 && film.times.get(film.pieces[0].key);
  if (!times) return [first / film.rate, (last + 1) / film.rate];
  return [times[Math.min(first, times.length - 1)], times[Math.min(last + 1, times.length - 1)]];
}

function makeLanes() {
  const lanes = [], groups = new Map();
  const add = (kind, name, bars, label = name) => bars.length && lanes.push(laneOf(kind, name, bars, label));
  const group = (name, bar) => (groups.get(name) ?? groups.set(name, []).get(name)).push(bar);
  const framed = (one) => {
    const [start, end] = spanOf(one.start_frame, one.end_frame);
    return { ...one, start, end };
  };
  const clips = page.clips.filter((clip) => clip.film === film.id && film.spans[clip.id])
    .map((clip) => ({ ...clip, start: film.spans[clip.id][0], end: film.spans[clip.id][1] }))
    .sort((a, b) => a.start - b.start);
  const [shots, segments, marks] = film.rate ? [film.shots, film.segments, film.marks] : [[], [], []];
  for (const one of segments) group(one.annotator, framed(one));
  for (const clip of clips) group(clip.annotator, clip);
  add("shots", "shots", shots.map(([start_frame, end_frame]) => framed({ start_frame, end_frame })));
  if (page.annotator && film.rate) add("watched", "watched", film.watched.map(([start_frame, end_frame]) => framed({ start_frame, end_frame })), "you watched");
  add("level", "your marks", marks.map(framed), `${page.annotator} (you)`);
  for (const name of [...groups.keys()].filter(Boolean).sort()) add("level", name, groups.get(name));
  add("level", "clips", groups.get("") ?? [], page.blind ? "clips" : "clips: annotated level");
  add("found", "found", inARow(clips), "found by the model");
  add("score", "score", clips.filter((clip) => clip.score !== undefined), `score, line at ${model && cutOff()}`);
  add("gap", "no features", clips.filter((clip) => clip.missing));
  const source = conceptSource(lanes.filter((lane) => lane.kind === "level"));
  for (const name of Object.keys(page.concepts)) {
    const bars = (source?.bars ?? []).filter((bar) => bar.concepts.includes(name));
    add("concept", name, bars.map((bar) => ({ ...bar, source: source.label })));
  }
  film.lanes = lanes;
  film.end = Math.max(film.end, 1, ...lanes.map((lane) => lane.reach.at(-1)));
  placeLanes();
}

// The lane whose concepts are shown: those of several annotators in one lane would look like agreement.
function conceptSource(lanes) {
  options($("concept-source"), lanes.map((lane) => [lane.name, lane.label]));
  $("concept-source-label").hidden = lanes.length < 2;
  return lanes.find((lane) => lane.name === $("concept-source").value);
}

function laneOf(kind, name, bars, label) {
  let furthest = 0;
  bars.sort((a, b) => a.start - b.start);
  return { kind, name, label, bars, reach: bars.map((bar) => (furthest = Math.max(furthest, bar.end))) };
}

// The intervals of clips in a row that the model decided are positive.
function inARow(clips) {
  const runs = [];
  let last = null;
  for (const clip of clips) {
    if (last && clip.start > last.end + LONGEST_GAP) last = null; // nobody looked at the time between
    if (clip.positive && !last) runs.push((last = { start: clip.start, end: clip.end, n: 0 }));
    if (clip.positive) [last.end, last.n] = [clip.end, last.n + 1];
    else last = null;
  }
  return runs;
}

function placeLanes() {
  const above = matchMedia("(max-width: 48rem)").matches ? 13 : 0; // else names are beside the lanes
  film.height = TOP;
  for (const lane of film.lanes) {
    lane.y = film.height + above;
    lane.height = HEIGHTS[lane.kind];
    film.height = lane.y + lane.height + GAP;
  }
  fill($("lane-names"), ...film.lanes.map((lane) => {
    const name = el("li", { title: page.concepts[lane.name] ?? lane.label }, lane.label);
    name.style.top = `${above ? lane.y - above : lane.y + lane.height / 2 - 7}px`;
    return name;
  }));
  options($("lane-choice"), film.lanes.filter((lane) => lane.kind !== "score").map((lane) => [lane.name, lane.label]));
  const ratio = devicePixelRatio || 1, canvas = $("canvas"), width = $("scroll").clientWidth;
  [canvas.width, canvas.height] = [width * ratio, film.height * ratio];
  [canvas.style.width, canvas.style.height] = [`${width}px`, `${film.height}px`];
  $("lane-names").style.minHeight = `${film.height}px`;
  zoom(1);
}

function zoom(factor) {
  const width = $("scroll").clientWidth, least = width / film.end;
  // No browser lays out an element of more than some 30 million pixels.
  film.scale = Math.max(Math.min((film.scale ?? 0) * factor, 400, 8e6 / film.end), least);
  $("wide").style.width = `${film.end * film.scale}px`;
  if (factor !== 1) $("scroll").scrollLeft = now() * film.scale - width / 2;
  draw();
}

let isAsked = false;
function drawSoon() {
  if (!isAsked) requestAnimationFrame(() => ((isAsked = false), draw()));
  isAsked = true;
}

function draw() {
  if (!film?.lanes) return;
  const g = $("canvas").getContext("2d"), ratio = devicePixelRatio || 1, width = $("scroll").clientWidth;
  const from = $("scroll").scrollLeft / film.scale, to = from + width / film.scale;
  const x = (time) => (time - from) * film.scale;
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, film.height);
  g.font = "11px system-ui, sans-serif";
  drawTimes(g, x, from, to);
  for (const lane of film.lanes) {
    let last = -9;
    for (let i = countUpTo(lane.reach, from); i < lane.bars.length && lane.bars[i].start < to; i++) {
      const left = Math.max(x(lane.bars[i].start), -2), right = Math.min(x(lane.bars[i].end), width + 2);
      if (right < last + 0.5 && right - left < 1) continue; // within the pixel of the bar before
      last = right;
      const drawBar = { score: drawScore, level: drawLevel }[lane.kind] ?? drawPlain;
      drawBar(g, lane, lane.bars[i], left, Math.max(right - left - 0.5, 0.5), i);
    }
  }
  g.fillStyle = INK;
  g.fillRect(x(now()) - 0.75, 0, 1.5, film.height);
}

function drawTimes(g, x, from, to) {
  const steps = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600];
  const step = steps.find((seconds) => seconds * film.scale > 70) ?? 7200;
  for (let time = Math.ceil(from / step) * step; time <= to; time += step) {
    g.fillStyle = LINE;
    g.fillRect(x(time), 0, 1, film.height);
    g.fillStyle = MUTED;
    g.fillText(clock(time), x(time) + 3, 12);
  }
}

function drawPlain(g, lane, bar, left, width, number) {
  g.fillStyle = COLORS[lane.kind] ?? (number % 2 ? "#b9b5a9" : "#8d897d");
  g.fillRect(left, lane.y, width, lane.height);
}

function drawLevel(g, lane, bar, left, width) {
  const isChosen = bar.mark && bar.mark === mark.mark;
  g.fillStyle = page.levels[bar.level]?.color ?? "#f0eee8";
  g.fillRect(left, lane.y, width, lane.height);
  g.strokeStyle = isChosen ? INK : "#8888";
  g.lineWidth = isChosen ? 3 : 1;
  if (width > 4 || isChosen) g.strokeRect(left + 0.5, lane.y + 0.5, Math.max(width - 1, 1), lane.height - 1);
  if (width < 26) return;
  g.save();
  g.beginPath();
  g.rect(left, lane.y, width - 2, lane.height);
  g.clip();
  g.fillStyle = bar.level === "S" ? "#fff" : INK;
  g.fillText(`${bar.level}  ${bar.concepts.join(", ")}`, left + 4, lane.y + lane.height / 2 + 4);
  g.restore();
}

function drawScore(g, lane, bar, left, width) {
  const [low, high] = model.scale;
  const at = (value) => lane.y + lane.height * (1 - (value - low) / (high - low || 1));
  g.fillStyle = LINE;
  g.fillRect(left, at((low + high) / 2), width, 1);
  g.fillStyle = bar.correct ? "#2f5d8a33" : "#a8324a33";
  g.fillRect(left, at(bar.high), width, Math.max(at(bar.low) - at(bar.high), 1));
  g.fillStyle = bar.correct ? MODEL : DIFFERS;
  g.fillRect(left, at(bar.score) - 1, width, 2.5);
  // A decision that differs has a mark, too: colour alone is not seen by everybody.
  if (!bar.correct && width > 8) g.fillText("✕", left + width / 2 - 4, lane.y + lane.height - 2);
}

function barsAt(lane, time) {
  const after = countUpTo(lane.bars, time, (bar) => bar.start);
  return lane.bars.slice(countUpTo(lane.reach, time), after).filter((bar) => bar.end > time);
}

function describe(lane, bar) {
  const facts = [levelText(bar.level), bar.concepts?.join(", "), bar.comment && `“${bar.comment}”`];
  const texts = {
    watched: () => "you watched this",
    shots: () => `shot from ${clock(bar.start, 1)} to ${clock(bar.end, 1)}`,
    found: () => `found by the model: ${bar.n === 1 ? "1 clip" : `${bar.n} clips in a row`}`,
    score: () => scoreText(bar),
    gap: () => `no features: ${bar.missing}`,
    concept: () => `${lane.name}, in ${bar.id ? `clip ${bar.id}` : "a segment"} of ${bar.source}`,
    level: () => `${bar.id ? `clip ${bar.id}` : lane.label}: ${facts.filter(Boolean).join("; ")}`,
  };
  return texts[lane.kind]();
}

// ---- a film: watch ------------------------------------------------------------------------------

const video = $("video");

function pieceAt(time) {
  const piece = film.pieces[countUpTo(film.pieces, time + EPS, (one) => one.start) - 1];
  return piece && (time < piece.end + EPS || film.pieces.length === 1) ? piece : null;
}

// The number, in its file, of the picture that a piece shows; null if their times are not known.
function numberAt(piece, time) {
  const times = piece && film.times.get(piece.key);
  if (!times) return null;
  const number = countUpTo(times, time - piece.start + piece.offset + EPS) - 1;
  return Math.min(Math.max(number, 0), times.length - 2);
}

// A time at which a picture is shown: not at its ends, where players differ, and near its beginning,
// because Chromium takes a picture of a varying rate to end with its packet.
const inside = (times, number) => times[number] + Math.min((times[number + 1] - times[number]) / 2, 0.002);

// When the picture that is shown begins.
function now() {
  const piece = film.piece, number = numberAt(piece, film.at);
  return number === null ? film.at : Math.max(film.times.get(piece.key)[number] - piece.offset, 0) + piece.start;
}

// The number of the picture that is shown, in the film.
function frame() {
  const piece = film.piece, number = numberAt(piece, film.at);
  return number === null ? Math.floor(film.at * film.rate + EPS) : piece.frame + number - numberAt(piece, piece.start);
}

async function loadTimes(piece) {
  if (exported || film.times.has(piece.key)) return;
  film.times.set(piece.key, null);
  const own = film, answer = await send(`times/${piece.key}`).catch(() => null);
  if (answer?.ok) {
    const [origin, ...times] = new Float64Array(await answer.arrayBuffer());
    own.times.set(piece.key, times);
    own.origins.set(piece.key, origin); // the time in the file at which the others are 0
  }
  if (own === film && answer?.ok) {
    makeLanes();
    if (video.paused) seek(film.at);
  }
}

function seek(time) {
  film.at = Math.min(Math.max(time, 0), film.end - EPS);
  const piece = pieceAt(film.at);
  show(piece);
  if (piece) {
    const number = numberAt(piece, film.at), times = film.times.get(piece.key);
    const local = number === null ? film.at - piece.start + piece.offset : inside(times, number);
    film.at = local - piece.offset + piece.start;
    film.wanted = { number, tries: number === null ? [] : [(times[number] + times[number + 1]) / 2, times[number + 1] - 0.002] };
    if (!piece.refused) turnTo(local);
    if (piece.refused && number !== null) $("still").src = `still/${piece.key}?picture=${number}`;
  }
  const left = film.at * film.scale - $("scroll").scrollLeft, width = $("scroll").clientWidth;
  if (left < 0 || left > width) $("scroll").scrollLeft += left - width / 3;
  tick();
}

const originOf = (piece) => film.origins.get(piece.key) ?? 0;

function turnTo(local) {
  film.wanted.local = local;
  if (!video.readyState) return; // it turns there once it is loaded
  video.currentTime = local + originOf(film.piece);
  video.requestVideoFrameCallback?.(check);
}

// Whether the browser shows the picture that was asked for. It estimates how long pictures are shown,
// so that with a varying rate another time within the picture may be needed.
function check(_, { mediaTime }) {
  const times = film?.times.get(film.piece?.key), { number, tries } = film?.wanted ?? {};
  if (!times || number === null || !video.paused || video.hidden) return;
  const seen = countUpTo(times, mediaTime - originOf(film.piece) + 0.0006) - 1;
  if (seen === number) return;
  if (tries.length) turnTo(tries.shift());
  else tell(`Your browser shows picture ${seen} of this video in place of picture ${number}.`);
}

// ---- a film: which picture is on the screen, and what was watched --------------------------------

// What the browser says it presents: the piece, and the time in its file. `timeupdate` may be up to
// 250 ms old, and the video's own time is that of its clock, not that of the picture.
let presented = null;
let isHeld = false; // the page itself stopped the video, at a picture that it knows

const knowsPictures = "requestVideoFrameCallback" in HTMLVideoElement.prototype;

function watchPictures(_, { mediaTime }) {
  const piece = film?.piece;
  if (piece && !video.hidden) {
    presented = { piece, local: mediaTime - originOf(piece) };
    if (!video.paused && !video.seeking) {
      film.at = timeOfPresented();
      noteWatched(frame());
      showTime();
    }
  }
  video.requestVideoFrameCallback(watchPictures);
}

// The time on the axis of the picture that is presented. Its time in the file is rounded by browsers.
function timeOfPresented() {
  const { piece, local } = presented, times = film.times.get(piece.key);
  if (!times) return local - piece.offset + piece.start;
  const number = Math.min(Math.max(countUpTo(times, local + 0.0006) - 1, 0), times.length - 2);
  return inside(times, number) - piece.offset + piece.start;
}

// After two rendering steps the browser has reported the last picture that it brought to the screen.
// In a hidden window there are none.
const reported = () => new Promise((done) => {
  requestAnimationFrame(() => requestAnimationFrame(done));
  setTimeout(done, 200);
});

// Stop at the picture that is on the screen, and make the browser show just that one.
async function hold() {
  if (video.paused || video.hidden || !film?.piece) return;
  const held = film;
  isHeld = true;
  video.pause();
  await reported();
  if (film !== held || !film.piece) return;
  if (presented?.piece === film.piece) film.at = timeOfPresented();
  else followClock();
  seek(film.at);
}

function followClock() {
  film.at = video.currentTime - originOf(film.piece) - film.piece.offset + film.piece.start;
}

// Pictures that were watched since they were last sent to the program, as stretches.
let unsent = [];
let lastWatched = null; // the film and the number of the last picture that was watched

function noteWatched(number) {
  if (!page.annotator || !film.rate) return;
  const before = lastWatched;
  lastWatched = { film: film.id, number };
  // A browser that is busy leaves pictures out; a seek is a longer way.
  const isNext = before?.film === film.id && number >= before.number && number <= before.number + film.rate;
  const stretch = unsent.at(-1);
  if (isNext && stretch?.film === film.id) stretch.end = Math.max(stretch.end, number);
  else unsent.push({ film: film.id, start: isNext ? before.number : number, end: number });
}

async function sendWatched() {
  const stretches = unsent;
  unsent = [];
  for (const id of new Set(stretches.map((one) => one.film))) {
    const ofFilm = stretches.filter((one) => one.film === id);
    try {
      await postWatched(id, ofFilm.map((one) => [one.start, one.end]));
    } catch (error) {
      // The next time, again; but what the program refuses, it would refuse again.
      if (!error.isRefused) unsent = [...ofFilm, ...unsent];
      tell(`What you watched is not saved: ${error.message}`);
    }
  }
}

async function postWatched(id, stretches) {
  const body = JSON.stringify({ movie_id: id, stretches });
  const answer = await send("api/watched", { method: "POST", keepalive: true, headers: { "Content-Type": "application/json" }, body });
  const reply = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(messageOf(reply)), { isRefused: answer.status < 500 });
  if (film?.id !== id) return;
  film.watched = reply;
  showWatched();
}

function showWatched() {
  const all = Math.max(1, Math.round(film.end * film.rate));
  const seen = film.watched.reduce((sum, [first, last]) => sum + last - first + 1, 0);
  $("watched-share").textContent = `You have watched ${Math.min(100, Math.floor((100 * seen) / all))} % of this film.`;
  if (film.lanes) makeLanes();
}

$("watched-all").onclick = () => guarded(async () => {
  await postWatched(film.id, [[0, Math.max(0, Math.round(film.end * film.rate) - 1)]]);
  tell("All of the film counts as watched: time without marks is EN.");
});
setInterval(() => unsent.length && video.paused && guarded(sendWatched), 1000);
setInterval(() => unsent.length && guarded(sendWatched), 5000);
addEventListener("pagehide", () => unsent.length && guarded(sendWatched));

// Show a piece: its video, or why there is none.
function show(piece) {
  if (piece === film.piece) return;
  film.piece = piece;
  const plays = piece && !piece.refused, source = plays ? `media/${piece.key}` : "";
  video.hidden = !plays;
  $("still").hidden = !piece?.refused;
  $("refused").textContent = plays ? "" : exported ? "This page was exported without videos."
    : !piece ? "There is no video for this part of the film."
    : `Browsers do not play this video (${piece.refused}), so single pictures are shown. obygaze view --proxy makes a copy that plays.`;
  if (piece) loadTimes(piece);
  if ((video.getAttribute("src") ?? "") === source) return;
  video.replaceChildren();
  if (!source) return video.removeAttribute("src");
  video.src = source;
  const track = { kind: "subtitles", label: "Subtitles", src: `subtitles/${piece.key}` };
  if (piece.subtitles) video.append(el("track", track));
}

function showTime() {
  $("time").textContent = clock(now(), 3);
  $("picture").textContent = film.rate ? `picture ${frame()}` : "";
  drawSoon();
}

// Write what is at this time, in words.
function tick() {
  showTime();
  const lanes = film.lanes.filter((lane) => lane.kind !== "concept"); // clips and segments name them
  const lines = lanes.flatMap((lane) => barsAt(lane, now() + EPS).map((bar) => [bar, describe(lane, bar)]));
  fill($("here"), ...lines.map(([bar, text]) =>
    el("li", {}, bar.id && text.startsWith("clip") ? el("a", { href: address({ clip: bar.id }) }, text) : text)));
  drawSoon();
}

// Follow the video while it plays, and go on with the next one.
function follow() {
  const piece = film?.piece;
  if (!piece || video.hidden || video.seeking) return;
  // At the end of a piece the clock is ahead of the picture.
  const clockTime = video.currentTime - originOf(piece) - piece.offset + piece.start;
  if (!video.paused && presented?.piece !== piece) followClock();
  const next = film.pieces[film.pieces.indexOf(piece) + 1];
  if (next && (video.ended || clockTime >= piece.end - EPS)) {
    film.plays = true;
    return seek(next.start + EPS);
  }
  if (film.at * film.scale - $("scroll").scrollLeft > $("scroll").clientWidth) $("scroll").scrollLeft = film.at * film.scale;
  tick();
}

for (const name of ["timeupdate", "ended"]) video.addEventListener(name, follow);
if (knowsPictures) video.requestVideoFrameCallback(watchPictures);
video.addEventListener("play", () => (isHeld = false));
// The person stopped it with the video's own controls: the number shown must be that of the picture.
video.addEventListener("pause", () => {
  if (isHeld || video.ended || video.seeking || !film?.piece || video.hidden) return;
  if (presented?.piece === film.piece) film.at = timeOfPresented();
  seek(film.at);
});
video.addEventListener("loadedmetadata", () => {
  turnTo(film.wanted.local);
  if (film.plays) video.play();
  film.plays = false;
});
video.addEventListener("error", () => {
  if (!film?.piece || !video.getAttribute("src")) return;
  film.piece.refused = video.error?.message || "it cannot be read";
  film.piece = null;
  seek(film.at);
});

// Whether the film was opened: another one may have been chosen while it was loading.
let nOpened = 0;
async function openFilm(id, time) {
  const opened = ++nOpened;
  if (film?.id !== id) {
    const made = await load("film", { film: id });
    if (opened !== nOpened) return false;
    presented = null;
    film = { ...made, times: new Map(), origins: new Map(), at: time };
    video.removeAttribute("src");
    nextStart = undefined; // it is a picture of the film before
    newMark();
  }
  const { run, blind } = page;
  const isScored = run && model;
  $("film-title").textContent = film.title;
  $("film-notes").textContent = [
    `${page.dataset}. The time line counts ${film.axis}.`,
    page.annotator && film.axis.startsWith("clips") && "Your marks get the numbers of pictures in this row: those of the film only if the clips are all of it.",
    isScored && `Scores: ${run.cells[cell]}, run ${run.name}; each clip is scored by models that were not trained on it.`,
    isScored && model.leaked && `But ${model.leaked} clips of this test were used in training: these scores are too good.`,
    isScored && model.text,
    isScored && `A score is the ${model.unit}; at ${cutOff()}, the line in its lane, the decision changes.`,
    blind && "Blind: predictions and what others marked are hidden.", ...film.notes].filter(Boolean).join(" ");
  $("next-error").hidden = !isScored;
  showMarking();
  makeLanes();
  seek(time);
  return true;
}

// ---- keys ---------------------------------------------------------------------------------------

function step(pictures) {
  const piece = film.piece, number = numberAt(piece, film.at), place = film.pieces.indexOf(piece);
  if (number === null) return seek(film.at + pictures / (film.rate || 25));
  const times = film.times.get(piece.key), wanted = number + pictures;
  const time = inside(times, wanted) - piece.offset + piece.start;
  if (time > piece.start && time < piece.end) seek(time);
  else if (film.pieces[place + pictures]) seek(pictures > 0 ? film.pieces[place + 1].start + EPS : film.pieces[place - 1].end - 2 * EPS);
}

function jump(name, direction, fits = () => true) {
  const lane = film.lanes.find((one) => one.name === name), from = now() + 2 * EPS * direction;
  const bars = (lane?.bars ?? []).filter((bar) => fits(bar) && (bar.start - from) * direction > 0);
  const bar = direction > 0 ? bars[0] : bars.at(-1);
  if (!bar) return tell(`nothing further in the lane “${lane?.label ?? name}”`);
  seek(bar.start + EPS);
  edit(bar);
  tell(`${clock(bar.start)}: ${describe(lane, bar)}`);
}

async function copyLink() {
  // Rounded up, so that the time is not before the picture begins.
  const time = (Math.ceil(now() * 1e6) / 1e6).toFixed(6);
  const link = location.href.split("#")[0] + address({ film: film.id, t: time });
  history.replaceState(null, "", link);
  await navigator.clipboard?.writeText(link).catch(() => null);
  tell(`The address of this page leads to this time now: ${link}`);
}

const KEYS = {
  n: () => jump($("lane-choice").value, 1),
  p: () => jump($("lane-choice").value, -1),
  e: () => jump("score", 1, (bar) => !bar.correct),
  ".": () => step(1),
  ",": () => step(-1),
  " ": () => (video.paused ? video.play() : video.pause()),
  "+": () => zoom(2),
  "-": () => zoom(0.5),
  0: () => zoom(0),
  c: copyLink,
  i: () => setFrame("start_frame", frame()),
  o: () => setFrame("end_frame", lastBeforeThis()),
  x: cutHere,
};

function press(key) {
  if (!film || $("film").hidden || !KEYS[key] || ("iox".includes(key) && $("mark").hidden)) return false;
  guarded(async () => {
    if ("npe.,iox".includes(key)) await hold();
    await KEYS[key]();
  });
  return true;
}

document.addEventListener("keydown", (event) => {
  const at = document.activeElement, isFree = at === document.body || at === $("main") || $("film").contains(at);
  // Keys of one letter work only while the film has the focus, and not in fields.
  if (!isFree || at.matches("input:not([type=radio], [type=checkbox]), textarea, select")) return;
  if (event.ctrlKey || event.metaKey || event.altKey || (event.key === " " && at.matches("button, summary, a, video, input"))) return;
  if (press(event.key)) event.preventDefault();
});

// ---- marks --------------------------------------------------------------------------------------

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

function fillForm(wanted) {
  mark = { ...wanted, movie_id: wanted.movie_id ?? film?.id };
  nextStart = undefined;
  isUnsaved = false;
  const choice = (type, name, value, text, title, checked) =>
    el("label", { title }, el("input", { type, name, value, checked }), ` ${text}`);
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
  const canMark = page.annotator && film.rate && film.unknown.length === 0 && !film.cannot_mark;
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

// ---- a clip -------------------------------------------------------------------------------------

async function openClip(id, switched = {}) {
  const named = (state) => Object.keys(switched).filter((name) => switched[name] === state).join("|");
  const facts = await load("clip", { clip_id: id, on: named("on"), off: named("off") });
  const clip = { ...facts, ...model?.scores[id] };
  $("clip-title").textContent = clip.id;
  fill($("clip-facts"), `${titleOf(clip.film)}, ${placeText(clip)} `, levelMark(clip.level),
    ` ${page.levels[clip.level]?.name ?? ""}${clip.concepts.length ? `: ${clip.concepts.join(", ")}` : ""}`);
  const more = [scoreText(clip), clip.comment, clip.missing && `no features: ${clip.missing}`, ...clip.notes];
  $("clip-more").textContent = more.filter(Boolean).join("; ");
  $("clip-watch").href = address({ film: clip.film, clip: clip.id });
  const sheet = $("sheet");
  sheet.onerror = () => (sheet.hidden = true);
  sheet.hidden = Boolean(exported);
  sheet.alt = `Twelve pictures of ${clip.id} in their order, with their times`;
  if (!exported) sheet.src = `sheet/${encodeURIComponent(clip.id)}`;
  $("maps").hidden = !clip.maps.length;
  fill($("map-sheets"), ...clip.maps.map((direction) => mapSheet(clip, direction)));
  $("why").hidden = !clip.explanation;
  if (clip.explanation) explain(clip, switched);
  $("similar").hidden = !clip.nearest?.length;
  fill($("similar-clips"), ...(clip.nearest ?? []).map(([other, cosine]) => {
    const text = similarityText(cosine), known = clipOf(other);
    return el("li", {}, known ? card(known, text) : `${other}: ${text}`);
  }));
}

// The sheet of one direction, with what it is worth; if it cannot be drawn, the reason.
function mapSheet(clip, { name: direction, about }) {
  const number = exported?.maps.findIndex(([id, name]) => id === clip.id && name === direction);
  const src = exported ? `thumb/map${number}.png` : `map/${encodeURIComponent(clip.id)}?${new URLSearchParams({ direction })}`;
  const sheet = el("img", { loading: "lazy", src, alt: `The pictures of ${clip.id} with the map of ${direction}` });
  const why = async () => (exported ? "there is no picture" : messageOf(await (await send(src)).json()));
  sheet.onerror = () => guarded(async () => sheet.replaceWith(el("p", { className: "note" }, await why())));
  return el("section", {}, el("h3", { title: page.concepts[direction] ?? "" }, direction), el("p", { className: "note" }, about), sheet);
}

function explain(clip, switched) {
  const why = clip.explanation, percent = (share) => `${(100 * share).toFixed(1)} %`;
  const most = Math.max(...why.concepts.map((one) => Math.abs(one.adds)), EPS);
  const isSwitched = Object.values(switched).some(Boolean);
  $("why-probability").textContent = `Probability of ${why.class}: ${percent(why.probability)}${isSwitched ? `; with the concepts as chosen below: ${percent(why.changed)}` : ""}`;
  $("why-model").textContent = `Model ${why.model}. It starts from ${why.base.toFixed(2)}, and each concept adds to that or takes away; a sum of 0 is 50 %.`
    + (why.rest === null ? "" : ` What no concept explains adds ${why.rest.toFixed(2)}.`)
    + (why.trained_on_it ? " The model was trained on this clip: this explains the model, it does not test it." : "");
  $("what-if").hidden = Boolean(exported);
  fill($("why-rows"), ...why.concepts.map((one) => {
    const bar = el("div", { className: one.adds < 0 ? "less" : "more" });
    bar.style.width = `${(4 * Math.abs(one.adds)) / most}rem`;
    const select = el("select", { "aria-label": `${one.name}: what if` });
    options(select, [["", "as it is"], ["off", "absent"], ["on", "present"]], switched[one.name] ?? "");
    select.onchange = () => guarded(() => openClip(clip.id, { ...switched, [one.name]: select.value }));
    const cells = [one.adds.toFixed(2), bar, percent(one.off), percent(one.on)];
    return el("tr", {}, el("th", { scope: "row", title: page.concepts[one.name] ?? "" }, one.name),
      ...cells.map((content) => el("td", {}, content)), exported ? null : el("td", {}, select));
  }));
}

// ---- start --------------------------------------------------------------------------------------

async function route() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const name = ["film", "clip"].find((one) => asked.has(one)) ?? "clips";
  const isLeft = film && name === "film" && asked.get("film") !== film.id;
  if (isLeft && isUnsaved && !confirm("Your mark is not saved. Leave it?")) return history.back();
  if (name !== "film") video.pause();
  for (const id of ["clips", "film", "clip"]) $(id).hidden = id !== name;
  $("film-choice").value = asked.get("film") ?? "";
  if (name === "film") {
    if (!(await openFilm(asked.get("film"), Number(asked.get("t")) || 0))) return;
    const span = film.spans[asked.get("clip")];
    if (span) seek(span[0] + EPS);
  } else if (name === "clip") await openClip(asked.get("clip"));
  document.title = `${$(`${name}-title`).textContent} - obygaze`;
  $("main").focus({ preventScroll: true });
  if (name !== "film") scrollTo(0, 0);
}

// The value at which the decision changes.
const cutOff = () => ((model.scale[0] + model.scale[1]) / 2).toFixed(1);

// Show the scores of one model, or of none.
async function chooseModel(number) {
  const chosen = number === null ? null : await load("scores", { cell: number });
  cell = number;
  model = chosen;
  const empty = { score: undefined, low: undefined, high: undefined, fits: undefined, positive: undefined, correct: undefined };
  for (const clip of page.clips) Object.assign(clip, empty, model?.scores[clip.id]);
}

async function readPage() {
  const { run, blind, annotator } = page;
  $("clips-title").textContent = page.title;
  $("about").textContent = [page.dataset, run && (model ? `scores of ${run.cells[cell]} (run ${run.name}), of models that were not trained on the clip`
    : `run ${run.name}: choose above whose scores are shown`),
    annotator && `you annotate as ${annotator}`, blind && "blind: predictions and what others marked are hidden",
    exported && "exported, without videos"].filter(Boolean).join("; ");
  options($("film-choice"), [["", "choose ..."], ...page.films.map((one) => [one.id, one.title])]);
  $("model-text").hidden = !model;
  $("model-text").textContent = model?.text ?? "";
  $("cell-label").hidden = !run;
  options($("cell-choice"), [["", "no model"], ...(run?.cells ?? []).map((text, number) => [number, text])], cell ?? "");
  fill($("levels"), ...Object.keys(page.levels).flatMap((level) => [levelMark(level), ` ${page.levels[level].name} `]));
  prepareFilters();
  await chooseClips();
}

$("filters").addEventListener("submit", (event) => (event.preventDefault(), guarded(chooseClips)));
$("filters").addEventListener("change", (event) => !["where", "text"].includes(event.target.name) && guarded(chooseClips));
$("more").onclick = () => {
  const first = shown;
  addClips();
  $("grid").children[first].firstChild.focus();
};
$("film-choice").onchange = (event) => event.target.value && (location.hash = address({ film: event.target.value }));
$("cell-choice").onchange = (event) => guarded(async () => {
  await chooseModel(event.target.value === "" ? null : Number(event.target.value));
  await readPage();
  await route();
});
$("concept-source").onchange = () => makeLanes();
$("skip").onclick = (event) => (event.preventDefault(), $("main").focus());
$("scroll").addEventListener("scroll", drawSoon, { passive: true });
$("canvas").onclick = (event) => {
  const time = (event.offsetX + $("scroll").scrollLeft) / film.scale;
  const lane = film.lanes.find((one) => event.offsetY >= one.y && event.offsetY < one.y + one.height);
  const bar = lane && barsAt(lane, time).at(-1);
  seek(time);
  if (bar) edit(bar), tell(describe(lane, bar));
};
document.querySelectorAll("[data-key]").forEach((button) => (button.onclick = () => press(button.dataset.key)));
addEventListener("resize", () => film?.lanes && placeLanes());
addEventListener("hashchange", () => guarded(route));
// The token is in a cookie by now, and must not stay in the address.
if (location.search) history.replaceState(null, "", location.pathname + location.hash);
guarded(async () => {
  page = await load("overview");
  await chooseModel(page.run?.named ?? null);
  await readPage();
  await route();
});
