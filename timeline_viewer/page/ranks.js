// The same order on all ranks, and the rank that the others waited for. Orders count anew in each epoch of an
// elastic job; the epoch of all other jobs is 0.
import {rankIn} from './tracks.js';

/// Returns 3 for an event of "rank 3"; undefined for other processes.
export const rankOf = (trace, event) => rankIn(trace.rows[trace.row[event]].process);

const fileOf = (trace, event) => trace.rows[trace.row[event]].file;

const isSameOrder = (trace, a, b) => trace.order[a] === trace.order[b] && trace.epoch[a] === trace.epoch[b];

/// Returns the event and those of other processes of its file that have the same order,
/// in rows of the same name.
export function sameOnAllRanks(trace, event) {
  if (Number.isNaN(trace.order[event])) return [event];
  const {name, file} = trace.rows[trace.row[event]], found = [];
  for (const row of trace.rows) {
    if (row.name !== name || row.file !== file) continue;
    for (const lane of row.lanes)
      for (let i = lane.from; i < lane.to; i++)
        if (isSameOrder(trace, i, event) && trace.name[i] === trace.name[event]) found.push(i);
  }
  return found;
}

/// Returns {rank, us}: the rank that was the last to be ready for this order, and how long the others waited
/// for it alone. Returns null if the trace does not show it.
export function lastRankOf(trace, event) {
  const lastIn = i => trace.lastRank[i] >= 0 ? {rank: trace.lastRank[i], us: trace.lastBy[i]} : null;
  if (lastIn(event)) return lastIn(event);
  for (let i = 0; i < trace.count; i++)
    if (isSameOrder(trace, i, event) && lastIn(i) && fileOf(trace, i) === fileOf(trace, event))
      return lastIn(i);
  return null;
}
