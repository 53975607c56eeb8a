// The time line: a row for each annotator, for clips, scores and concepts.
import { now, pause, seek } from "./player.js";
import { on, state } from "./state.js";
import { $, EPS, address, clock, countUpTo, el, fill, options, tell } from "./tools.js";

const HEIGHTS = { level: 20, score: 36, own: 14, concept: 11 };
const RULER = 18;
const CHOICES = 46; // height of the two choices above the names of rows
const GAP = 4; // below each row
const DARK_INK = "#26251f"; // on the colours of levels, which are the same in both modes

const canvas = $("canvas");
const scroll = $("scroll");
let colors = {};
let height = 0;
let scale = 0; // pixels per second
let drag = null; // where the mouse went down, and whether it has moved
let isDrawn = true;

// ---- rows -----------------------------------------------------------------------------------------

function laneOf(kind, name, bars, label = name) {
  const sorted = [...bars].sort((one, other) => one.start - other.start);
  let furthest = 0;
  // The furthest end up to each bar, by which the bars at a time are found.
  const reach = sorted.map((bar) => (furthest = Math.max(furthest, bar.end)));
  return { kind, name, label, bars: sorted, reach };
}

const clipsOfFilm = () => state.page.clips.filter((clip) => state.film.spans[clip.id]).map((clip) => {
  const [start, end] = state.film.spans[clip.id];
  return { ...clip, start, end };
});

function makeLanes() {
  const { film } = state;
  const lanes = [];
  const add = (kind, name, bars, label) => bars.length && lanes.push(laneOf(kind, name, bars, label));
  const clips = clipsOfFilm();
  const marks = Map.groupBy(film.segments, (one) => one.annotator);
  const said = clips.flatMap((clip) => clip.said.map((one) => ({ ...clip, ...one })));
  const rows = Map.groupBy(clips, (one) => one.annotator);
  const answers = Map.groupBy(said, (one) => one.annotator);
  for (const name of [...marks.keys()].sort()) add("level", name, marks.get(name));
  // In one row with the marks of the same person, they would count twice, and may be in another view.
  for (const name of [...rows.keys()].sort()) add("level", `clips ${name}`.trim(), rows.get(name), `${name} ${clipsLabel()}`.trim());
  // What each person said of clips is in no view.
  for (const name of [...answers.keys()].sort()) add("level", `clips, ${name}`, answers.get(name), `${name}: of clips`);
  // What was asked about comes first, then the other columns.
  const own = Map.groupBy(film.own, (one) => `${one.column}, ${one.annotator}`);
  for (const [name, bars] of [...own].sort(byColumn)) add("own", name, bars);
  state.models.forEach((of, number) => {
    const scored = clips.filter((clip) => clip.id in of.scores).map((clip) => ({ ...clip, ...of.scores[clip.id], of }));
    add("score", `score ${number}`, scored, `${of.name}: score, line at ${cutOff(of).toFixed(1)}`);
  });
  const sources = lanes.filter((lane) => lane.kind === "level");
  options($("concept-source"), sources.map((lane) => [lane.name, lane.label]), $("concept-source").value || sources[0]?.name);
  $("concept-source-label").hidden = sources.length < 2;
  state.lanes = [...lanes, ...conceptLanes(sources.find((lane) => lane.name === $("concept-source").value))];
  options($("lane-choice"), sources.map((lane) => [lane.name, lane.label]));
  place();
}

function byColumn([name, [bar]], [other, [otherBar]]) {
  const { asked } = state.page;
  return asked.includes(otherBar.column) - asked.includes(bar.column) || name.localeCompare(other);
}

function clipsLabel() {
  const { view, clips } = state.page;
  if (!clips.some((clip) => clip.level || clip.concepts.length)) return "clips";
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

// Where the decision of a model changes.
export const cutOff = (of) => (of.scale[0] + of.scale[1]) / 2;

function barsAt(lane, time) {
  const after = countUpTo(lane.bars, time, (bar) => bar.start);
  return lane.bars.slice(countUpTo(lane.reach, time), after).filter((bar) => bar.end > time);
}

// A score with as many digits as show on which side of the line it is.
function digitsOf({ score, of }) {
  let digits = 2;
  while (digits < 9 && Number(score.toFixed(digits)) === Number(cutOff(of).toFixed(digits))) digits += 1;
  return score.toFixed(digits);
}

const decisionOf = (one) => one.of.classes[one.positive ? 1 : 0];

// On a card: what agrees is said once for all clips, above them.
export function shortScore(one) {
  if (one.score === undefined) return "";
  const decision = one.of.decides_alike ? "" : `, ${decisionOf(one)}`;
  return `score ${digitsOf(one)}${decision}${one.correct === false ? ": differs" : ""}`;
}

export function scoreText(one) {
  if (one.score === undefined) return "";
  const band = one.fits > 1 ? ` (${one.low.toFixed(2)} to ${one.high.toFixed(2)} in ${one.fits} fits)` : "";
  const decision = decisionOf(one);
  const basis = one.basis ? ` (${one.basis})` : "";
  const score = `${one.of.name}: score ${digitsOf(one)}${band}${basis}`;
  const annotation = `the annotation${state.page.changed ? " that the run had" : ""}`;
  const differs = `differs from ${annotation}`;
  // Whoever calls all clips negative agrees with the annotation of the negative ones: that says nothing.
  if (one.of.decides_alike) return `${score}; it calls every clip ${decision}${one.correct === false ? `: ${differs}` : ""}`;
  if (one.correct === undefined) return `${score}, ${decision}`;
  return `${score}, ${decision}: ${one.correct ? `agrees with ${annotation}` : differs}`;
}

export const levelText = (level) => (state.page.levels[level] ? `${level} ${state.page.levels[level].name}` : level);

export const ownText = (one) => Object.entries(one.own ?? {}).map(([name, value]) => `${name}: ${value}`).join("; ");

function describe(lane, bar) {
  const facts = [levelText(bar.level), bar.concepts?.join(", "), ownText(bar), bar.comment && `“${bar.comment}”`].filter(Boolean);
  const texts = {
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
  const names = ["ink", "muted", "line", "soft", "model", "differs", "model-band", "differs-band", "own", "concept", "no-level"];
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
    const shown = [];
    let last = -9;
    for (let i = countUpTo(lane.reach, from); i < lane.bars.length && lane.bars[i].start < to; i++) {
      const left = Math.max(x(lane.bars[i].start), -2);
      const right = Math.min(x(lane.bars[i].end), width + 2);
      if (right < last + 0.5 && right - left < 1) continue; // within the pixel of the bar before
      last = right;
      shown.push([lane.bars[i], left, Math.max(right - left - 0.5, 0.5)]);
    }
    const drawBar = { score: drawScore, level: drawLevel }[lane.kind] ?? drawPlain;
    // Bars with a level are drawn last, so that a comment does not hide a level.
    shown.sort(([one], [other]) => Boolean(one.level) - Boolean(other.level));
    for (const [bar, left, barWidth] of shown) drawBar(g, lane, bar, left, barWidth);
  }
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
  g.fillStyle = state.page.levels[bar.level]?.color ?? colors["no-level"];
  g.fillRect(left, lane.y, width, lane.height);
  g.strokeStyle = "#8888";
  g.lineWidth = 1;
  if (width > 4) g.strokeRect(left + 0.5, lane.y + 0.5, Math.max(width - 1, 1), lane.height - 1);
  const color = { S: "#fff" }[bar.level] ?? (bar.level in state.page.levels ? DARK_INK : colors.ink);
  // Without a level, a clip has words of its own.
  const words = bar.level ? `${bar.level}  ${bar.concepts.join(", ")}` : ownText(bar);
  if (width > 26) write(g, lane, words, left, width, color);
}

function drawScore(g, lane, bar, left, width) {
  const [low, high] = bar.of.scale;
  const isDifferent = bar.correct === false;
  const at = (value) => lane.y + lane.height * (1 - (value - low) / (high - low || 1));
  g.fillStyle = colors.line;
  g.fillRect(left, at(cutOff(bar.of)), width, 1);
  g.fillStyle = isDifferent ? colors["differs-band"] : colors["model-band"];
  g.fillRect(left, at(bar.high), width, Math.max(at(bar.low) - at(bar.high), 1));
  g.fillStyle = isDifferent ? colors.differs : colors.model;
  g.fillRect(left, at(bar.score) - 1, width, 2.5);
  // A decision that differs has a sign, too: colour alone is not seen by everybody.
  if (isDifferent && width > 8) g.fillText("✕", left + width / 2 - 4, lane.y + lane.height - 2);
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

canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0 || event.pointerType === "touch") return;
  drag = { x: event.offsetX, isMoving: false };
  canvas.setPointerCapture(event.pointerId);
});

canvas.addEventListener("pointermove", (event) => {
  if (!drag || (!drag.isMoving && Math.abs(event.offsetX - drag.x) < 4)) return;
  drag.isMoving = true;
  pause();
  seek(timeAt(event));
});

canvas.addEventListener("pointerup", (event) => {
  if (drag && !drag.isMoving) click(event);
  drag = null;
});

canvas.addEventListener("pointercancel", () => (drag = null));

function click(event) {
  const time = timeAt(event);
  const lane = laneAt(event);
  const bar = lane && barsAt(lane, time).at(-1);
  seek(time);
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
  makeLanes();
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
