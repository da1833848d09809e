// The keys: what each does to the lanes, and the list that `?` shows.
import {moveCursor, selectBeside, toggle, toggleAll} from './folding.js';

/// `act` has the actions by the browser's names of the keys, with letters in lower case. main.js
/// handles keys without `act`.
export const KEYS = [
  {keys: ['W', 'S', 'wheel'], words: 'zoom in, zoom out', act: {
    w: lanes => lanes.zoom(0.8), s: lanes => lanes.zoom(1.25)}},
  {keys: ['A', 'D', '←', '→', 'drag'], words: 'move left, right', act: {
    a: lanes => moveBy(lanes, -1), d: lanes => moveBy(lanes, 1),
    ArrowLeft: lanes => moveBy(lanes, -1), ArrowRight: lanes => moveBy(lanes, 1)}},
  {keys: ['↑', '↓', 'Shift wheel'], words: 'scroll', act: {
    ArrowUp: lanes => lanes.scrollBy(-32), ArrowDown: lanes => lanes.scrollBy(32)}},
  {keys: ['0'], words: 'show the whole trace', act: {0: lanes => lanes.showAll()}},
  {keys: ['J', 'K'], words: 'go to the next, the previous rank', act: {
    j: lanes => moveCursor(lanes, 1), k: lanes => moveCursor(lanes, -1)}},
  {keys: ['Enter', 'click'], words: 'open or fold the rank', act: {
    Enter: lanes => toggle(lanes, lanes.cursor)}},
  {keys: ['O'], words: 'open or fold all ranks', act: {o: lanes => toggleAll(lanes)}},
  {keys: ['N', 'B'], words: 'select the next, the previous event of the row', act: {
    n: lanes => selectBeside(lanes, 1), b: lanes => selectBeside(lanes, -1)}},
  {keys: ['F', 'double click'], words: 'zoom to the selection', act: {f: lanes => lanes.fitSelected()}},
  {keys: ['M', 'Shift drag'], words: 'measure the selection, or a range', act: {
    m: lanes => lanes.measureSelected()}},
  {keys: ['Escape'], words: 'clear the selection and the measurement', act: {Escape: lanes => lanes.clear()}},
  {keys: ['/'], words: 'search; Enter goes to the next match, Shift Enter to the previous one'},
  {keys: ['R'], words: 'filter the rows by name'},
  {keys: ['?'], words: 'show these keys'},
];

const ACTS = Object.assign({}, ...KEYS.map(each => each.act));

const moveBy = (lanes, by) => lanes.pan(by * (lanes.end - lanes.begin) / 8);

export function press(lanes, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const act = ACTS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!act) return;
  event.preventDefault();
  act(lanes);
}

/// Fills the list of keys. The button opens it, and so does `?` unless text is being typed.
export function showKeys(dialog, list, button) {
  for (const {keys, words} of KEYS) {
    const term = document.createElement('dt'), what = document.createElement('dd');
    term.append(...keys.map(key => Object.assign(document.createElement('kbd'), {textContent: key})));
    what.textContent = words;
    list.append(term, what);
  }
  const turn = () => dialog.open ? dialog.close() : dialog.showModal();
  button.onclick = turn;
  dialog.onclick = event => event.target === dialog && dialog.close();  // a click beside the dialog
  addEventListener('keydown', event => {
    if (event.key !== '?' || event.target.matches?.('input')) return;
    event.preventDefault();
    turn();
  });
}
