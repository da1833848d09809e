// What each kind of event looks like: colours of Okabe and Ito's set, which colour-blind people can tell apart.
const KINDS = [
  [/^NEGOTIATE_/, '#e69f00', 'waits for other ranks'],
  [/^(QUEUE|WAIT)/, '#8d95a3', 'waits for a result'],
  [/^(MEMCPY_|ALLOCATE|INIT_FUSION)/, '#cc79a7', 'is copied'],
  [/^(ERROR|RECORDS_LOST|TAIL_MISSING)/, '#d55e00', 'error or loss'],
  [/^(ALLREDUCE|ALLGATHER|BROADCAST|ALLTOALL|REDUCESCATTER|nccl|gloo:)/, '#0072b2', 'collective'],
  [/^[A-Z]+_(ALLREDUCE|ALLGATHER|BCAST|ALLTOALL|REDUCESCATTER|RUN)/, '#56b4e9', 'data moves'],
  [/^(step \d|STEP|CYCLE_START)/, '#c3c8d0', 'step'],
  [/^/, '#009e73', 'the program'],
];

const kindOf = name => KINDS.find(([pattern]) => pattern.test(name));

export const colorOf = name => kindOf(name)[1];

/// What is read on that colour.
export const inkOn = color => color === '#0072b2' || color === '#d55e00' ? '#fff' : '#000';

/// [colour, what it means] of the kinds that have one of these names.
export function legendOf(names) {
  const there = new Set(names.map(kindOf));
  return KINDS.filter(kind => there.has(kind)).map(([, color, meaning]) => [color, meaning]);
}
