// The colour of each name, which is the same in every row, view and file. The runtime's own names have the
// colour of their kind, from Okabe and Ito's set, which colour-blind people can tell apart. The program's
// names have a colour that is computed from the name alone.

/// The strata of a folded rank. At each time it shows the first of these that the rank is in.
export const STRATA = ['error', 'run', 'late', 'ranks', 'result', 'program'];

export const LATE = ['#aa3377', 'this rank was the last to be ready'];

const KINDS = [
  [/^NEGOTIATE_/, '#e69f00', 'waits for other ranks', 'ranks'],
  [/^(QUEUE|WAIT)/, '#8d95a3', 'waits for a result', 'result'],
  [/^(MEMCPY_|ALLOCATE|INIT_FUSION)/, '#cc79a7', 'is copied', 'run'],
  [/^(ERROR|RECORDS_LOST|TAIL_MISSING)/, '#d55e00', 'error or loss', 'error'],
  [/^(ALLREDUCE|ALLGATHER|BROADCAST|ALLTOALL|REDUCESCATTER|nccl|gloo:)/, '#0072b2', 'collective', 'run'],
  [/^[A-Z]+_(ALLREDUCE|ALLGATHER|BCAST|ALLTOALL|REDUCESCATTER|RUN)/, '#56b4e9', 'data moves', 'run'],
  [/^\d+$/, '#f0e442', 'a rank is ready', ''],  // of Horovod's timelines
  [/^(step \d|STEP|CYCLE_START)/, '#c3c8d0', 'step', ''],
  [/^epoch \d+: /, '#009e73', 'the ranks change', ''],
  [/^/, '', '', 'program'],
];
const MOST_NAMES = 6;  // names of the program in the legend

const kindOf = name => KINDS.find(([pattern]) => pattern.test(name));

// Greens and violets, which no kind has. They are light enough for black letters.
const OWN_HUES = [70, 92, 114, 136, 158, 180, 236, 254, 272, 290];

function colorOfHash(name) {
  let hash = 0x811c9dc5;  // FNV-1a
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  const place = ((hash ^ hash >>> 15) >>> 0) % (2 * OWN_HUES.length);
  return `hsl(${OWN_HUES[place >> 1]} 50% ${[64, 80][place % 2]}%)`;
}

export const colorOf = name => kindOf(name)[1] || colorOfHash(name);

/// Returns one of STRATA, or '' for a name that folded ranks leave out.
export const stratumOf = name => kindOf(name)[3];

/// Returns the words for a span of a folded rank: the meaning of a wait, else the name.
export const wordsOf = name => ['ranks', 'result'].includes(stratumOf(name)) ? kindOf(name)[2] : name;

/// The colour of letters on this colour.
export const inkOn = color => ['#0072b2', '#d55e00', LATE[0]].includes(color) ? '#fff' : '#000';

/// Returns pairs [colour, meaning] for the kinds among these names, and for some of the program's names.
export function legendOf(names, hasLate) {
  const all = names.map(kindOf), there = new Set(all), own = names.filter((_, i) => !all[i][1]);
  const kinds = KINDS.filter(kind => kind[1] && there.has(kind))
    .map(([, color, meaning]) => [color, meaning]);
  const more = own.length - MOST_NAMES;
  return [...kinds, ...hasLate ? [LATE] : [], ...own.slice(0, MOST_NAMES).map(name => [colorOf(name), name]),
    ...more > 0 ? [['', `${more.toLocaleString('en')} more names of the program`]] : []];
}
