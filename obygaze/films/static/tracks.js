// The film page: lanes of numbers, of the sound, and of subtitles, which can be searched.
"use strict";

const SOUND_STEPS = 20; // the program gives the loudness so many times a second
const MOST_HITS = 200;
let hits = new Set(); // the subtitles that were searched and found

function addTracks(add) {
  const parts = [];
  for (const [key, loudness] of film.sounds) {
    const piece = film.pieces.find((one) => one.key === key);
    if (!piece || !loudness.length) continue;
    const end = Math.min(piece.end, piece.start - piece.offset + loudness.length / SOUND_STEPS);
    parts.push({ start: piece.start, end, piece, loudness });
  }
  add("sound", "sound", parts, t`sound`);
  add("notes", "notes", film.rate ? noteBars() : [], t`notes`);
  add("subtitles", "subtitles", film.subtitles.map((cue) => ({ ...cue, cue })), t`subtitles`);
  for (const { name, low, high, bars } of film.numbers) {
    const made = bars.map(([start, end, value, least, most]) => ({ start, end, value, least, most }));
    const label = t`${name}, ${short(low)} to ${short(high)}`;
    if (add("numbers", `numbers ${name}`, made, label)) Object.assign(film.added.at(-1), { column: name, low, high });
  }
}

const noteBars = () => film.picture_notes.map((note) => {
  const [start, end] = spanOf(note.frame, note.frame);
  return { ...note, start, end };
});

const short = (number) => String(Number(number.toPrecision(4)));

async function loadSound(piece) {
  if (exported || film.sounds.has(piece.key) || !piece.has_sound) return;
  film.sounds.set(piece.key, []);
  const own = film, answer = await send(`sound/${piece.key}`).catch(() => null);
  if (!answer?.ok) return;
  own.sounds.set(piece.key, new Uint8Array(await answer.arrayBuffer()));
  if (own !== film) return;
  makeLanes();
  tick();
}

// Each column of pixels has all values in it: from the lowest to the highest, so that no peak is lost.
function drawNumbers(g, lane, x, from, to, width) {
  const at = (value) => lane.y + lane.height * (1 - (value - lane.low) / (lane.high - lane.low || 1));
  const columns = new Map();
  for (let i = countUpTo(lane.reach, from); i < lane.bars.length && lane.bars[i].start < to; i++) {
    const bar = lane.bars[i];
    const first = Math.max(Math.floor(x(bar.start)), 0), last = Math.min(Math.ceil(x(bar.end)), width);
    for (let column = first; column < Math.max(last, first + 1); column++) {
      const range = columns.get(column) ?? [Infinity, -Infinity, Infinity, -Infinity];
      const { value, least, most } = bar;
      columns.set(column, [Math.min(range[0], value), Math.max(range[1], value),
        Math.min(range[2], least ?? value), Math.max(range[3], most ?? value)]);
    }
  }
  for (const [column, [low, high, least, most]] of columns) {
    g.fillStyle = PALE;
    g.fillRect(column, at(most), 1, at(least) - at(most));
    g.fillStyle = MODEL;
    g.fillRect(column, at(high) - 1, 1, at(low) - at(high) + 2);
  }
}

function drawSound(g, lane, x, from, to, width) {
  g.fillStyle = MUTED;
  for (const { piece, loudness } of lane.bars) {
    const left = Math.max(Math.floor(x(piece.start)), 0), right = Math.min(Math.ceil(x(piece.end)), width);
    const stepAt = (column) => (from + column / film.scale - piece.start + piece.offset) * SOUND_STEPS;
    for (let column = left; column < right; column++) {
      const first = Math.max(Math.floor(stepAt(column)), 0), last = Math.max(Math.ceil(stepAt(column + 1)), first + 1);
      let loudest = 0;
      for (let step = first; step < last; step++) loudest = Math.max(loudest, loudness[step] ?? 0);
      const height = (lane.height * loudest) / 255;
      g.fillRect(column, lane.y + (lane.height - height) / 2, 1, height);
    }
  }
}

// A note is at one picture, which may be narrower than a pixel.
function drawNote(g, lane, bar, left, width) {
  g.fillStyle = HIT;
  g.fillRect(left, lane.y, Math.max(width, 3), lane.height);
}

function drawSubtitle(g, lane, bar, left, width) {
  const isHit = hits.has(bar.cue);
  g.fillStyle = isHit ? HIT : PALE;
  g.fillRect(left, lane.y, width, lane.height);
  if (width < 40) return;
  g.save();
  g.beginPath();
  g.rect(left, lane.y, width - 3, lane.height);
  g.clip();
  g.fillStyle = isHit ? DARK_INK : INK;
  g.fillText(bar.text, left + 3, lane.y + lane.height - 4);
  g.restore();
}

// Loudness is given in decibels below full scale.
function describeSound(bar) {
  const loudness = bar.loudness[Math.floor((now() - bar.piece.start + bar.piece.offset) * SOUND_STEPS)] ?? 0;
  return loudness ? t`sound: ${Math.round(20 * Math.log10(loudness / 255))} dB (0 is full scale)` : t`sound: silent`;
}

function describeNumber(lane, { value, least, most }) {
  const ends = [least, most].some((end) => end !== null) ? t` (${short(least ?? value)} to ${short(most ?? value)})` : "";
  return `${lane.column}: ${short(value)}${ends}`;
}

// Case and accents do not matter.
const plainText = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

function searchSubtitles() {
  const wanted = plainText($("find").elements.text.value.trim());
  const cues = wanted ? film.subtitles.filter((cue) => plainText(cue.text).includes(wanted)) : [];
  hits = new Set(cues);
  const all = cues.length > MOST_HITS ? t`, the first ${MOST_HITS} are listed` : "";
  $("n-hits").textContent = wanted ? t`${cues.length} of ${film.subtitles.length} subtitles${all}` : "";
  fill($("hits"), ...cues.slice(0, MOST_HITS).map((cue) => {
    const button = el("button", { type: "button", textContent: clock(cue.start) });
    button.onclick = () => guarded(async () => (await hold(), seek(cue.start + EPS)));
    return el("li", {}, button, ` ${cue.text}`);
  }));
  drawSoon();
}

function prepareSearch() {
  $("find").hidden = film.subtitles.length === 0;
  $("find").elements.text.value = "";
  searchSubtitles();
}

$("find").addEventListener("submit", (event) => (event.preventDefault(), searchSubtitles()));
