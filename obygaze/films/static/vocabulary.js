// The film page: the vocabulary of the annotators, and what it offers in the form of a mark.
"use strict";

const vocabularyForm = $("vocabulary-form");
const KINDS_OF_TERMS = { group: t`group above concepts`, concept: t`concept`, tier: t`tier`, value: t`value of a tier` };
const CITED = ["title", "version", "creators", "licence", "identifier"];

// ---- in the form of a mark ----------------------------------------------------------------------

// How many concepts are above a concept.
function depthOf(name, seen = new Set()) {
  const term = page.vocabulary.terms.find((one) => one.name === name && one.kind === "concept");
  const above = (term?.broader ?? []).find((other) => other in page.concepts && !seen.has(other));
  return above === undefined ? 0 : 1 + depthOf(above, seen.add(name));
}

// A mark may have concepts that the vocabulary does not have any more: they are not lost.
const conceptNames = (one) => [...new Set([...Object.keys(page.concepts), ...one.concepts])];

// In place of boxes of concepts, where there are none.
const withoutConcepts = () => el("a", { href: "#vocabulary=" }, t`There are no concepts yet: add those of the papers, or your own`);

function showTiers(one) {
  $("mark-tiers").hidden = !Object.keys(page.tiers).length;
  fill($("mark-tiers"), el("legend", {}, t`Tiers`), ...Object.entries(page.tiers).map(([tier, values]) => {
    const select = el("select", { name: "tier" });
    select.dataset.tier = tier;
    const value = one.more?.[tier] ?? "";
    options(select, ["", ...new Set([...values, value])].filter((text, n) => text || !n).map((text) => [text, text]), value);
    return el("label", { title: definitionOf(tier) }, `${tier} `, select);
  }));
}

const definitionOf = (name) => page.vocabulary.terms.find((term) => term.name === name)?.definition ?? "";

function tiersInForm() {
  const values = {};
  for (const select of form.querySelectorAll("[name=tier]")) values[select.dataset.tier] = select.value;
  return values;
}

// The values of the tiers that a mark has.
const tiersOf = (one) => Object.fromEntries(Object.keys(page.tiers).map((tier) => [tier, one.more?.[tier] ?? ""]));

// ---- the page of the vocabulary -----------------------------------------------------------------

function termRow(term) {
  const field = (name, value, label) => el("td", {}, el("input", { name, value, "aria-label": label, autocomplete: "off" }));
  const kind = el("select", { name: "kind", "aria-label": t`Kind` });
  options(kind, Object.entries(KINDS_OF_TERMS), term.kind);
  const remove = el("button", { type: "button", "aria-label": t`Remove ${term.name}` }, t`Remove`);
  const row = el("tr", {}, field("name", term.name, t`Name`), el("td", {}, kind), field("broader", term.broader.join("; "), t`Above it`),
    el("td", {}, el("textarea", { name: "definition", value: term.definition, "aria-label": t`Definition`, rows: 1 })),
    field("uri", term.uri, t`URI`), el("td", {}, remove));
  remove.onclick = () => {
    const next = row.nextElementSibling ?? row.previousElementSibling;
    row.remove();
    (next?.querySelector("button") ?? $("add-term")).focus();
  };
  return row;
}

function showVocabulary() {
  const { vocabulary } = page;
  $("vocabulary-file").textContent = vocabulary.path;
  $("vocabulary-problem").hidden = !vocabulary.problem;
  $("vocabulary-problem").textContent = vocabulary.problem && t`The file cannot be read: ${vocabulary.problem}. Correct it there, and load this page again.`;
  vocabularyForm.hidden = Boolean(vocabulary.problem);
  for (const name of CITED) vocabularyForm.elements[name].value = [vocabulary[name]].flat().join("; ");
  fill($("terms"), ...vocabulary.terms.map(termRow));
  // Who does not annotate reads it only.
  $("vocabulary-where").hidden = !page.annotator;
  for (const button of vocabularyForm.querySelectorAll("button")) button.hidden = !page.annotator;
  for (const field of vocabularyForm.querySelectorAll("input, textarea")) field.readOnly = !page.annotator;
  for (const select of vocabularyForm.querySelectorAll("select")) select.disabled = !page.annotator;
}

const parts = (text) => text.split(";").map((part) => part.trim()).filter(Boolean);

function vocabularyInForm() {
  const terms = [...$("terms").rows].map((row) => {
    const [name, kind, broader, definition, uri] = ["name", "kind", "broader", "definition", "uri"].map((key) => row.querySelector(`[name=${key}]`).value.trim());
    return { name, kind, broader: parts(broader), definition, uri };
  });
  const facts = Object.fromEntries(CITED.map((name) => [name, vocabularyForm.elements[name].value.trim()]));
  return { ...facts, creators: parts(facts.creators), terms };
}

const savedVocabulary = () => Object.fromEntries([...CITED, "terms"].map((name) => [name, page.vocabulary[name]]));
const isSameVocabulary = (one, other) => [...CITED, "terms"].every((name) => JSON.stringify(one[name]) === JSON.stringify(other[name]));

async function putVocabulary(wanted, expected) {
  if (!isSameVocabulary(savedVocabulary(), expected)) throw outdated(t`Nothing is changed: the vocabulary was changed since.`);
  const answer = await post("vocabulary", { vocabulary: wanted, state: page.vocabulary.state });
  const reply = await answer.json();
  if (!answer.ok) throw new Error(messageOf(reply));
  Object.assign(page, reply);
  showVocabulary();
  prepareFilters();
  if (!film) return;
  if (!isUnsaved) fillForm(mark);
  makeLanes();
}

const vocabularyStatus = (text) => ($("vocabulary-status").textContent = text);

vocabularyForm.addEventListener("submit", (event) => {
  event.preventDefault();
  const before = savedVocabulary(), after = vocabularyInForm();
  const save = () => inTurn(async () => {
    await putVocabulary(after, before);
    if (!isSameVocabulary(before, savedVocabulary())) record({ kind: "vocabulary", text: t`the vocabulary`, before, after: savedVocabulary() });
    vocabularyStatus(t`Saved at ${new Date().toLocaleTimeString(locale)}.`);
  });
  save().catch((error) => vocabularyStatus(error.message));
});
$("add-term").onclick = () => {
  const row = termRow({ name: "", kind: "concept", broader: [], definition: "", uri: "" });
  $("terms").append(row);
  row.querySelector("input").focus();
};
$("add-paper").onclick = () => guarded(async () => {
  const known = new Set(vocabularyInForm().terms.map((term) => term.name));
  const added = (await load("paper-terms")).filter((term) => !known.has(term.name));
  $("terms").append(...added.map(termRow));
  vocabularyStatus(t`${added.length} terms are added to this list. Save keeps them.`);
});
$("vocabulary-undo").onclick = () => guarded(undo);
$("vocabulary-redo").onclick = () => guarded(redo);
