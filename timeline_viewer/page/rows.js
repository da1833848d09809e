// The rows of the lanes and their positions. The rows of a process or of a tensor form a group,
// which folds to its head.
import {countsIn} from './counters.js';
import {firstEndingAfter} from './spans.js';
import {isRank, trackWords} from './tracks.js';

export const AXIS = 24, LANE = 16, FOLDED = 24, GAP = 6;
const FIRST_LANE_OF_THREADS = 999.5;  // counters come before this one

const compareNames = new Intl.Collator('en', {numeric: true}).compare;

export class Rows {
  /// `grouping` is "rank": each process with its rows; "batches": the same without rows of tensors; or
  /// "tensor": each name of a row with the rows of all processes.
  constructor(trace, grouping, unfolded = new Map()) {
    const isByTensor = grouping === 'tensor',
      [outer, inner] = isByTensor ? ['name', 'process'] : ['process', 'words'];
    this.trace = trace;
    this.canFold = grouping === 'rank';
    this.isByTensor = isByTensor;
    this.unfolded = unfolded;  // by a group's key: whether the user has opened or folded it
    this.matches = null;
    this.has = row => row.counter ? !isByTensor :
      row.lanes.length > 0 && !(grouping === 'batches' && row.kind === 'tensor');
    this.keyOf = row => row[outer];
    const groups = new Map();
    for (const row of trace.rows) {
      if (!this.has(row)) continue;
      if (!groups.has(row[outer])) groups.set(row[outer], []);
      groups.get(row[outer]).push(row);
    }
    const place = row => row.counter ? FIRST_LANE_OF_THREADS : Number(row.tid ?? 0);
    const fileOf = key => isByTensor ? 0 : groups.get(key)[0].file;
    this.groups = [...groups.keys()].sort((a, b) => fileOf(a) - fileOf(b) || compareNames(a, b)).map(key => {
      const members = groups.get(key).sort(
        (a, b) => place(a) - place(b) || compareNames(a.pid, b.pid) || compareNames(a.name, b.name));
      return {key, members, head: isByTensor ? members[0].words || key : headOf(key, members), inner,
        summary: isByTensor ? undefined : trace.summaries.get(key)};
    });
  }

  /// Keeps the rows whose own name or group's name matches; null keeps all rows.
  filter(matches) {
    this.matches = matches;
    // A folded group would hide rows that match.
    for (const [key, isOpen] of this.unfolded) if (!isOpen) this.unfolded.delete(key);
  }

  /// Returns the members that match the filter; all members if the group's own name matches.
  membersOf(group) {
    const {matches} = this;
    if (!matches || matches(group.key) || matches(group.head)) return group.members;
    return group.members.filter(row => matches(row.name) || matches(row[group.inner]));
  }

  isOpen(group, members = this.membersOf(group)) {
    return this.unfolded.get(group.key) ??
      (!this.canFold || this.groups.length === 1 || members.length !== group.members.length);
  }

  isFoldable(group) { return group.members.length > 1; }

  open(key, isOpen) { this.unfolded.set(key, isOpen); }

  openAll(isOpen) {
    for (const group of this.groups) if (this.isFoldable(group)) this.open(group.key, isOpen);
  }

  /// Returns the row's group in this grouping, and whether the filter keeps the row.
  find(row) {
    const group = this.has(row) ? this.groups.find(each => each.key === this.keyOf(row)) : undefined;
    return {group, isShown: group !== undefined && this.membersOf(group).includes(row)};
  }

  /// Returns the rows of this grouping that the filter keeps, including those in folded groups.
  shown() { return new Set(this.groups.flatMap(group => this.membersOf(group))); }

  /// Returns the first event of the lane that lies in this range; -1 if there is none.
  eventIn({from, to}, begin, end) {
    const i = firstEndingAfter(this.trace.end, from, to, begin);
    return i < to && this.trace.begin[i] <= end ? i : -1;
  }

  isBusy({lanes, counter}, begin, end) {
    return counter ? countsIn(counter, begin, end) :
      lanes.some(lane => this.eventIn(lane, begin, end) >= 0);
  }

  /// Returns the first event of the range in the first row that has one; -1 if there is none. `key` is the
  /// group to search; null for all groups.
  firstIn(key, begin, end) {
    const groups = key === null ? this.groups : this.groups.filter(each => each.key === key);
    const lanes = groups.flatMap(group => this.membersOf(group)).flatMap(row => row.lanes);
    for (const lane of lanes) if (this.eventIn(lane, begin, end) >= 0) return this.eventIn(lane, begin, end);
    return -1;
  }

  /// Returns the rows from top to bottom, each {row, y, tall, head, label, group, ...}, and their total
  /// height. Rows without an event in this range are left out. A head without a row of its own has `isOpen`.
  arrange(begin, end) {
    const {trace} = this, isAll = begin <= trace.first && end >= trace.last, rows = [];
    let y = AXIS, quiet = 0;
    const add = (tall, place) => {
      rows.push({y, tall, row: null, head: '', label: '', lanes: place.row?.lanes ?? [], ...place});
      y += tall + GAP;
    };
    for (const group of this.groups) {
      const members = this.membersOf(group), {key} = group;
      if (!members.length) continue;
      const busy = isAll ? members : members.filter(row => this.isBusy(row, begin, end));
      if (!busy.length && !isRank(key) && this.groups.length > 1) {
        quiet++;
        continue;
      }
      if (!this.isFoldable(group)) {
        const [row] = members;
        add(Math.max(1, row.lanes.length) * LANE,
          {row, head: group.head, label: row[group.inner], group: key});
      } else {
        const isOpen = this.isOpen(group, members);
        add(group.summary ? FOLDED : LANE, {head: group.head, group: key, isOpen, summary: group.summary});
        if (isOpen) {
          for (const row of busy)
            add(Math.max(1, row.lanes.length) * LANE, {row, label: row[group.inner], group: key});
          if (busy.length < members.length)
            add(LANE, {label: quietWords(members.length - busy.length, 'row'), group: key, isQuiet: true});
        }
      }
      y += GAP;
    }
    if (quiet)
      add(LANE, {label: quietWords(quiet, this.isByTensor ? 'name' : 'row'), group: '', isQuiet: true});
    if (!rows.length) add(LANE, {label: 'no row has this name', group: '', isQuiet: true});
    return {rows, height: y};
  }
}

/// Returns the name of the process. In Horovod's timelines a process is a single row, and the kind of
/// the row precedes the name.
const headOf = (key, [{kind, tid}]) =>
  tid === undefined && kind !== 'counter' ? trackWords({name: key, kind}) : key;

const quietWords = (count, what) =>
  `+ ${count.toLocaleString('en')} ${what}${count === 1 ? '' : 's'} without events here`;
