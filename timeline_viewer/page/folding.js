// Opens and folds groups of rows, and moves between them by keys.
import {AXIS} from './rows.js';

export function toggle(lanes, key) {
  const group = lanes.layout.groups.find(each => each.key === key);
  if (!group || !lanes.layout.isFoldable(group)) return;
  const isOpen = !lanes.layout.isOpen(group);
  lanes.layout.open(key, isOpen);
  lanes.arrange();
  lanes.on.fold(`${group.head} is ${
    isOpen ? `open: ${lanes.layout.membersOf(group).length} rows` : 'folded'}`);
}

/// Opens all groups, or folds all if one is open.
export function toggleAll(lanes) {
  const isOpen = !lanes.rows.some(each => each.isOpen);
  lanes.layout.openAll(isOpen);
  lanes.arrange();
  lanes.on.fold(isOpen ? 'all are open' : 'all are folded');
}

/// Moves the cursor to the next head, or to the previous one if `by` is -1.
export function moveCursor(lanes, by) {
  const heads = lanes.rows.filter(each => each.isOpen !== undefined),
    from = heads.findIndex(each => each.group === lanes.cursor);
  const place = heads[from < 0 ? 0 : Math.max(0, Math.min(from + by, heads.length - 1))];
  if (!place) return;
  lanes.cursor = place.group;
  const {clientHeight} = lanes.canvas;
  if (place.y - lanes.scroll < AXIS) lanes.scroll = place.y - AXIS;
  if (place.y + place.tall > lanes.scroll + clientHeight) lanes.scroll = place.y + place.tall - clientHeight;
  lanes.scrollBy(0);
  lanes.on.fold(`${place.head}${lanes.late.has(place.group) ? `, ${lanes.late.get(place.group)}` : ''}, ${
    place.isOpen ? 'open' : 'folded'}`);
}

/// Selects the next event of the selected event's lane, or the previous one if `by` is -1. Without a
/// selection, it selects the first visible event of the rank at the cursor, or of the first row.
export function selectBeside(lanes, by) {
  const {trace, selected} = lanes;
  if (selected < 0) {
    const first = lanes.layout.firstIn(lanes.cursor, lanes.begin, lanes.end);
    if (first >= 0) lanes.goTo(first);
    return;
  }
  const {from, to} = trace.rows[trace.row[selected]].lanes.find(
    lane => lane.from <= selected && selected < lane.to);
  if (selected + by >= from && selected + by < to) lanes.goTo(selected + by);
}
