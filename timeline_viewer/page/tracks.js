// The kind and the words of each row, from its number in a merged trace
// (docs/reference/timeline-trace.md), else from its name.

// The rows of a rank's tensors have numbers from this one on.
const FIRST_TENSOR = 100_000;

/// Returns the name of a process among those of several traces. `file` is the trace's name; empty if
/// there is only one trace.
export const processIn = (file, process) => file ? `${file} · ${process}` : process;

/// Returns 3 for "rank 3" and for "a.json · rank 3"; undefined for other processes.
export function rankIn(process) {
  const found = /(?:^| · )rank (\d+)$/.exec(process);
  return found ? Number(found[1]) : undefined;
}

export const isRank = process => rankIn(process) !== undefined;

/// Returns the name of the process of the whole job, in an elastic job. `file` is as in processIn().
export const jobIn = file => processIn(file, 'job');

/// Returns 'counter', 'changes', 'steps', 'batches', 'tensor' or 'thread'. `negotiates` is true if one of its
/// events is a negotiation.
export function kindOfTrack({process, name, tid, counter, negotiates}) {
  if (counter) return 'counter';
  // Horovod's timelines have a process for each tensor.
  if (tid === undefined) return negotiates ? 'tensor' : 'thread';
  if (/(?:^| · )job$/.test(process) && name === 'changes') return 'changes';
  if (!isRank(process)) return 'thread';
  if (name === 'steps') return 'steps';
  if (/^lane(, overlapping \d+)?$/.test(name)) return 'batches';
  return Number(tid) >= FIRST_TENSOR ? 'tensor' : 'thread';
}

/// Returns words for the row within its process: "batches", "thread python 4711", "tensor layer1.weights".
export function trackWords({name, kind}) {
  if (kind === 'batches') return name.replace(/^lane/, 'batches');
  if (['changes', 'counter', 'steps'].includes(kind) || !name) return name;
  return kind === 'thread' && /\b(thread|stream|link|queue)\b/i.test(name) ? name : `${kind} ${name}`;
}

/// Returns the name that a search counts as one tensor, for any number of ranks and rows;
/// undefined for other rows.
export const tensorOf = ({process, name, kind}) => kind === 'tensor' ? name || process : undefined;
