// The film page: the grid of clips, and one clip.
"use strict";

const ORDERS = {
  film: [t`as in the film`, () => 0],
  errors: [t`farthest from the annotation first`, (a, b) => farFromAnnotation(b) - farFromAnnotation(a)],
  high: [t`highest score first`, (a, b) => (b.score ?? -1e9) - (a.score ?? -1e9)],
  low: [t`lowest score first`, (a, b) => (a.score ?? 1e9) - (b.score ?? 1e9)],
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
  options(film, [["", t`all`], ...page.films.map((one) => [one.id, one.title])]);
  options(level, [["", t`all`], ...levels.map((name) => [name, levelText(name)])]);
  options(concept, [["", t`all`], ...Object.keys(page.concepts).map((name) => [name, name])]);
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
    if (words) $("n-clips").textContent = t`Searching ...`;
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
  const orderText = cosines ? t`, the most like “${words}” first` : "";
  showClips(clips, t`${clips.length} of ${page.clips.length} clips${orderText}`);
}

function showClips(clips, message) {
  found = clips;
  shown = 0;
  $("n-clips").textContent = message;
  $("grid").replaceChildren();
  addClips();
  showClipStatistics();
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

const placeText = (clip) => (clip.start !== null ? clock(clip.start) : clip.scene === null ? "" : t`scene ${clip.scene}`);

const similarityText = (cosine) => t`similarity ${cosine.toFixed(3)} (cosine)`;

function card(clip, similarity) {
  return el("a", { className: "card", href: address({ clip: clip.id }) }, thumbnail(clip),
    el("span", {},
      el("strong", {}, clip.id), `${titleOf(clip.film)} ${placeText(clip)} `, levelMark(clip.level),
      el("span", { className: "note" }, clip.concepts.join(", ")),
      el("span", { className: clip.correct === false && !similarity ? "differs" : "" }, similarity ?? scoreText(clip)),
      clip.missing && el("span", { className: "note" }, t`no features: ${clip.missing}`)));
}

// ---- a clip -------------------------------------------------------------------------------------

async function openClip(id, switched = {}) {
  const named = (state) => Object.keys(switched).filter((name) => switched[name] === state).join("|");
  const facts = await load("clip", { clip_id: id, on: named("on"), off: named("off") });
  const clip = { ...facts, ...model?.scores[id] };
  $("clip-title").textContent = clip.id;
  fill($("clip-facts"), `${titleOf(clip.film)}, ${placeText(clip)} `, levelMark(clip.level),
    ` ${levelName(clip.level)}${clip.concepts.length ? `: ${clip.concepts.join(", ")}` : ""}`);
  const more = [scoreText(clip), clip.comment, clip.missing && t`no features: ${clip.missing}`, ...clip.notes];
  $("clip-more").textContent = more.filter(Boolean).join("; ");
  $("clip-model").hidden = clip.score === undefined;
  $("clip-model").textContent = model ? `${page.run.cells[cell]}. ${model.text}` : "";
  $("clip-watch").href = address({ film: clip.film, clip: clip.id });
  const sheet = $("sheet");
  sheet.onerror = () => (sheet.hidden = true);
  sheet.hidden = Boolean(exported);
  sheet.alt = t`Twelve pictures of ${clip.id} in their order, with their times`;
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
  const sheet = el("img", { loading: "lazy", src, alt: t`The pictures of ${clip.id} with the map of ${direction}` });
  const why = async () => (exported ? t`there is no picture` : messageOf(await (await send(src)).json()));
  sheet.onerror = () => guarded(async () => sheet.replaceWith(el("p", { className: "note" }, await why())));
  return el("section", {}, el("h3", { title: page.concepts[direction] ?? "" }, direction), el("p", { className: "note" }, about), sheet);
}

function explain(clip, switched) {
  const why = clip.explanation, percent = (share) => `${(100 * share).toFixed(1)} %`;
  const most = Math.max(...why.concepts.map((one) => Math.abs(one.adds)), EPS);
  const isSwitched = Object.values(switched).some(Boolean);
  $("why-probability").textContent = t`Probability of ${why.class}: ${percent(why.probability)}${isSwitched ? t`; with the concepts as chosen below: ${percent(why.changed)}` : ""}`;
  $("why-model").textContent = t`Model ${why.model}. It starts from ${why.base.toFixed(2)}, and each concept adds to that or takes away; a sum of 0 is 50 %.`
    + (why.rest === null ? "" : t` What no concept explains adds ${why.rest.toFixed(2)}.`)
    + (why.trained_on_it ? t` The model was trained on this clip: this explains the model, it does not test it.` : "");
  $("what-if").hidden = Boolean(exported);
  fill($("why-rows"), ...why.concepts.map((one) => {
    const bar = el("div", { className: one.adds < 0 ? "less" : "more" });
    bar.style.width = `${(4 * Math.abs(one.adds)) / most}rem`;
    const select = el("select", { "aria-label": t`${one.name}: what if` });
    options(select, [["", t`as it is`], ["off", t`absent`], ["on", t`present`]], switched[one.name] ?? "");
    select.onchange = () => guarded(() => openClip(clip.id, { ...switched, [one.name]: select.value }));
    const cells = [one.adds.toFixed(2), bar, percent(one.off), percent(one.on)];
    return el("tr", {}, el("th", { scope: "row", title: page.concepts[one.name] ?? "" }, one.name),
      ...cells.map((content) => el("td", {}, content)), exported ? null : el("td", {}, select));
  }));
}
