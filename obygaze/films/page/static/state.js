// What the page knows, in one object. Each part is written by one module, named behind it; every
// module may read all of it. Whoever writes a part says so with `changed`, and views draw it anew.

export const state = {
  page: null, // clips, levels, concepts, pages of other films (main)
  models: [], // what each model of the run, or of the table, says of the clips (main)
  cell: null, // the number of the chosen model (main)
  scores: null, // what this model says of the clips (main)
  film: null, // the time line of the film, its videos and its marks (main)
  at: 0, // the time on the time line that is shown, in seconds (player)
  piece: null, // the stretch of the film whose video is loaded, null where there is none (player)
  lanes: [], // the rows of the time line (timeline)
};

const listeners = new Map();

// Call a function after each change of a part.
export function on(part, listener) {
  listeners.set(part, [...(listeners.get(part) ?? []), listener]);
}

export function changed(part) {
  for (const listener of listeners.get(part) ?? []) listener();
}
