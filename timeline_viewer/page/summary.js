// The spans of a folded rank: what it does at each time. The worker makes them once, when it reads the trace.
import {STRATA, stratumOf} from './colors.js';
import {rankIn} from './tracks.js';

const noSpans = () => ({begin: [], end: [], name: []});

function push(spans, begin, end, name) {
  const last = spans.end.length - 1;
  if (last >= 0 && spans.end[last] === begin && spans.name[last] === name) {
    spans.end[last] = end;
    return;
  }
  spans.begin.push(begin);
  spans.end.push(end);
  spans.name.push(name);
}

/// Returns the spans sorted by begin. If two overlap, the later one begins when the earlier one ends.
function union({begin, end, name}) {
  const index = Uint32Array.from(begin, (_, i) => i).sort((a, b) => begin[a] - begin[b]), made = noSpans();
  let last = -Infinity;
  for (const i of index) {
    if (end[i] < last || end[i] === last && begin[i] < last) continue;
    push(made, Math.max(begin[i], last), end[i], name[i]);
    last = end[i];
  }
  return made;
}

/// Returns the parts of the spans that lie within the mask, or outside it.
function clip(spans, mask, isWithin) {
  const made = noSpans();
  let k = 0;
  for (let i = 0; i < spans.begin.length; i++) {
    let at = spans.begin[i];
    const end = spans.end[i], name = spans.name[i];
    while (k < mask.end.length && mask.end[k] <= at) k++;
    for (let m = k; m < mask.begin.length && mask.begin[m] < end; m++) {
      const from = Math.max(at, mask.begin[m]), to = Math.min(end, mask.end[m]);
      if (isWithin && from < to) push(made, from, to, name);
      if (!isWithin && at < from) push(made, at, from, name);
      at = Math.max(at, to);
    }
    if (!isWithin && (at < end || spans.begin[i] === end)) push(made, at, end, name);
  }
  return made;
}

const both = (a, b) => union({begin: a.begin.concat(b.begin), end: a.end.concat(b.end),
  name: new Array(a.begin.length + b.begin.length).fill(0)});

/// Adds the time that all spans before each span take.
function packed({begin, end, name}) {
  const before = new Float64Array(begin.length + 1);
  for (let i = 0; i < begin.length; i++) before[i + 1] = before[i] + end[i] - begin[i];
  return {begin: Float64Array.from(begin), end: Float64Array.from(end), name: Int32Array.from(name), before};
}

/// Returns a span for each batch that this rank was the last for. It lasts from the time when all others were
/// ready until this rank's own submit.
function lateSpans(trace, rows, rank) {
  const keyOf = i => `${trace.epoch[i]}/${trace.order[i]}`;
  const submitted = new Map(), batches = [], made = noSpans();
  for (const row of rows) {
    for (const {from, to} of row.lanes) {
      for (let i = from; i < to; i++) {
        if (row.kind === 'tensor' && trace.names[trace.name[i]].startsWith('NEGOTIATE_'))
          submitted.set(keyOf(i), trace.begin[i]);
        if (trace.lastRank[i] === rank && trace.lastBy[i] > 0) batches.push(i);
      }
    }
  }
  for (const i of batches) {
    const end = submitted.get(keyOf(i)) ?? trace.begin[i];
    made.begin.push(end - trace.lastBy[i]);
    made.end.push(end);
    made.name.push(-1);
  }
  return union(made);
}

function summaryOf(trace, rows, strata) {
  const found = Object.fromEntries(STRATA.map(stratum => [stratum, noSpans()]));
  for (const row of rows) {
    for (const {from, to} of row.lanes) {
      for (let i = from; i < to; i++) {
        const stratum = strata[trace.name[i]], isTensor = row.kind === 'tensor';
        // The row of batches shows the collective of a tensor. The queue of a tensor holds up no thread.
        if (!stratum || isTensor && stratum !== 'ranks' && stratum !== 'error' ||
          trace.depth[i] > 0 && ['run', 'program'].includes(stratum)) continue;
        found[stratum].begin.push(trace.begin[i]);
        found[stratum].end.push(trace.end[i]);
        found[stratum].name.push(trace.name[i]);
      }
    }
  }
  for (const stratum of STRATA) found[stratum] = union(found[stratum]);
  const rank = rankIn(rows[0].process);
  if (rank !== undefined) found.late = lateSpans(trace, rows, rank);
  // A rank that computes during a negotiation is not held up. If threads record their
  // waits, only those count.
  if (found.result.begin.length) found.ranks = clip(found.ranks, found.result, true);
  let mask = noSpans();
  for (const stratum of STRATA) {
    const part = clip(found[stratum], mask, false);
    mask = both(mask, part);
    found[stratum] = packed(part);
  }
  return found;
}

/// Returns a map from the name of each process with several rows to {stratum: {begin, end, name, before}}.
/// `name` is the number of a name in the trace, and -1 in the stratum `late`.
export function summariesOf(trace) {
  const groups = new Map(), strata = trace.names.map(stratumOf), made = new Map();
  for (const row of trace.rows) {
    if (!row.lanes.length) continue;
    if (!groups.has(row.process)) groups.set(row.process, []);
    groups.get(row.process).push(row);
  }
  for (const [process, rows] of groups)
    if (rows.length > 1) made.set(process, summaryOf(trace, rows, strata));
  return made;
}
