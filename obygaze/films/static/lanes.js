// The film page: the lanes of a film.
"use strict";

const HEIGHTS = { tier: 16, shots: 10, watched: 8, level: 22, found: 12, score: 50, gap: 12, concept: 12, sound: 30, subtitles: 16, notes: 10, numbers: 40 };
let COLORS = {}; // of other lanes, from view.css
let isPrinting = false;
const LONGEST_GAP = 1; // seconds between clips that are shown as one stretch
const TOP = 20, GAP = 5; // above all lanes, for the time, and below each
let film = null; // the document of the film that is shown, with its lanes and state

// Start and end of frames in seconds: exact if the times of the pictures of its one video are known.
function spanOf(first, last) {
  const times = film.pieces.length === 1 && film.times.get(film.pieces[0].key);
  if (!times) return [first / film.rate, (last + 1) / film.rate];
  return [times[Math.min(first, times.length - 1)], times[Math.min(last + 1, times.length - 1)]];
}

const framed = (one) => {
  const [start, end] = spanOf(one.start_frame, one.end_frame);
  return { ...one, start, end };
};

function makeLanes() {
  const lanes = [], groups = new Map();
  const add = (kind, name, bars, label = name) => bars.length && lanes.push(laneOf(kind, name, bars, label));
  film.added = lanes;
  const group = (name, bar) => (groups.get(name) ?? groups.set(name, []).get(name)).push(bar);
  const clips = page.clips.filter((clip) => clip.film === film.id && film.spans[clip.id])
    .map((clip) => ({ ...clip, start: film.spans[clip.id][0], end: film.spans[clip.id][1] }))
    .sort((a, b) => a.start - b.start);
  const [shots, segments, marks] = film.rate ? [film.shots, film.segments, film.marks] : [[], [], []];
  for (const one of segments) group(one.annotator, framed(one));
  for (const clip of clips) group(clip.annotator, clip);
  add("shots", "shots", shots.map(([start_frame, end_frame]) => framed({ start_frame, end_frame })), t`shots`);
  if (page.annotator && film.rate) add("watched", "watched", watchedBars(), t`you watched`);
  for (const { kind, name, bars, label } of lanesOfMarks(marks)) add(kind, name, bars, label);
  for (const name of [...groups.keys()].filter(Boolean).sort()) add("level", name, groups.get(name));
  add("level", "clips", groups.get("") ?? [], page.blind ? t`clips` : t`clips: annotated level`);
  add("found", "found", inARow(clips), t`found by the model`);
  add("score", "score", clips.filter((clip) => clip.score !== undefined), t`score, line at ${model && cutOff()}`);
  add("gap", "no features", clips.filter((clip) => clip.missing), t`no features`);
  addTracks(add);
  film.conceptSource = conceptSource(lanes.filter((lane) => lane.kind === "level"));
  for (const { kind, name, bars } of lanesOfConcepts(film.conceptSource?.bars ?? [])) add(kind, name, bars);
  film.lanes = lanes;
  film.end = Math.max(film.end, 1, ...lanes.map((lane) => lane.reach.at(-1)));
  placeLanes();
}

const watchedBars = () => film.watched.map(([start_frame, end_frame]) => framed({ start_frame, end_frame }));

// The lanes of the person: all marks, and of each tier those with a value in it.
function lanesOfMarks(marks) {
  const bars = marks.map(framed), lanes = [{ kind: "level", name: "your marks", bars, label: t`${page.annotator} (you)` }];
  for (const tier of Object.keys(page.tiers)) {
    const ofTier = bars.filter((one) => one.more?.[tier]).map((one) => ({ ...one, text: one.more[tier] }));
    lanes.push({ kind: "tier", name: `tier ${tier}`, bars: ofTier, label: tier });
  }
  return lanes;
}

// A lane of each concept, from the bars of the lane whose concepts are shown.
function lanesOfConcepts(bars) {
  return Object.keys(page.concepts).map((name) => {
    const ofConcept = bars.filter((bar) => bar.concepts.includes(name));
    return { kind: "concept", name, bars: ofConcept.map((bar) => ({ ...bar, source: film.conceptSource.label })) };
  });
}

const laneNamed = (kind, name) => film.lanes.find((lane) => lane.kind === kind && lane.name === name);

// Put marks that were changed into the lanes, in place of those with the same ids: a film may have 20,000 of them.
function changeLanes(ids, marks) {
  const changed = film.rate ? lanesOfMarks(marks) : [];
  if (film.conceptSource?.name === "your marks") changed.push(...lanesOfConcepts(changed[0].bars));
  for (const { kind, name, bars } of changed) {
    const before = laneNamed(kind, name)?.bars ?? [], others = before.filter((bar) => !ids.has(bar.mark));
    const isSame = !bars.length && others.length === before.length;
    if (!isSame && !putBars(kind, name, [...others, ...bars])) return makeLanes();
  }
}

// Put bars into a lane; whether that was enough, and not other lanes or a longer time line are needed.
function putBars(kind, name, bars) {
  const lane = laneNamed(kind, name);
  if (!lane) return bars.length === 0;
  if (!bars.length) return false;
  Object.assign(lane, laneOf(kind, name, bars, lane.label));
  film.lanes = [...film.lanes]; // so that statistics are counted again
  drawSoon();
  return lane.reach.at(-1) <= film.end;
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
  film.width = width;
  [canvas.width, canvas.height] = [width * ratio, film.height * ratio];
  [canvas.style.width, canvas.style.height] = [`${width}px`, `${film.height}px`];
  $("lane-names").style.minHeight = `${film.height}px`;
  zoom(1);
}

// After a change of the width: the whole film, if it was shown, and not a part of it.
function fitLanes() {
  if (!film?.lanes) return;
  if (film.scale * film.end <= film.width + 1) film.scale = 0;
  placeLanes();
}

new ResizeObserver(() => film?.width !== $("scroll").clientWidth && fitLanes()).observe($("scroll"));

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
    const drawAll = { sound: drawSound, numbers: drawNumbers }[lane.kind];
    if (drawAll) {
      drawAll(g, lane, x, from, to, width);
      continue;
    }
    for (let i = countUpTo(lane.reach, from); i < lane.bars.length && lane.bars[i].start < to; i++) {
      const left = Math.max(x(lane.bars[i].start), -2), right = Math.min(x(lane.bars[i].end), width + 2);
      if (right < last + 0.5 && right - left < 1) continue; // within the pixel of the bar before
      last = right;
      const drawBar = { score: drawScore, level: drawLevel, subtitles: drawSubtitle, notes: drawNote, tier: drawTier }[lane.kind] ?? drawPlain;
      drawBar(g, lane, lane.bars[i], left, Math.max(right - left - 0.5, 0.5), i);
    }
  }
  if (isPrinting) {
    g.fillStyle = INK;
    g.fillRect(x(now()) - 0.75, 0, 1.5, film.height);
  }
  showNow();
  showFilmStatistics();
}

// The line at the time that is shown: it moves with each picture, and the lanes below it stay.
function showNow() {
  const line = $("now");
  line.style.height = `${film.height}px`;
  line.style.transform = `translateX(${now() * film.scale - 0.75}px)`;
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
  g.fillStyle = COLORS[lane.kind] ?? (number % 2 ? COLORS.shot : COLORS.nextShot);
  g.fillRect(left, lane.y, width, lane.height);
}

const textOn = (level) => (level === "S" ? "#fff" : page.levels[level] ? DARK_INK : INK);

// The colours of the page, as its style sheet has them for light, dark and printed pages.
function readColors() {
  const style = getComputedStyle(document.documentElement), of = (name) => style.getPropertyValue(`--${name}`).trim();
  [INK, MUTED, LINE, MODEL, DIFFERS, PALE, HIT] = ["ink", "muted", "line", "model", "differs", "pale", "hit"].map(of);
  COLORS = { watched: of("watched-bar"), found: MODEL, gap: of("gap-bar"), concept: of("concept-bar"), shot: of("shot"),
    nextShot: of("next-shot"), noLevel: of("no-level"), modelBand: of("model-band"), differsBand: of("differs-band") };
  drawSoon();
}

// Lines that keep levels apart where colours are printed in grey: HN slanted ones, NS upright ones.
function hatch(g, level, label, left, top, width, height) {
  const slant = { HN: height, NS: 0 }[level];
  if (slant === undefined) return;
  g.save();
  g.beginPath();
  g.rect(left, top, width, height);
  g.clip();
  g.strokeStyle = DARK_INK;
  g.lineWidth = 1;
  g.beginPath();
  for (let x = Math.floor(left / 5) * 5 - slant; x < left + width; x += 5) {
    g.moveTo(x + 0.5, top + height);
    g.lineTo(x + slant + 0.5, top);
  }
  g.stroke();
  if (width >= 26) {
    g.fillStyle = page.levels[level].color; // behind the text
    g.fillRect(left, top + height / 2 - 8, g.measureText(label).width + 8, 16);
  }
  g.restore();
}

function setPrinting(state) {
  isPrinting = state;
  document.documentElement.classList.toggle("printing", state);
  readColors();
  draw();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", readColors);
addEventListener("beforeprint", () => setPrinting(true));
addEventListener("afterprint", () => setPrinting(false));

function drawTier(g, lane, bar, left, width) {
  g.fillStyle = PALE;
  g.fillRect(left, lane.y, width, lane.height);
  if (width < 26) return;
  g.save();
  g.beginPath();
  g.rect(left, lane.y, width - 2, lane.height);
  g.clip();
  g.fillStyle = INK;
  g.fillText(bar.text, left + 4, lane.y + lane.height / 2 + 4);
  g.restore();
}

function drawLevel(g, lane, bar, left, width) {
  const isChosen = bar.mark && bar.mark === mark.mark;
  g.fillStyle = page.levels[bar.level]?.color ?? COLORS.noLevel;
  g.fillRect(left, lane.y, width, lane.height);
  const label = `${bar.level}  ${bar.concepts.join(", ")}`;
  if (isPrinting) hatch(g, bar.level, label, left, lane.y, width, lane.height);
  g.strokeStyle = isChosen ? INK : "#8888";
  g.lineWidth = isChosen ? 3 : 1;
  if (width > 4 || isChosen) g.strokeRect(left + 0.5, lane.y + 0.5, Math.max(width - 1, 1), lane.height - 1);
  if (width < 26) return;
  g.save();
  g.beginPath();
  g.rect(left, lane.y, width - 2, lane.height);
  g.clip();
  g.fillStyle = textOn(bar.level);
  g.fillText(label, left + 4, lane.y + lane.height / 2 + 4);
  g.restore();
}

function drawScore(g, lane, bar, left, width) {
  const [low, high] = model.scale;
  const at = (value) => lane.y + lane.height * (1 - (value - low) / (high - low || 1));
  g.fillStyle = LINE;
  g.fillRect(left, at((low + high) / 2), width, 1);
  g.fillStyle = bar.correct ? COLORS.modelBand : COLORS.differsBand;
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
    watched: () => t`you watched this`,
    tier: () => `${lane.label}: ${bar.text}`,
    shots: () => t`shot from ${clock(bar.start, 1)} to ${clock(bar.end, 1)}`,
    found: () => t`found by the model: ${bar.n === 1 ? t`1 clip` : t`${bar.n} clips in a row`}`,
    score: () => scoreText(bar),
    sound: () => describeSound(bar),
    notes: () => t`note of ${bar.annotator}: ${bar.text}`,
    subtitles: () => t`subtitle: ${bar.text}`,
    numbers: () => describeNumber(lane, bar),
    gap: () => t`no features: ${bar.missing}`,
    concept: () => t`${lane.name}, in ${bar.id ? t`clip ${bar.id}` : t`a segment`} of ${bar.source}`,
    level: () => [bar.id ? t`clip ${bar.id}` : lane.label, facts.filter(Boolean).join("; ")].filter(Boolean).join(": "),
  };
  return texts[lane.kind]();
}
