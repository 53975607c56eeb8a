// Small tools. All text is inserted as text, so that no title or comment can be markup.

export const EPS = 1e-6; // seconds; times that differ by less are equal
const MOST_KEPT_ALIVE = 60_000; // bytes

export const $ = (id) => document.getElementById(id);

export function el(tag, facts = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(facts)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter(Boolean));
  return made;
}

export const fill = (parent, ...children) => parent.replaceChildren(...children.filter(Boolean));

export function options(select, pairs, chosen = select.value) {
  fill(select, ...pairs.map(([value, text]) => el("option", { value, textContent: text })));
  select.value = chosen;
  if (select.selectedIndex < 0) select.selectedIndex = 0;
}

// ---- the server -----------------------------------------------------------------------------------

export class Stopped extends Error {}

// A line of the page says that the server does not answer, until it does. With the cookie of an earlier
// server it answers nothing.
export async function send(address, options) {
  const answer = await fetch(address, options).catch(() => null);
  const isAnswered = Boolean(answer) && answer.status !== 403;
  $("stopped").hidden = isAnswered;
  if (!isAnswered) throw new Stopped("obygaze view has stopped");
  return answer;
}

const messageOf = ({ error, hint }) => (hint ? `${error}. Try: ${hint}` : error);

/* global EXPORTED: the documents of an exported page, which has no server */
const exported = typeof EXPORTED === "undefined" ? null : EXPORTED;

export const hasPictures = !exported;

export async function load(name, asked = {}) {
  if (exported) return exported[[name, ...Object.values(asked).slice(0, 1)].join(" ")];
  const answer = await send(`api/${name}?${new URLSearchParams(asked)}`);
  const found = await answer.json();
  if (!answer.ok) throw new Error(messageOf(found));
  return found;
}

// The answer to what is sent; an error has its status. What is sent while the page is closed arrives,
// except that browsers refuse to do this for more than 64 KiB.
export async function post(name, value) {
  const body = JSON.stringify(value);
  const keepalive = new Blob([body]).size < MOST_KEPT_ALIVE;
  const options = { method: "POST", keepalive, headers: { "Content-Type": "application/json" }, body };
  const answer = await send(`api/${name}`, options);
  const reply = await answer.json();
  if (answer.ok) return reply;
  const message = answer.status === 507 ? "the disk is full" : messageOf(reply);
  throw Object.assign(new Error(message), { status: answer.status });
}

// ---- messages -------------------------------------------------------------------------------------

let silence;

export function tell(text) {
  $("status").textContent = text;
  clearTimeout(silence);
  silence = setTimeout(() => ($("status").textContent = ""), 15000);
}

// What nobody asked for just now: the page says anyway that the server has stopped.
export const quietly = (task) => guarded(() => Promise.resolve().then(task).catch((error) => {
  if (!(error instanceof Stopped)) throw error;
}));

export const guarded = (task) => Promise.resolve().then(task).catch((error) => tell(error.message));

// ---- numbers and words ----------------------------------------------------------------------------

export function clock(seconds, digits = 0) {
  const units = Math.round(seconds * 10 ** digits);
  const whole = Math.floor(units / 10 ** digits);
  const two = (number) => String(number % 60).padStart(2, "0");
  const rest = digits ? `.${String(units % 10 ** digits).padStart(digits, "0")}` : "";
  return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60))}:${two(whole)}${rest}`;
}

// The number of items of a sorted list that are not above a value.
export function countUpTo(list, value, of = (item) => item) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (of(list[middle]) <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The address of a part of the page; without the slash it would be that of an element.
export const address = (facts) => `#/${new URLSearchParams(facts)}`;
