// What each kind of event looks like: colours of Okabe and Ito's set, which colour-blind people can tell apart.
const KINDS = [
  [/^NEGOTIATE_/, '#e69f00'],
  [/^(QUEUE|WAIT)/, '#8d95a3'],
  [/^(MEMCPY_|ALLOCATE|INIT_FUSION)/, '#cc79a7'],
  [/^(ERROR|RECORDS_LOST|TAIL_MISSING)/, '#d55e00'],
  [/^(ALLREDUCE|ALLGATHER|BROADCAST|ALLTOALL|REDUCESCATTER|nccl|gloo:)/, '#0072b2'],
  [/^[A-Z]+_(ALLREDUCE|ALLGATHER|BCAST|ALLTOALL|REDUCESCATTER|RUN)/, '#56b4e9'],
  [/^(step \d|STEP|CYCLE_START)/, '#a7adb8'],
];

export const colorOf = name => KINDS.find(([pattern]) => pattern.test(name))?.[1] ?? '#009e73';

/// What is read on that colour.
export const inkOn = color => color === '#0072b2' || color === '#d55e00' ? '#fff' : '#000';
