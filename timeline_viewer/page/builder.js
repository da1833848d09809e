// Makes columns of numbers from the events of a trace. They are sorted by row, depth and time, so each pair
// of row and depth is a lane whose events do not overlap.

import {summariesOf} from './summary.js';
import {kindOfTrack, processIn, trackWords} from './tracks.js';

const OWN_COLUMN = new Set(['order', 'bytes', 'last_rank', 'last_by_us', 'batch']);

// Ends are sums of two rounded numbers, so an event may seem to end just after the next one begins.
const HALF_NS = 0.0005;

// The file is not trusted. Up to this limit, about 285 years, a double distinguishes single microseconds.
const MOST_US = 2 ** 53;

// A time that is later than this, in 2001, is a time of day.
const EARLIEST_US = 1e15;

const number = value => typeof value === 'number' || typeof value === 'string' ? Number(value) : NaN;
const text = value => value !== null && typeof value === 'object' ? JSON.stringify(value) : String(value);
const isTime = us => Math.abs(us) <= MOST_US;

class Names {
  constructor() {
    this.texts = [];
    this.numbers = new Map();
  }
  number(text) {
    let number = this.numbers.get(text);
    if (number === undefined) this.numbers.set(text, number = this.texts.push(text) - 1);
    return number;
  }
}

export class Builder {
  constructor() {
    this.names = new Names();
    this.details = new Names();
    this.processes = new Map();
    this.rows = new Map();
    this.rowList = [];
    this.counters = new Map();
    this.begin = [];
    this.end = [];
    this.row = [];
    this.name = [];
    this.detail = [];
    this.order = [];
    this.epoch = [];
    this.bytes = [];
    this.lastRank = [];
    this.lastBy = [];
    this.bad = 0;  // number of events that cannot be read
    this.file = 0;  // number of the file that the events come from
  }

  nextFile() { this.file++; }

  /// The number of events.
  get count() { return this.begin.length; }

  add(events) {
    for (const event of events) {
      if (!event || typeof event !== 'object') continue;
      try {
        this.addOne(event);
      // The event is nested too deeply for JSON.stringify.
      } catch {
        this.bad++;
      }
    }
  }

  addOne(event) {
    if (event.ph === 'M') return this.addName(event);
    if (event.ph === 'C') return this.addCount(event);
    if (!['X', 'i', 'I', 'B', 'E'].includes(event.ph)) return;
    const ts = number(event.ts), dur = Math.max(0, number(event.dur) || 0);
    if (!isTime(ts) || !isTime(ts + dur)) {
      this.bad++;
      return;
    }
    if (event.ph === 'X') {
      this.push(this.rowOf(event), event, ts, ts + dur);
    } else if (event.ph === 'i' || event.ph === 'I') {
      this.push(this.rowOf(event), event, ts, ts);
    } else if (event.ph === 'B') {
      const row = this.rowOf(event);
      row.open.push(this.push(row, event, ts, NaN));
    } else if (event.ph === 'E') {
      const row = this.rowOf(event);
      if (row.open.length) this.end[row.open.pop()] = ts;
    }
  }

  /// A counter is a row of its own, with the time and value of each change.
  addCount(event) {
    const ts = number(event.ts), pid = text(event.pid), {file} = this;
    for (const [series, value] of
      Object.entries(event.args && typeof event.args === 'object' ? event.args : {})) {
      if (!isTime(ts) || !Number.isFinite(value)) {
        this.bad++;
        continue;
      }
      const name = series === 'value' ? text(event.name) : `${text(event.name)} ${series}`,
        key = JSON.stringify([file, pid, name]);
      if (!this.counters.has(key)) this.counters.set(key, {file, pid, name, changes: []});
      this.counters.get(key).changes.push([ts, value]);
    }
  }

  addName(event) {
    const name = event.args?.name;
    if (event.name === 'process_name' && name !== undefined)
      this.processes.set(`${this.file}/${text(event.pid)}`, text(name));
    if (event.name === 'thread_name' && name !== undefined) this.rowOf(event).name = text(name);
  }

  rowOf(event) {
    const pid = text(event.pid), tid = event.tid === undefined ? undefined : text(event.tid),
      key = `${this.file}/${pid}/${tid}`;
    let row = this.rows.get(key);
    if (!row) {
      row = {index: this.rowList.length, file: this.file, pid, tid, name: '', open: []};
      this.rows.set(key, row);
      this.rowList.push(row);
    }
    return row;
  }

  push(row, event, begin, end) {
    const args = event.args && typeof event.args === 'object' ? event.args : {};
    const rest = Object.entries(args).filter(([key]) => !OWN_COLUMN.has(key));
    // Made first, since it may fail before any column has grown.
    const name = text(event.name), detail = rest.length ? JSON.stringify(rest) : '[]';
    if (name.startsWith('NEGOTIATE_')) row.negotiates = true;
    this.begin.push(begin);
    this.end.push(end);
    this.row.push(row.index);
    this.name.push(this.names.number(name));
    this.detail.push(this.details.number(detail));
    this.order.push(number(args.order));
    this.epoch.push(number(args.epoch) || 0);
    this.bytes.push(number(args.bytes));
    this.lastRank.push(number(args.last_rank ?? -1));
    this.lastBy.push(number(args.last_by_us));
    return this.begin.length - 1;
  }

  /// Returns when each file begins and ends. An event without an end ends with its file.
  endFiles() {
    const files = Array.from({length: this.file + 1}, () => ({first: Infinity, last: -Infinity, shift: 0}));
    const fileOf = i => files[this.rowList[this.row[i]].file];
    for (let i = 0; i < this.begin.length; i++) {
      const file = fileOf(i);
      file.first = Math.min(file.first, this.begin[i]);
      file.last = Math.max(file.last, this.begin[i], this.end[i] || -Infinity);
    }
    for (let i = 0; i < this.begin.length; i++) if (Number.isNaN(this.end[i])) this.end[i] = fileOf(i).last;
    return files;
  }

  /// Files that were recorded at the same time of day are aligned by it. Any other file that has no moment
  /// in common with earlier files is from another job or clock. It is shifted to begin where the first file
  /// does.
  /// `baseTimes` has the time of day at the zero of each file, in microseconds; undefined if it is not known.
  alignFiles(files, baseTimes) {
    // Older profiles have the time of day in each event.
    files.forEach((file, i) => { file.base = baseTimes[i] ?? (file.first > EARLIEST_US ? 0 : NaN); });
    const [one, ...others] = files.filter(file => file.first <= file.last);
    let {first, last} = one ?? {};
    for (const file of others) {
      const later = file.base - one.base;
      if (file.first + later <= last && file.last + later >= first) file.shift = later;
      else if (file.first > last || file.last < first) file.shift = one.first - file.first;
      first = Math.min(first, file.first + file.shift);
      last = Math.max(last, file.last + file.shift);
    }
    if (!files.some(file => file.shift)) return;
    for (let i = 0; i < this.begin.length; i++) {
      const {shift} = files[this.rowList[this.row[i]].file];
      this.begin[i] += shift;
      this.end[i] += shift;
    }
    for (const {file, changes} of this.counters.values())
      for (const change of changes) change[0] += files[file].shift;
  }

  /// `names` are the names of the files, in their order. `baseTimes` is as in alignFiles().
  finish(names = [''], baseTimes = []) {
    this.fileNames = names.length > 1 ? names : [''];
    const count = this.begin.length, files = this.endFiles();
    this.alignFiles(files, baseTimes);
    let last = -Infinity, first = Infinity;
    for (const file of files) {
      first = Math.min(first, file.first + file.shift);
      last = Math.max(last, file.last + file.shift);
    }
    const depth = this.depths();
    const index = Uint32Array.from({length: count}, (_, i) => i)
      .sort((a, b) => this.row[a] - this.row[b] || depth[a] - depth[b] || this.begin[a] - this.begin[b]);
    const take = (Type, from) => Type.from(index, i => from[i]);
    const trace = {
      count, files: files.map(({first, shift}, i) => ({name: this.fileNames[i] ?? '', first, shift})),
      first: count ? first : 0, last: count ? last : 1,
      begin: take(Float64Array, this.begin), end: take(Float64Array, this.end),
      row: take(Uint32Array, this.row), name: take(Uint32Array, this.name),
      detail: take(Uint32Array, this.detail), order: take(Float64Array, this.order),
      epoch: take(Float64Array, this.epoch),
      bytes: take(Float64Array, this.bytes), lastRank: take(Int32Array, this.lastRank),
      lastBy: take(Float64Array, this.lastBy),
      depth: take(Uint8Array, depth), names: this.names.texts, details: this.details.texts,
      rows: this.rowList.map(({file, pid, tid, name, negotiates}) => this.named({
        file, pid, tid, name: name || (tid === undefined ? '' : `thread ${tid}`), lanes: [], negotiates,
      })),
    };
    for (const {file, pid, name, changes} of this.counters.values()) {
      changes.sort((a, b) => a[0] - b[0]);
      trace.rows.push(this.named({file, pid, name, lanes: [], counter: {
        times: Float64Array.from(changes, change => change[0]),
        values: Float64Array.from(changes, change => change[1]),
        most: changes.reduce((most, change) => Math.max(most, change[1]), 0),
      }}));
    }
    for (let i = 0; i < count;) {
      let to = i + 1;
      while (to < count && trace.row[to] === trace.row[i] && trace.depth[to] === trace.depth[i]) to++;
      trace.rows[trace.row[i]].lanes.push({from: i, to});
      i = to;
    }
    trace.summaries = summariesOf(trace);
    return trace;
  }

  /// Adds the process, the kind and the words to the row.
  named(row) {
    row.process = processIn(this.fileNames[row.file],
      this.processes.get(`${row.file}/${row.pid}`) ?? `process ${row.pid}`);
    row.kind = kindOfTrack(row);
    row.words = trackWords(row);
    return row;
  }

  /// Returns the depth of each event in its row: below all events that have not ended when it begins.
  depths() {
    const depth = new Uint8Array(this.begin.length);
    const index = Uint32Array.from(depth, (_, i) => i).sort(
      (a, b) => this.row[a] - this.row[b] || this.begin[a] - this.begin[b] ||
        this.end[b] - this.end[a] || a - b);
    let row = -1, ends = [];
    for (const i of index) {
      if (this.row[i] !== row) [row, ends] = [this.row[i], []];
      let level = 31;
      while (level > 0 && !(ends[level - 1] > this.begin[i] + HALF_NS)) level--;
      ends[level] = Math.max(this.end[i], this.begin[i]);
      depth[i] = level;
    }
    return depth;
  }
}
