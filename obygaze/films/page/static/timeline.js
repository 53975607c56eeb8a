// The time line: a row for each annotator, for clips, scores and concepts.
import { beginSpan, choose, keyOf, levelText, setSpan } from "./marks.js";
import { now, pause, pictureAt, seek, startOf } from "./player.js";
import { canMark, on, state } from "./state.js";
import { $, EPS, address, clock, countUpTo, el, fill, guarded, options, tell } from "./tools.js";

const HEIGHTS = { watched: 8, level: 20, score: 36, own: 14, concept: 11 };
const RULER = 18;
const CHOICES = 46; // height of the two choices above the names of rows
const GAP = 4; // below each row
const GRIP = 6; // pixels beside an edge that still take it
const DARK_INK = "#26251f"; // on the colours of levels, which are the same in both modes
const OWN = "your marks";

const canvas = $("canvas");
const scroll = $("scroll");
let colors = {};
let height = 0;
let scale = 0; // pixels per second
let drag = null;
let isDrawn = true;

// ---- rows -----------------------------------------------------------------------------------------

function laneOf(kind, name, bars, label = name) {
  const sorted = [...bars].sort((one, other) => one.start - other.start);
  let furthest = 0;
  // The furthest end up to each bar, by which the bars at a time are found.
  const reach = sorted.map((bar) => (furthest = Math.max(furthest, bar.end)));
  return { kind, name, label, bars: sorted, reach };
}

const clipsOfFilm = () => state.page.clips.filter((clip) => clip.film === state.film.id && state.film.spans[clip.id]).map((clip) => {
  const [start, end] = state.film.spans[clip.id];
  return { ...clip, start, end };
});

const ownLane = () => laneOf("level", OWN, state.film.marks.values(), `${state.page.annotator} (you)`);

function makeLanes() {
  const { film, page } = state;
  const lanes = [];
  const add = (kind, name, bars, label) => bars.length && lanes.push(laneOf(kind, name, bars, label));
  const clips = clipsOfFilm();
  const marks = Map.groupBy(film.segments, (one) => one.annotator);
  const said = clips.flatMap((clip) => clip.said.map((one) => ({ ...clip, ...one })));
  const rows = Map.groupBy([...clips, ...said], (one) => one.annotator);
  if (film.can_mark) lanes.push(laneOf("watched", "watched", film.watched, "you watched"), ownLane());
  for (const name of [...marks.keys()].sort()) add("level", name, marks.get(name));
  // In one row with the marks of the same person, they would count twice, and may be in another view.
  for (const name of [...rows.keys()].sort()) add("level", `clips ${name}`.trim(), rows.get(name), `${name} ${clipsLabel()}`.trim());
  const scored = clips.filter((clip) => clip.score !== undefined);
  add("score", "score", scored, state.scores ? `score, line at ${cutOff().toFixed(1)}` : "");
  const own = Map.groupBy(film.own, (one) => `${one.column}, ${one.annotator}`);
  for (const name of [...own.keys()].sort()) add("own", name, own.get(name));
  const sources = lanes.filter((lane) => lane.kind === "level");
  const filled = sources.find((lane) => lane.bars.length) ?? sources[0];
  options($("concept-source"), sources.map((lane) => [lane.name, lane.label]), $("concept-source").value || filled?.name);
  $("concept-source-label").hidden = sources.length < 2;
  state.lanes = [...lanes, ...conceptLanes(sources.find((lane) => lane.name === $("concept-source").value))];
  options($("lane-choice"), sources.map((lane) => [lane.name, lane.label]));
  place();
}

function clipsLabel() {
  const { blind, view, clips } = state.page;
  if (blind || !clips.some((clip) => clip.level || clip.concepts.length)) return "clips";
  return view ? `clips: level, ${view} view` : "clips: annotated level";
}

// The concepts of one row: those of several annotators in one row would look like agreement.
function conceptLanes(source) {
  const lanes = [];
  for (const name of Object.keys(state.page.concepts)) {
    const bars = source?.bars.filter((bar) => bar.concepts.includes(name)) ?? [];
    if (bars.length) lanes.push(laneOf("concept", name, bars.map((bar) => ({ ...bar, source: source.label }))));
  }
  return lanes;
}

export const cutOff = () => (state.scores.scale[0] + state.scores.scale[1]) / 2;

export function barsAt(lane, time) {
  const after = countUpTo(lane.bars, time, (bar) => bar.start);
  return lane.bars.slice(countUpTo(lane.reach, time), after).filter((bar) => bar.end > time);
}

// A score with as many digits as show on which side of the line it is.
function digitsOf(score) {
  let digits = 2;
  while (digits < 9 && Number(score.toFixed(digits)) === Number(cutOff().toFixed(digits))) digits += 1;
  return score.toFixed(digits);
}

const decisionOf = (one) => state.scores.classes[one.positive ? 1 : 0];

// On a card: what agrees is said once for all clips, above them.
export function shortScore(one) {
  if (one.score === undefined) return "";
  const decision = state.scores.decidesAlike ? "" : `, ${decisionOf(one)}`;
  return `score ${digitsOf(one.score)}${decision}${one.correct === false ? ": differs" : ""}`;
}

export function scoreText(one) {
  if (one.score === undefined) return "";
  const band = one.fits > 1 ? ` (${one.low.toFixed(2)} to ${one.high.toFixed(2)} in ${one.fits} fits)` : "";
  const decision = decisionOf(one);
  const basis = one.basis ? ` (${one.basis})` : "";
  const score = `score of the model ${digitsOf(one.score)}${band}${basis}`;
  const annotation = `the annotation${state.page.changed ? " that the run had" : ""}`;
  const differs = `differs from ${annotation}`;
  // Whoever calls all clips negative agrees with the annotation of the negative ones: that says nothing.
  if (state.scores.decidesAlike) return `${score}; it calls every clip ${decision}${one.correct === false ? `: ${differs}` : ""}`;
  if (one.correct === undefined) return `${score}, ${decision}`;
  return `${score}, ${decision}: ${one.correct ? `agrees with ${annotation}` : differs}`;
}

export const ownText = (one) => Object.entries(one.own ?? {}).map(([name, value]) => `${name}: ${value}`).join("; ");

export function describe(lane, bar) {
  const facts = [levelText(bar.level), bar.concepts?.join(", "), ownText(bar), bar.comment && `“${bar.comment}”`].filter(Boolean);
  const texts = {
    watched: () => "you watched this",
    score: () => scoreText(bar),
    own: () => `${lane.name}: ${bar.value}`,
    concept: () => `${lane.name}, in ${bar.id ? `clip ${bar.id}` : "a segment"} of ${bar.source}`,
    level: () => [bar.id ? [`clip ${bar.id}`, bar.annotator].filter(Boolean).join(", ") : lane.label, facts.join("; ")].filter(Boolean).join(": "),
  };
  return texts[lane.kind]();
}

// Go to the next bar of a row, or the one before, that a function accepts.
export function jump(name, direction, fits = () => true) {
  const lane = state.lanes.find((one) => one.name === name);
  const from = now() + 2 * EPS * direction;
  const bars = (lane?.bars ?? []).filter((bar) => fits(bar) && (bar.start - from) * direction > 0);
  const bar = direction > 0 ? bars[0] : bars.at(-1);
  if (!bar) return tell(`nothing further in the row “${lane?.label ?? name}”`);
  seek(bar.start + EPS);
  if (name === OWN) choose(keyOf(bar));
  tell(`${clock(bar.start)}: ${describe(lane, bar)}`);
}

// ---- place ----------------------------------------------------------------------------------------

function place() {
  const ratio = devicePixelRatio || 1;
  const width = scroll.clientWidth;
  const isNarrow = matchMedia("(max-width: 48rem)").matches;
  const above = isNarrow ? 13 : 0; // else names are beside the rows
  height = (isNarrow ? RULER : CHOICES) + GAP;
  for (const lane of state.lanes) {
    lane.y = height + above;
    lane.height = HEIGHTS[lane.kind];
    height = lane.y + lane.height + GAP;
  }
  fill($("lane-names"), ...state.lanes.map((lane) => {
    const name = el("li", { title: state.page.concepts[lane.name] || lane.label }, lane.label);
    name.style.top = `${above ? lane.y - above : lane.y + lane.height / 2 - 8}px`;
    return name;
  }));
  [canvas.width, canvas.height] = [width * ratio, height * ratio];
  [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
  zoom(1);
}

// Show so many times less time; 0 shows the whole film.
export function zoom(factor) {
  const width = scroll.clientWidth;
  const { end_s } = state.film;
  // No browser lays out an element of more than some 30 million pixels.
  scale = Math.max(Math.min(scale * factor, 400, 8e6 / end_s), width / end_s);
  $("wide").style.width = `${end_s * scale}px`;
  if (factor !== 1) scroll.scrollLeft = now() * scale - width / 2;
  drawSoon();
}

function fit() {
  if (!state.film || !scroll.clientWidth) return;
  const wasWhole = $("wide").clientWidth <= Number.parseFloat(canvas.style.width || 0) + 1;
  if (wasWhole) scale = 0; // the whole film stays in sight
  place();
}

const visible = () => ({ from: scroll.scrollLeft / scale, to: (scroll.scrollLeft + scroll.clientWidth) / scale });

// ---- draw -----------------------------------------------------------------------------------------

// The colours of the page, as its style sheet has them for light and dark pages.
function readColors() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "muted", "line", "soft", "model", "differs", "model-band", "differs-band", "watched", "own", "concept", "no-level"];
  colors = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  drawSoon();
}

function drawSoon() {
  if (isDrawn) requestAnimationFrame(draw);
  isDrawn = false;
}

function draw() {
  isDrawn = true;
  if (!state.film) return;
  const g = canvas.getContext("2d");
  const ratio = devicePixelRatio || 1;
  const width = scroll.clientWidth;
  const { from, to } = visible();
  const x = (time) => (time - from) * scale;
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  g.font = "12px system-ui, sans-serif";
  drawRuler(g, x, from, to);
  for (const lane of state.lanes) {
    let last = -9;
    for (let i = countUpTo(lane.reach, from); i < lane.bars.length && lane.bars[i].start < to; i++) {
      const left = Math.max(x(lane.bars[i].start), -2);
      const right = Math.min(x(lane.bars[i].end), width + 2);
      if (right < last + 0.5 && right - left < 1) continue; // within the pixel of the bar before
      last = right;
      const drawBar = { score: drawScore, level: drawLevel }[lane.kind] ?? drawPlain;
      drawBar(g, lane, lane.bars[i], left, Math.max(right - left - 0.5, 0.5));
    }
  }
  drawBegun(g, x);
  showNow();
}

function drawRuler(g, x, from, to) {
  const steps = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600];
  const step = steps.find((seconds) => seconds * scale > 70) ?? 7200;
  for (let time = Math.ceil(from / step) * step; time <= to; time += step) {
    g.fillStyle = colors.line;
    g.fillRect(x(time), 0, 1, height);
    g.fillStyle = colors.muted;
    g.fillText(clock(time), x(time) + 3, 12);
  }
}

function drawPlain(g, lane, bar, left, width) {
  g.fillStyle = colors[lane.kind];
  g.fillRect(left, lane.y, width, lane.height);
  if (bar.value && width > 26) write(g, lane, bar.value, left, width, colors.ink);
}

// Write a text into a bar, as far as it has room.
function write(g, lane, text, left, width, color) {
  g.save();
  g.beginPath();
  g.rect(left, lane.y, width - 2, lane.height);
  g.clip();
  g.fillStyle = color;
  g.fillText(text, left + 4, lane.y + lane.height / 2 + 4);
  g.restore();
}

function drawLevel(g, lane, bar, left, width) {
  const isChosen = lane.name === OWN && keyOf(bar) === state.chosen;
  g.fillStyle = state.page.levels[bar.level]?.color ?? colors["no-level"];
  g.fillRect(left, lane.y, width, lane.height);
  g.strokeStyle = isChosen ? colors.ink : "#8888";
  g.lineWidth = isChosen ? 3 : 1;
  if (width > 4 || isChosen) g.strokeRect(left + 0.5, lane.y + 0.5, Math.max(width - 1, 1), lane.height - 1);
  const color = { S: "#fff" }[bar.level] ?? (bar.level in state.page.levels ? DARK_INK : colors.ink);
  // Without a level, a clip has words of its own.
  const words = bar.level ? `${bar.level}  ${bar.concepts.join(", ")}` : ownText(bar);
  if (width > 26) write(g, lane, words, left, width, color);
}

function drawScore(g, lane, bar, left, width) {
  const [low, high] = state.scores.scale;
  const isDifferent = bar.correct === false;
  const at = (value) => lane.y + lane.height * (1 - (value - low) / (high - low || 1));
  g.fillStyle = colors.line;
  g.fillRect(left, at(cutOff()), width, 1);
  g.fillStyle = isDifferent ? colors["differs-band"] : colors["model-band"];
  g.fillRect(left, at(bar.high), width, Math.max(at(bar.low) - at(bar.high), 1));
  g.fillStyle = isDifferent ? colors.differs : colors.model;
  g.fillRect(left, at(bar.score) - 1, width, 2.5);
  // A decision that differs has a sign, too: colour alone is not seen by everybody.
  if (isDifferent && width > 8) g.fillText("✕", left + width / 2 - 4, lane.y + lane.height - 2);
}

// What is known of a new mark: its stretch, or where it starts or ends.
function drawBegun(g, x) {
  const lane = state.lanes.find((one) => one.name === OWN);
  const stretch = drag?.stretch ?? state.begun;
  if (!lane || !stretch) return;
  const edges = [];
  if (stretch.first !== undefined) edges.push(startOf(stretch.first));
  if (stretch.last !== undefined) edges.push(startOf(stretch.last + 1));
  if (!edges.length) return;
  const left = x(edges[0]);
  g.strokeStyle = colors.ink;
  g.lineWidth = 2;
  g.setLineDash([4, 3]);
  g.strokeRect(left, lane.y, Math.max(x(edges.at(-1)) - left, 1), lane.height);
  g.setLineDash([]);
}

// The line at the time that is shown: it moves with each picture, and the rows below it stay.
function showNow() {
  const line = $("now");
  line.style.height = `${height}px`;
  line.style.transform = `translateX(${now() * scale - 0.75}px)`;
}

function follow() {
  showNow();
  if (drag || !scale) return;
  const left = state.at * scale - scroll.scrollLeft;
  if (left < 0 || left > scroll.clientWidth) scroll.scrollLeft += left - scroll.clientWidth / 3;
}

// ---- the mouse ------------------------------------------------------------------------------------

const timeAt = (event) => (event.offsetX + scroll.scrollLeft) / scale;

const laneAt = (event) => state.lanes.find((one) => event.offsetY >= one.y && event.offsetY < one.y + one.height);

// The mark of the person under the pointer, and which part of it: an edge, or its body.
function partAt(event) {
  const lane = laneAt(event);
  if (lane?.name !== OWN || !canMark()) return null;
  const time = timeAt(event);
  const reach = GRIP / scale;
  const from = countUpTo(lane.reach, time - reach);
  const to = countUpTo(lane.bars, time + reach, (bar) => bar.start);
  // The mark in the form first: it is drawn with thick edges.
  const near = lane.bars.slice(from, to).sort((one, other) => (keyOf(other) === state.chosen) - (keyOf(one) === state.chosen));
  const isNear = (edge) => Math.abs(edge - time) <= reach;
  for (const bar of near) {
    const isWide = (bar.end - bar.start) * scale > 3 * GRIP;
    if (isNear(bar.end) && (isWide || time > bar.start)) return { bar, part: "end" };
    if (isNear(bar.start)) return { bar, part: "start" };
  }
  const bar = near.find((one) => one.start <= time && one.end > time);
  return bar ? { bar, part: "body" } : { bar: null, part: "new" };
}

// The first picture after the boundary that is nearest to a time: that at the end of the film has none.
function boundaryAt(time) {
  const number = pictureAt(Math.min(Math.max(time, 0), state.film.end_s - EPS));
  const isNearEnd = time - startOf(number) > startOf(number + 1) - time;
  return Math.min(isNearEnd ? number + 1 : number, state.film.n_pictures);
}

// The first and the last picture of what is dragged.
function draggedTo(time) {
  const { bar, part, taken } = drag;
  const boundary = boundaryAt(time);
  if (part === "new") {
    const [begin, after] = [boundaryAt(taken), boundary].sort((one, other) => one - other);
    return { first: begin, last: Math.max(after - 1, begin) };
  }
  const { first, last } = bar;
  if (part === "start") return { first: Math.min(boundary, last), last };
  if (part === "end") return { first, last: Math.max(boundary - 1, first) };
  const most = state.film.n_pictures - 1 - last;
  const by = Math.min(Math.max(boundary - boundaryAt(taken), -first), most);
  return { first: first + by, last: last + by };
}

canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0 || event.pointerType === "touch") return;
  const found = partAt(event) ?? { part: "time" };
  drag = { ...found, taken: timeAt(event), x: event.offsetX, stretch: null, isMoving: false };
  canvas.setPointerCapture(event.pointerId);
});

canvas.addEventListener("pointermove", (event) => {
  if (!drag) {
    const part = state.film && partAt(event)?.part;
    canvas.style.cursor = { body: "grab", start: "ew-resize", end: "ew-resize", new: "crosshair" }[part] ?? "";
    return;
  }
  if (!drag.isMoving && Math.abs(event.offsetX - drag.x) < 4) return;
  drag.isMoving = true;
  pause();
  if (drag.part === "time") return seek(timeAt(event));
  drag.stretch = draggedTo(timeAt(event));
  // The picture at the edge that moves: the first of the mark, or at its end the last.
  const isEnd = drag.part === "end" || (drag.part === "new" && timeAt(event) > drag.taken);
  seek(startOf(isEnd ? drag.stretch.last : drag.stretch.first) + EPS);
  drawSoon();
});

canvas.addEventListener("pointerup", (event) => {
  if (!drag) return;
  const { bar, part, stretch, isMoving } = drag;
  drag = null;
  drawSoon();
  if (!isMoving) return click(event);
  if (!stretch) return;
  const { first, last } = stretch;
  if (part === "new") guarded(() => beginSpan(first, last));
  else if (keyOf(stretch) !== keyOf(bar)) guarded(() => setSpan(keyOf(bar), part === "body" ? "A mark moved" : `The ${part} of a mark moved`, first, last));
});

export function cancelDrag() {
  const wasDragged = Boolean(drag);
  drag = null;
  drawSoon();
  return wasDragged;
}

canvas.addEventListener("pointercancel", cancelDrag);

function click(event) {
  const time = timeAt(event);
  const lane = laneAt(event);
  const bar = lane && barsAt(lane, time).at(-1);
  seek(time);
  if (lane?.name === OWN) choose(bar ? keyOf(bar) : null);
  if (bar) tell(describe(lane, bar));
}

// ---- in words -------------------------------------------------------------------------------------

// Write what is at this time, in words; concepts are named with clips and segments.
function showHere() {
  const lines = [];
  for (const lane of state.lanes) {
    if (lane.kind === "concept") continue;
    for (const bar of barsAt(lane, now() + EPS)) {
      const text = describe(lane, bar);
      const isClip = bar.id && lane.kind === "level";
      lines.push(el("li", {}, isClip ? el("a", { href: address({ clip: bar.id }) }, text) : text));
    }
  }
  fill($("here"), ...lines);
}

// ---- what it shows --------------------------------------------------------------------------------

on("film", () => {
  scale = 0;
  drag = null;
  makeLanes();
});
on("segments", makeLanes);
on("marks watched", () => {
  if (!state.film?.can_mark) return;
  const [watched, marks] = [laneOf("watched", "watched", state.film.watched, "you watched"), ownLane()];
  const sourceIsOwn = $("concept-source").value === OWN;
  const rest = state.lanes.slice(2).filter((lane) => !(sourceIsOwn && lane.kind === "concept"));
  state.lanes = [watched, marks, ...rest, ...(sourceIsOwn ? conceptLanes(marks) : [])];
  place();
  showHere();
});
on("time", () => {
  follow();
  showHere();
});
$("concept-source").addEventListener("change", makeLanes);
scroll.addEventListener("scroll", drawSoon, { passive: true });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", readColors);
new ResizeObserver(fit).observe(scroll);
readColors();
