// The search: tests of names, what they find, and the way from one event found to the next.
import {tensorOf} from './tracks.js';

/// A test of names: a part of one, whatever its case, or /expression/, or /expression/i.
export function matcher(text) {
  const pattern = /^\/(.+)\/(i?)$/.exec(text);
  if (!pattern) return name => name.toLowerCase().includes(text.toLowerCase());
  const expression = new RegExp(pattern[1], pattern[2]);
  return name => expression.test(name);
}

const counted = (count, what) => `${count.toLocaleString('en')} ${what}${count === 1 ? '' : 's'}`;

/// {matched, words}. `matched` has a bool for each name of the trace, and `matched.rows` one for each row. `words`: how many tensors
/// match, and how many events of other rows.
export function find(trace, text) {
  const test = matcher(text), matched = trace.names.map(test), tensors = new Set();
  matched.rows = trace.rows.map(row => test(row.name) || row.tid === undefined && !row.counter && test(row.process));
  trace.rows.forEach((row, i) => {
    if (matched.rows[i] && tensorOf(row) !== undefined) tensors.add(tensorOf(row));
  });
  const isTensor = trace.rows.map((row, i) => matched.rows[i] && tensorOf(row) !== undefined);
  let events = 0;
  for (let i = 0; i < trace.count; i++) events += !isTensor[trace.row[i]] && (matched[trace.name[i]] || matched.rows[trace.row[i]]);
  const words = !tensors.size ? counted(events, 'event') : counted(tensors.size, 'tensor') + (events ? `, ${counted(events, 'other event')}` : '');
  return {matched, words};
}

/// Where `by` is 1 the first event that the search has found and that begins after the selected one, or, where none is selected,
/// after what is shown has begun; by -1 the last one before. From the last it goes on with the first. Rows that are shown come before
/// those that are not.
export function goToNext(lanes, by) {
  const {trace, matched} = lanes;
  if (!matched) return;
  const shown = lanes.layout.shown();
  const from = lanes.selected >= 0 ? [trace.begin[lanes.selected], lanes.selected] : [lanes.begin, -1];
  const compare = (a, b) => by * (a[0] - b[0] || a[1] - b[1]);
  const isFound = i => matched[trace.name[i]] || matched.rows[trace.row[i]], isShown = i => shown.has(trace.rows[trace.row[i]]);
  let nearest = null, first = null, hasShown = false;
  for (let i = 0; i < trace.count && !hasShown; i++) hasShown = isFound(i) && isShown(i);
  for (let i = 0; i < trace.count; i++) {
    if (!isFound(i) || hasShown && !isShown(i)) continue;
    const here = [trace.begin[i], i];
    if (compare(here, from) > 0 && (!nearest || compare(here, nearest) < 0)) nearest = here;
    if (!first || compare(here, first) < 0) first = here;
  }
  const found = nearest ?? first;
  if (found) lanes.goTo(found[1]);
}
