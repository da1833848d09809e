// The state of the page as a part of its address, so that it can be sent and opened again:
// #t=from,to&by=tensor&q=words&rows=name, and &open=group for each opened group. Times are microseconds from
// the trace's beginning on.
const MOST_OPENED = 16;

export function readLink() {
  const parts = new URLSearchParams(location.hash.slice(1)),
    [from, to] = (parts.get('t') ?? '').split(',').map(Number);
  return {from, to, hasTimes: Number.isFinite(from) && Number.isFinite(to) && from < to,
    by: parts.get('by'), words: parts.get('q') ?? '', filter: parts.get('rows') ?? '',
    opened: parts.getAll('open')};
}

export function writeLink({from, to, by, words, filter, opened}) {
  const parts = [`t=${from.toFixed(3)},${to.toFixed(3)}`, `by=${encodeURIComponent(by)}`];
  if (words) parts.push(`q=${encodeURIComponent(words)}`);
  if (filter) parts.push(`rows=${encodeURIComponent(filter)}`);
  for (const key of opened.slice(0, MOST_OPENED)) parts.push(`open=${encodeURIComponent(key)}`);
  history.replaceState(null, '', `#${parts.join('&')}`);
}
