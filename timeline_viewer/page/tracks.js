// The kind and the words of each row: from its number in a merged trace (docs/timeline.md), else from its name.

// Tensors of a rank have the rows from this number on.
const FIRST_TENSOR = 100_000;

/// What a process of a trace is called among those of several: `file` is the trace's name; empty: there is one alone.
export const processIn = (file, process) => file ? `${file} · ${process}` : process;

/// 3 of "rank 3", or of "a.json · rank 3"; undefined of another process.
export function rankIn(process) {
  const found = /(?:^| · )rank (\d+)$/.exec(process);
  return found ? Number(found[1]) : undefined;
}

export const isRank = process => rankIn(process) !== undefined;

/// 'counter', 'steps', 'batches', 'tensor' or 'thread'. `negotiates`: one of its events is a negotiation.
export function kindOfTrack({process, name, tid, counter, negotiates}) {
  if (counter) return 'counter';
  if (tid === undefined) return negotiates ? 'tensor' : 'thread';  // Horovod's timelines have a process for each tensor
  if (!isRank(process)) return 'thread';
  if (name === 'steps') return 'steps';
  if (/^lane(, overlapping \d+)?$/.test(name)) return 'batches';
  return Number(tid) >= FIRST_TENSOR ? 'tensor' : 'thread';
}

/// The row in words, within its process: "batches", "thread python 4711", "tensor layer1.weights".
export function trackWords({name, kind}) {
  if (kind === 'batches') return name.replace(/^lane/, 'batches');
  if (kind === 'steps' || kind === 'counter' || !name) return name;
  return kind === 'thread' && /\b(thread|stream|link|queue)\b/i.test(name) ? name : `${kind} ${name}`;
}

/// The name that a search counts as one tensor, whatever the number of its ranks and rows; undefined for other rows.
export const tensorOf = ({process, name, kind}) => kind === 'tensor' ? name || process : undefined;
