// The search: tests names, finds events, and goes from one found event to the next.
import {tensorOf} from './tracks.js';

/// Returns a test of names. `text` is a part of the name in any case, or /expression/, or /expression/i.
export function matcher(text) {
  const pattern = /^\/(.+)\/(i?)$/.exec(text);
  if (!pattern) return name => name.toLowerCase().includes(text.toLowerCase());
  const expression = new RegExp(pattern[1], pattern[2]);
  return name => expression.test(name);
}

const counted = (count, what) => `${count.toLocaleString('en')} ${what}${count === 1 ? '' : 's'}`;

/// Returns {matched, words}. `matched` has a bool for each name of the trace, and `matched.rows` one for each
/// row. `words` has the number of tensors that match, and of events in other rows that match.
export function find(trace, text) {
  const test = matcher(text), matched = trace.names.map(test), tensors = new Set();
  matched.rows = trace.rows.map(
    row => test(row.name) || row.tid === undefined && !row.counter && test(row.process));
  trace.rows.forEach((row, i) => {
    if (matched.rows[i] && tensorOf(row) !== undefined) tensors.add(tensorOf(row));
  });
  const isTensor = trace.rows.map((row, i) => matched.rows[i] && tensorOf(row) !== undefined);
  let events = 0;
  for (let i = 0; i < trace.count; i++)
    events += !isTensor[trace.row[i]] && (matched[trace.name[i]] || matched.rows[trace.row[i]]);
  const words = !tensors.size ? counted(events, 'event') :
    counted(tensors.size, 'tensor') + (events ? `, ${counted(events, 'other event')}` : '');
  return {matched, words};
}

/// Goes to the next found event (`by` is 1) or the previous one (`by` is -1). It counts from the selected
/// event; without a selection, from the beginning of the visible range. From the last event it goes on with
/// the first. If rows that are shown have found events, only these count.
export function goToNext(lanes, by) {
  const {trace, matched} = lanes;
  if (!matched) return;
  const shown = lanes.layout.shown();
  const from = lanes.selected >= 0 ? [trace.begin[lanes.selected], lanes.selected] : [lanes.begin, -1];
  const compare = (a, b) => by * (a[0] - b[0] || a[1] - b[1]);
  const isFound = i => matched[trace.name[i]] || matched.rows[trace.row[i]],
    isShown = i => shown.has(trace.rows[trace.row[i]]);
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
