// The film page: links, and stills with their citation.
"use strict";

// A link that `obygaze view` opens on any machine with the same data.
function placeLink() {
  // Rounded up, so that the time is not before the picture begins.
  const time = (Math.ceil(now() * 1e6) / 1e6).toFixed(6);
  return `${page.link}#${new URLSearchParams({ film: film.id, t: time, data: page.data })}`;
}

// What says something of this picture, with its source.
function sourcesHere() {
  const lanes = film.lanes.filter((lane) => ["level", "tier", "found", "score", "numbers"].includes(lane.kind));
  const texts = lanes.flatMap((lane) => barsAt(lane, now() + EPS).filter((bar) => saysSomething(lane, bar)).map((bar) => {
    const isAnnotated = lane.kind === "level" && bar.id && !bar.annotator;
    const named = lane.name === "your marks" ? { ...lane, label: page.annotator } : lane;
    return (isAnnotated ? t`annotation of the ` : "") + describe(named, bar);
  }));
  const isScored = texts.length && model && lanes.some((lane) => lane.kind === "score");
  return [...texts, isScored && t`model ${page.run.cells[cell]} of the run ${page.run.name}`].filter(Boolean);
}

// A clip without a label has a bar too.
const saysSomething = (lane, bar) => lane.kind !== "level" || bar.level || bar.concepts?.length || bar.comment;

function citation() {
  const year = page.films.find((one) => one.id === film.id)?.year;
  const number = film.rate ? t`, picture ${frame()}` : "";
  const sources = sourcesHere(), data = [page.dataset, page.citation, page.licence].filter(Boolean).join("; ");
  return [
    `${film.title}${year ? ` (${year})` : ""}, ${clock(now(), 3)}${number}`,
    `${sources.length ? sources.join(". ") : t`No label at this picture`}.`,
    t`Data: ${data}. ${placeLink()}`,
  ];
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // the browser does not allow it; the text is on the page
  }
}

function linesWithin(g, text, width) {
  const lines = [];
  let line = "";
  for (const word of text.split(" ")) {
    const longer = line ? `${line} ${word}` : word;
    if (line && g.measureText(longer).width > width) {
      lines.push(line);
      line = word;
    } else line = longer;
  }
  return [...lines, line];
}

async function pictureHere() {
  const piece = film.piece, number = numberAt(piece, film.at);
  if (!piece || number === null) throw new Error(t`There is no picture to save: the video or the times of its pictures are missing.`);
  const answer = await send(`picture/${piece.key}?picture=${number}`);
  if (!answer.ok) throw new Error(messageOf(await answer.json()));
  return createImageBitmap(await answer.blob());
}

// The picture in its full size, with the citation below it.
async function stillWithCitation(texts) {
  const picture = await pictureHere(), canvas = el("canvas"), g = canvas.getContext("2d");
  const width = Math.max(picture.width, 640), size = Math.max(14, Math.round(width / 60)), edge = size;
  g.font = `${size}px system-ui, sans-serif`;
  const lines = texts.flatMap((text) => linesWithin(g, text, width - 2 * edge));
  [canvas.width, canvas.height] = [width, picture.height + Math.round(lines.length * size * 1.4) + 2 * edge];
  g.fillStyle = "#fff";
  g.fillRect(0, 0, canvas.width, canvas.height);
  g.drawImage(picture, Math.round((width - picture.width) / 2), 0);
  g.fillStyle = DARK_INK;
  g.font = `${size}px system-ui, sans-serif`; // a new size of the canvas resets it
  lines.forEach((line, row) => g.fillText(line, edge, picture.height + edge + (row + 0.8) * size * 1.4));
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

async function cite() {
  await hold();
  const texts = citation();
  $("citation-title").hidden = false;
  fill($("citation"), ...texts.map((text) => el("p", { textContent: text })));
  const isCopied = await copyText(texts.join("\n"));
  const blob = await stillWithCitation(texts);
  const link = el("a", { href: URL.createObjectURL(blob), download: `${film.id}-${frame()}.png` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  tell(isCopied ? t`The still is saved as PNG, and its citation is in the clipboard.` : t`The still is saved as PNG; its citation stands on the page.`);
}

// It is of a picture of the film before.
function forgetCitation() {
  $("citation-title").hidden = true;
  fill($("citation"));
}

$("cite").onclick = () => guarded(cite);
$("print").onclick = () => print();
