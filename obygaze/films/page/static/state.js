// What the page knows, in one object. Each part is written by one module, named behind it; every
// module may read all of it. Whoever writes a part says so with `changed`, and views draw it anew.

export const state = {
  page: null, // the overview: films, clips, levels, concepts (main)
  cell: null, // the number of the chosen model of the run, or of the table (main)
  scores: null, // what this model says of the clips (main)
  film: null, // the document of the film that is shown (main); its marks and segments (marks), what
  // was watched of it (watched)
  at: 0, // the time on the time line that is shown, in seconds (player)
  piece: null, // the stretch of the film whose video is loaded, null where there is none (player)
  lanes: [], // the rows of the time line (timeline)
  turn: null, // by which the server knows the window that marks; "" in one that looks (marks)
  why: "", // why this window only looks (marks)
  chosen: null, // the pictures of the mark in the form (marks)
  begun: null, // what is known of a mark that is not whole yet (marks)
  undo: [], // changes, the last one at the end (marks)
  redo: [], // changes that were undone (marks)
};

// Whether this window changes marks.
export const canMark = () => Boolean(state.film?.can_mark && state.turn);

const listeners = new Map();

// Call a function after each change of these parts.
export function on(parts, listener) {
  for (const part of parts.split(" ")) listeners.set(part, [...(listeners.get(part) ?? []), listener]);
}

export function changed(part, value) {
  for (const listener of listeners.get(part) ?? []) listener(value);
}
