// The canvas of lanes. A lane has at most one rectangle a pixel column: narrower events share one.
import {colorOf, inkOn} from './colors.js';
import {changeAt, drawCounter} from './counters.js';
import {drawFolded, foldedWords} from './folded.js';
import {toggle} from './folding.js';
import {gutterOf, time} from './format.js';
import {Heads} from './heads.js';
import {drawArrow, drawAxis, drawMeasured, drawSelection} from './marks.js';
import {lastRankOf, rankOf, sameOnAllRanks} from './ranks.js';
import {Rectangles} from './rectangles.js';
import {AXIS, LANE, Rows} from './rows.js';
import {firstEndingAfter} from './spans.js';
import {steer} from './steer.js';

export class Lanes {
  /// `on` has: select(event, -1 for none), measure({begin, end}), reveal({grouping,
  /// isFiltered}), fold(words), moved().
  constructor(canvas, on) {
    this.canvas = canvas;
    this.on = on;
    this.measured = null;
    this.trace = null;
    this.selected = -1;
    this.matched = null;
    this.filter = null;  // tests the names of rows; null shows all rows
    // From the process that holds up the others of its job, to the words about it.
    this.late = new Map();
    this.cursor = null;  // the group at the keyboard's cursor
    this.arrows = [];  // pairs of events: the last rank's, and another rank's that waited for it
    this.widths = new Map();  // widths of whole texts, in pixels
    this.drawMs = [];
    this.rectangles = 0;
    this.gutter = gutterOf(canvas.clientWidth);
    steer(this);
    new ResizeObserver(() => this.redraw()).observe(canvas);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.redraw());
  }

  show(trace, grouping) {
    this.trace = trace;
    this.colors = trace.names.map(colorOf);
    this.choose(-1);
    this.measured = null;
    this.matched = null;
    this.late = new Map();
    this.unfolded = new Map();
    this.showAll();
    this.group(grouping);
  }

  /// `grouping` is one of those of Rows: "rank", "batches" or "tensor".
  group(grouping) {
    this.grouping = grouping;
    this.layout = new Rows(this.trace, grouping, this.unfolded);
    this.layout.filter(this.filter);
    this.rows = [];
    this.scroll = 0;
    this.cursor = null;
    this.arrange();
  }

  /// `matches` tests a name; null shows all rows.
  filterBy(matches) {
    this.filter = matches;
    this.layout.filter(matches);
    this.arrange();
  }

  /// Arranges the rows again. The row at the top of the canvas, or the next that still
  /// exists, keeps its position.
  arrange() {
    const keyOf = ({row, group}) => row ?? group, old = this.rows,
      {rows, height} = this.layout.arrange(this.begin, this.end);
    this.rows = rows;
    this.height = height;
    // Rows, and heads by their group.
    this.places = new Map(rows.filter(each => !each.isQuiet).map(each => [keyOf(each), each]));
    this.arranged = {begin: this.begin, end: this.end};
    if (this.scroll > 0) {
      const kept = old.find(each => each.y + each.tall > this.scroll + AXIS && !each.isQuiet &&
        this.places.has(keyOf(each)));
      if (kept) this.scroll += this.places.get(keyOf(kept)).y - kept.y;
    }
    this.scrollBy(0);
  }

  showAll() { this.look(this.trace.first, this.trace.last); }

  /// The range is never smaller than numbers of that size can distinguish, and never much larger than the
  /// trace. It always contains a part of the trace.
  look(begin, end) {
    const {first, last} = this.trace, most = Math.max(2 * (last - first), 1);
    const middle = Math.min(Math.max((begin + end) / 2, first), last);
    const half = Math.min(Math.max((end - begin) / 2, 0.05, Math.abs(middle) * 2 ** -50),
      Math.max(most, Math.abs(middle) * 2 ** -50));
    this.begin = middle - half;
    this.end = middle + half;
    this.redraw();
  }

  /// Selects the event and opens its group. If the filter leaves out its row, the filter is removed. If the
  /// grouping leaves it out, the lanes are grouped by rank.
  select(event) {
    const row = this.trace.rows[this.trace.row[event]];
    this.choose(event);
    if (!this.layout.find(row).group) this.group('rank');
    if (!this.layout.find(row).isShown) this.filterBy(null);
    const {group} = this.layout.find(row);
    if (!this.layout.isOpen(group)) this.layout.open(group.key, true);
    this.on.reveal({grouping: this.grouping, isFiltered: this.filter !== null});
    this.arrange();
    const place = this.places.get(row);
    if (place.y - this.scroll < AXIS || place.y + place.tall - this.scroll > this.canvas.clientHeight)
      this.scroll = place.y - 80;
    this.scrollBy(0);
    this.on.select(event);
  }

  /// Selects the event and moves to its time.
  goTo(event) {
    const begin = this.trace.begin[event];
    if (begin < this.begin || begin > this.end) this.pan(begin - (this.begin + this.end) / 2);
    this.select(event);
  }

  /// Sets the event that is drawn as selected, with arrows from the rank that the others waited for.
  choose(event) {
    this.selected = event;
    this.arrows = [];
    if (event < 0) return;
    const same = sameOnAllRanks(this.trace, event), last = lastRankOf(this.trace, event);
    const from = same.find(each => rankOf(this.trace, each) === last?.rank);
    if (from !== undefined) this.arrows = same.filter(each => each !== from).map(to => [from, to]);
  }

  redraw() {
    if (!this.trace || this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      const start = performance.now();
      this.draw();
      this.drawMs.push(performance.now() - start);
      this.on.moved();
    });
  }

  draw() {
    const {canvas} = this, ratio = devicePixelRatio, width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== width * ratio || canvas.height !== height * ratio) {
      canvas.width = width * ratio;
      canvas.height = height * ratio;
    }
    const style = getComputedStyle(canvas), look = name => style.getPropertyValue(name);
    const context = this.context = canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = `12px ${style.fontFamily}`;
    context.textBaseline = 'middle';
    this.rectangles = 0;
    this.gutter = gutterOf(width);
    this.scale = (width - this.gutter) / (this.end - this.begin);
    if (this.arranged.begin !== this.begin || this.arranged.end !== this.end) this.arrange();
    const rectangles = new Rectangles(), texts = [],
      heads = new Heads(this, context, look, style.fontFamily, width), {begin, scale} = this;
    for (const place of this.rows) {
      const {row, y, tall, lanes, summary} = place, top = y - this.scroll;
      if (top > height || top + tall < AXIS) continue;
      heads.draw(place, top);
      const where = {left: this.gutter, right: width, top, begin, scale};
      if (row?.counter) {
        context.fillStyle = look('--counter');
        this.rectangles += drawCounter(context, row.counter, {...where, height: LANE});
      }
      if (summary)
        this.rectangles += drawFolded(summary, {...where, tall},
          {trace: this.trace, colors: this.colors, rectangles, texts});
      lanes.forEach((lane, i) => this.drawLane(lane, top + i * LANE, width, rectangles, texts));
    }
    context.font = heads.fonts.plain;
    rectangles.draw(context);
    for (const [text, color, wide, left, y] of texts) {
      context.fillStyle = inkOn(color);
      context.fillText(this.fitted(text, wide - 8), left + 4, y);
    }
    for (const [from, to] of this.arrows) drawArrow(this, from, to, look('--ink'));
    drawAxis(this, width, look('--ground'), look('--faint'), look('--line'));
    heads.drawGroup();
    if (this.selected >= 0) drawSelection(this, look('--ink'), height);
    if (this.measured) drawMeasured(this, look('--accent'), look('--ground'), height);
  }

  /// Returns the text, shortened to `width`. `keepsEnd` is for names that differ in their ends.
  fitted(text, width, keepsEnd) {
    const key = this.context.font + text;
    let whole = this.widths.get(key);
    if (whole === undefined) this.widths.set(key, whole = this.context.measureText(text).width);
    if (whole <= width) return text;
    const most = Math.max(1, Math.floor(text.length * width / whole) - 2),
      tail = keepsEnd ? Math.floor(most * 0.6) : 0;
    return `${text.slice(0, most - tail)}…${tail ? text.slice(-tail) : ''}`;
  }

  x(us) { return this.gutter + (us - this.begin) * this.scale; }

  timeAt(x) { return this.begin + (x - this.gutter) / this.scale; }

  /// Returns the first event of the lane, from this one on, that ends after this time.
  after(lane, us, from = lane.from) { return firstEndingAfter(this.trace.end, from, lane.to, us); }

  drawLane(lane, y, width, rectangles, texts) {
    const {trace, colors, matched} = this;
    // `free` is the first pixel column after the last rectangle.
    let i = this.after(lane, this.begin), free = this.gutter;
    while (i < lane.to) {
      const left = Math.max(free, Math.floor(this.x(trace.begin[i])));
      if (left >= width) break;
      const right = Math.min(width, this.x(trace.end[i]));
      const wide = Math.max(1, right - left);
      const color = colors[trace.name[i]],
        isFaint = matched && !matched[trace.name[i]] && !matched.rows[trace.row[i]];
      this.rectangles++;
      rectangles.add(color, isFaint, left, y, wide > 2 ? wide - 0.5 : wide, LANE - 1);
      if (wide > 48) texts.push([trace.names[trace.name[i]], color, wide, left, y + LANE / 2]);
      free = Math.max(left + 1, Math.floor(right));
      i = this.after(lane, this.timeAt(free), i + 1);  // events that end before are drawn
    }
  }

  /// Returns where the event is drawn: in its own row or its folded group; undefined if in neither.
  placeOf(event) {
    const {trace} = this, row = trace.rows[trace.row[event]], x = this.x(trace.begin[event]),
      place = this.places.get(row);
    if (place) return {x, y: place.y - this.scroll + trace.depth[event] * LANE};
    const folded = this.layout.has(row) ? this.places.get(this.layout.keyOf(row)) : undefined;
    return folded?.isOpen === false ? {x, y: folded.y - this.scroll + (folded.tall - LANE) / 2} : undefined;
  }

  /// Measures between two positions of the canvas.
  measure(from, to) {
    const us = x => this.timeAt(Math.max(this.gutter, x));
    this.measured = {begin: us(Math.min(from, to)), end: us(Math.max(from, to))};
    this.redraw();
  }

  /// Returns the row at this height of the canvas.
  rowAt(y) {
    const place = this.rows.findLast(each => each.y <= y + this.scroll);
    return place && y >= AXIS - 4 && y + this.scroll < place.y + place.tall ? place : undefined;
  }

  rowHeight({summary}) { return summary ? Infinity : LANE; }

  at(x, y) {
    const place = this.rowAt(y), lane = place?.lanes[Math.floor((y + this.scroll - place.y) / LANE)];
    if (!lane || x < this.gutter) return -1;
    const i = this.after(lane, this.timeAt(x - 2));
    return i < lane.to && this.x(this.trace.begin[i]) <= x + 2 ? i : -1;
  }

  clear() {
    this.choose(-1);
    this.measured = null;
    this.redraw();
    this.on.select(-1);
  }

  /// A click on a head opens or folds its group. Elsewhere it selects the event, or none.
  click(x, y) {
    const place = this.rowAt(y);
    if (place?.isOpen !== undefined) return toggle(this, place.group);
    this.choose(this.at(x, y));
    this.redraw();
    this.on.select(this.selected);
  }

  /// Returns words for what is below the pointer; '' if there is nothing.
  hint(x, y) {
    const place = this.trace && this.rowAt(y);
    if (!place || y < AXIS) return '';
    const {trace} = this, event = this.at(x, y), counter = place.row?.counter;
    if (x < this.gutter)
      return place.isQuiet ? '' :
        [...new Set([place.group, place.head, place.label])].filter(Boolean).join(' · ');
    if (event >= 0)
      return `${trace.names[trace.name[event]]} · ${time(trace.end[event] - trace.begin[event])}`;
    if (place.summary) return foldedWords(place.summary, trace, this.timeAt(x), this.timeAt(x + 1));
    const i = counter ? changeAt(counter, this.timeAt(x)) : -1;
    return i < 0 ? '' : `${place.row.name}: ${counter.values[i].toLocaleString('en')}, at most ${
      counter.most.toLocaleString('en')}`;
  }

  zoom(factor, x = (this.canvas.clientWidth + this.gutter) / 2) {
    const fixed = this.timeAt(x);
    this.look(fixed - (fixed - this.begin) * factor, fixed + (this.end - fixed) * factor);
  }

  pan(us) { this.look(this.begin + us, this.end + us); }

  /// Shows the selected event, with half its length on each side.
  fitSelected() {
    if (this.selected < 0) return;
    const begin = this.trace.begin[this.selected], end = this.trace.end[this.selected],
      margin = Math.max((end - begin) / 2, 0.5);
    this.look(begin - margin, end + margin);
  }

  measureSelected() {
    if (this.selected < 0) return;
    this.measured = {begin: this.trace.begin[this.selected], end: this.trace.end[this.selected]};
    this.redraw();
    this.on.measure(this.measured);
  }

  scrollBy(pixels) {
    this.scroll = Math.max(0, Math.min(this.scroll + pixels, this.height - this.canvas.clientHeight));
    this.redraw();
  }
}
