// The same order on all ranks, and who kept the others waiting.

/// 3 of "rank 3"; undefined of another process.
export function rankOf(trace, event) {
  const found = /^rank (\d+)$/.exec(trace.rows[trace.row[event]].process);
  return found ? Number(found[1]) : undefined;
}

/// The event and those of other processes that tell of the same order in a row of the same name.
export function sameOnAllRanks(trace, event) {
  if (Number.isNaN(trace.order[event])) return [event];
  const {name} = trace.rows[trace.row[event]], found = [];
  for (const row of trace.rows) {
    if (row.name !== name) continue;
    for (const lane of row.lanes)
      for (let i = lane.from; i < lane.to; i++)
        if (trace.order[i] === trace.order[event] && trace.name[i] === trace.name[event]) found.push(i);
  }
  return found;
}

/// {rank, us}: who was the last to be ready for this order, and for how long it alone was waited for. Null: nobody tells.
export function lastRankOf(trace, event) {
  const tell = i => trace.lastRank[i] >= 0 ? {rank: trace.lastRank[i], us: trace.lastBy[i]} : null;
  if (tell(event)) return tell(event);
  for (let i = 0; i < trace.count; i++) if (trace.order[i] === trace.order[event] && tell(i)) return tell(i);
  return null;
}
