// Small tools. All text is inserted as text, so that no title or comment can be markup.

export const EPS = 1e-6; // seconds; times that differ by less are equal

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

// ---- messages -------------------------------------------------------------------------------------

let silence;

export function tell(text) {
  $("status").textContent = text;
  clearTimeout(silence);
  silence = setTimeout(() => ($("status").textContent = ""), 15000);
}

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
