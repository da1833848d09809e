// The canvas of lanes. A lane is drawn in at most one rectangle a pixel column: what is narrower shares one.
import {colorOf, inkOn} from './colors.js';
import {changeAt, drawCounter} from './counters.js';
import {GUTTER, tickTime, time} from './format.js';
import {lastRankOf, rankOf, sameOnAllRanks} from './ranks.js';
import {steer} from './steer.js';

const AXIS = 24, LANE = 16, GAP = 6;
// Rows of a rank in a merged trace (docs/timeline.md): its lanes come before this one, its tensors from that one on.
const AFTER_LANE = 999.5, FIRST_TENSOR = 100_000;

/// What is to be filled, by colour: to change the colour takes longer than to fill a rectangle. Rectangles that touch are one.
class Rectangles {
  constructor() {
    this.plain = new Map();
    this.faint = new Map();
  }

  add(color, isFaint, left, top, width) {
    const colors = isFaint ? this.faint : this.plain;
    let places = colors.get(color);
    if (!places) colors.set(color, places = []);
    const last = places.length - 3;
    if (last >= 0 && width <= 1 && places[last + 1] === top && places[last] + places[last + 2] === left) places[last + 2] += width;
    else places.push(left, top, width);
  }

  draw(context) {
    for (const [colors, alpha] of [[this.plain, 1], [this.faint, 0.15]]) {
      context.globalAlpha = alpha;
      for (const [color, places] of colors) {
        context.fillStyle = color;
        for (let i = 0; i < places.length; i += 3) context.fillRect(places[i], places[i + 1], places[i + 2], LANE - 1);
      }
    }
    context.globalAlpha = 1;
  }
}

export class Lanes {
  /// `on`: select(event, -1 for none), measure({begin, end}), group(grouping), moved().
  constructor(canvas, on) {
    this.canvas = canvas;
    this.on = on;
    this.measured = null;
    this.trace = null;
    this.selected = -1;
    this.matched = null;
    this.arrows = [];  // pairs of events: the last rank's, and another's that waited for it
    this.widths = new Map();  // of whole texts, in pixels
    this.drawMs = [];
    this.rectangles = 0;
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
    this.group(grouping);
    this.showAll();
  }

  /// By rank: each process with its rows; "batches": without those of its tensors. By tensor: each name of a row with that of
  /// every process.
  group(grouping) {
    const {rows} = this.trace;
    const [outer, inner] = grouping === 'tensor' ? ['name', 'process'] : ['process', 'name'];
    const groups = new Map();
    for (const row of rows) {
      if (grouping === 'batches' && Number(row.tid) >= FIRST_TENSOR || grouping === 'tensor' && row.counter) continue;
      if (!groups.has(row[outer])) groups.set(row[outer], []);
      groups.get(row[outer]).push(row);
    }
    const compare = new Intl.Collator('en', {numeric: true}).compare;
    this.rows = [];
    let y = AXIS;
    for (const key of [...groups.keys()].sort(compare)) {
      const members = groups.get(key).filter(row => row.lanes.length || row.counter);
      const place = row => row.counter ? AFTER_LANE : Number(row.tid ?? 0);
      members.sort((a, b) => place(a) - place(b) || compare(a.pid, b.pid) || compare(a.name, b.name));
      members.forEach((row, i) => {
        this.rows.push({row, y, head: i === 0 ? key : '', label: row[inner], group: key});
        y += Math.max(1, row.lanes.length) * LANE + GAP;
      });
      y += GAP;
    }
    this.height = y;
    this.scroll = 0;
    this.redraw();
  }

  showAll() { this.look(this.trace.first, this.trace.last); }

  /// Never less than numbers of that size tell apart, never much more than the trace, and always some of it.
  look(begin, end) {
    const {first, last} = this.trace, most = Math.max(2 * (last - first), 1);
    const middle = Math.min(Math.max((begin + end) / 2, first), last);
    const half = Math.min(Math.max((end - begin) / 2, 0.05, Math.abs(middle) * 2 ** -50), Math.max(most, Math.abs(middle) * 2 ** -50));
    this.begin = middle - half;
    this.end = middle + half;
    this.redraw();
  }

  /// Where the grouping leaves the event's row out the lanes are grouped by rank.
  select(event) {
    this.choose(event);
    if (this.rows.every(each => this.trace.rows[this.trace.row[event]] !== each.row)) {
      this.group('rank');
      this.on.group('rank');
    }
    const place = this.rows.find(each => this.trace.rows[this.trace.row[event]] === each.row);
    if (place) this.scroll = Math.max(0, Math.min(place.y - 80, this.height - this.canvas.clientHeight));
    this.redraw();
    this.on.select(event);
  }

  /// What is drawn as selected, with arrows from the rank for which the others have waited.
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
    this.scale = (width - GUTTER) / (this.end - this.begin);
    const rectangles = new Rectangles();
    const texts = [];
    for (const {row, y, head, label} of this.rows) {
      const top = y - this.scroll;
      if (top > height || top + Math.max(1, row.lanes.length) * LANE < AXIS) continue;
      if (head !== '') {
        context.fillStyle = look('--line');
        context.fillRect(0, top - GAP, width, 1);
      }
      context.fillStyle = look(head === '' ? '--faint' : '--ink');
      context.font = `${head === '' ? '' : '600 '}12px ${style.fontFamily}`;
      const text = head === '' ? label : `${head}${label && ` · ${label}`}`;
      context.fillText(this.fitted(text, GUTTER - 24), 16, top + LANE / 2);
      if (row.counter) {
        context.fillStyle = look('--counter');
        this.rectangles += drawCounter(context, row.counter, {left: GUTTER, right: width, top, height: LANE, begin: this.begin, scale: this.scale});
      }
      row.lanes.forEach((lane, i) => this.drawLane(lane, top + i * LANE, width, rectangles, texts));
    }
    context.font = `12px ${style.fontFamily}`;
    rectangles.draw(context);
    for (const [text, color, wide, left, y] of texts) {
      context.fillStyle = inkOn(color);
      context.fillText(this.fitted(text, wide - 8), left + 4, y + LANE / 2);
    }
    for (const [from, to] of this.arrows) this.drawArrow(from, to, look('--ink'));
    this.drawAxis(width, look('--ground'), look('--faint'), look('--line'));
    this.drawGroup(look('--ink'), style.fontFamily);
    if (this.selected >= 0) this.drawSelection(look('--ink'), height);
    if (this.measured) this.drawMeasured(look('--accent'), look('--ground'), height);
  }

  fitted(text, width) {
    const key = this.context.font + text;
    let whole = this.widths.get(key);
    if (whole === undefined) this.widths.set(key, whole = this.context.measureText(text).width);
    if (whole <= width) return text;
    return `${text.slice(0, Math.max(1, Math.floor(text.length * width / whole) - 2))}…`;
  }

  x(us) { return GUTTER + (us - this.begin) * this.scale; }

  /// The first event of the lane, from this one on, that ends after this time. It is near, as a rule.
  after(lane, us, from = lane.from) {
    const {end} = this.trace;
    let low = from, high = lane.to;
    for (let stride = 1; from + stride < high; stride *= 2) {
      if (end[from + stride - 1] > us) {
        high = from + stride;
        break;
      }
      low = from + stride;
    }
    while (low < high) {
      const middle = (low + high) >> 1;
      if (end[middle] > us) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  drawLane(lane, y, width, rectangles, texts) {
    const {trace, colors, matched} = this;
    let i = this.after(lane, this.begin), free = GUTTER;  // the first pixel column that no rectangle begins in or before
    while (i < lane.to) {
      const left = Math.max(free, Math.floor(this.x(trace.begin[i])));
      if (left >= width) break;
      const right = Math.min(width, this.x(trace.end[i]));
      const wide = Math.max(1, right - left);
      const color = colors[trace.name[i]], isFaint = matched && !matched[trace.name[i]] && !matched.rows[trace.row[i]];
      this.rectangles++;
      rectangles.add(color, isFaint, left, y, wide > 2 ? wide - 0.5 : wide);
      if (wide > 48) texts.push([trace.names[trace.name[i]], color, wide, left, y]);
      free = Math.max(left + 1, Math.floor(right));
      i = this.after(lane, this.begin + (free - GUTTER) / this.scale, i + 1);  // what ends before has been drawn
    }
  }

  drawAxis(width, ground, faint, line) {
    const {context} = this;
    context.fillStyle = ground;
    context.fillRect(0, 0, width, AXIS - 4);
    const wanted = (this.end - this.begin) / 6, power = 10 ** Math.floor(Math.log10(wanted));
    const tick = power * ([2, 5, 10].find(each => each * power >= wanted) ?? 10);
    const {first} = this.trace, least = first + Math.ceil((this.begin - first) / tick) * tick;
    for (let i = 0, us = least; us < this.end; us = least + ++i * tick) {
      context.fillStyle = line;
      context.fillRect(this.x(us), 0, 1, AXIS - 4);
      context.fillStyle = faint;
      context.fillText(tickTime(us - this.trace.first, tick), this.x(us) + 4, 10);
    }
  }

  /// Whose rows these are, where that has been scrolled away.
  drawGroup(ink, family) {
    const first = this.rows.find(each => each.y - this.scroll + Math.max(1, each.row.lanes.length) * LANE > AXIS);
    if (!first || first.head !== '' && first.y - this.scroll >= AXIS - 8) return;
    this.context.fillStyle = ink;
    this.context.font = `600 12px ${family}`;
    this.context.fillText(this.fitted(first.group, GUTTER - 24), 16, 10);
    this.context.font = `12px ${family}`;
  }

  drawSelection(ink, height) {
    const {trace, context, selected} = this;
    const y = this.placeOf(selected)?.y;
    if (y === undefined || y < 0 || y > height) return;
    const left = Math.max(GUTTER, this.x(trace.begin[selected]));
    const right = this.x(trace.end[selected]);
    if (right < GUTTER) return;
    context.strokeStyle = ink;
    context.lineWidth = 2;
    context.strokeRect(left, y, Math.max(2, right - left), LANE - 1);
  }

  /// Where the event is drawn; nothing where its row is not shown.
  placeOf(event) {
    const {trace} = this, place = this.rows.find(each => each.row === trace.rows[trace.row[event]]);
    return place && {x: this.x(trace.begin[event]), y: place.y - this.scroll + trace.depth[event] * LANE};
  }

  drawArrow(from, to, ink) {
    const {context} = this, tail = this.placeOf(from), head = this.placeOf(to);
    if (!tail || !head || head.x < GUTTER || tail.x < GUTTER || Math.max(tail.y, head.y) < AXIS) return;
    const isDown = head.y > tail.y, y = isDown ? head.y : head.y + LANE - 1, away = isDown ? -1 : 1;
    context.strokeStyle = context.fillStyle = ink;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(tail.x, isDown ? tail.y + LANE - 1 : tail.y);
    context.bezierCurveTo(tail.x - 12, (tail.y + y) / 2, head.x - 12, (tail.y + y) / 2, head.x, y);
    context.stroke();
    context.beginPath();
    context.moveTo(head.x, y);
    context.lineTo(head.x - 4, y + away * 6);
    context.lineTo(head.x + 2, y + away * 6);
    context.fill();
  }

  drawMeasured(accent, ground, height) {
    const {context} = this, {begin, end} = this.measured, left = Math.max(GUTTER, this.x(begin)), right = this.x(end);
    if (right <= GUTTER) return;
    context.fillStyle = accent;
    context.globalAlpha = 0.15;
    context.fillRect(left, AXIS - 4, right - left, height);
    context.globalAlpha = 1;
    const words = time(end - begin), wide = context.measureText(words).width + 8;
    context.fillRect(left, 0, Math.max(wide, right - left), AXIS - 4);
    context.fillStyle = ground;
    context.fillText(words, left + 4, 10);
  }

  /// Between two places of the canvas.
  measure(from, to) {
    const us = x => this.begin + (Math.max(GUTTER, x) - GUTTER) / this.scale;
    this.measured = {begin: us(Math.min(from, to)), end: us(Math.max(from, to))};
    this.redraw();
  }

  at(x, y) {
    const place = this.rows.findLast(each => each.y <= y + this.scroll);
    const lane = place?.row.lanes[Math.floor((y + this.scroll - place.y) / LANE)];
    if (!lane || x < GUTTER) return -1;
    const i = this.after(lane, this.begin + (x - 2 - GUTTER) / this.scale);
    return i < lane.to && this.x(this.trace.begin[i]) <= x + 2 ? i : -1;
  }

  /// What lies below the pointer, in words: ''
  hint(x, y) {
    if (!this.trace || x < GUTTER || y < AXIS) return '';
    const event = this.at(x, y), {trace} = this;
    if (event >= 0) return `${trace.names[trace.name[event]]} · ${time(trace.end[event] - trace.begin[event])}`;
    const place = this.rows.findLast(each => each.y <= y + this.scroll), counter = place?.row.counter;
    if (!counter || y + this.scroll > place.y + LANE) return '';
    const i = changeAt(counter, this.begin + (x - GUTTER) / this.scale);
    return i < 0 ? '' : `${place.row.name}: ${counter.values[i].toLocaleString('en')}, at most ${counter.most.toLocaleString('en')}`;
  }

  zoom(factor, x = GUTTER + (this.canvas.clientWidth - GUTTER) / 2) {
    const fixed = this.begin + (x - GUTTER) / this.scale;
    this.look(fixed - (fixed - this.begin) * factor, fixed + (this.end - fixed) * factor);
  }

  pan(us) { this.look(this.begin + us, this.end + us); }

  /// What is selected, with as much again around it.
  fitSelected() {
    if (this.selected < 0) return;
    const begin = this.trace.begin[this.selected], end = this.trace.end[this.selected], margin = Math.max((end - begin) / 2, 0.5);
    this.look(begin - margin, end + margin);
  }

  /// Where `by` is 1 the first event that the search has found and that begins after the selected one, or, where none is selected,
  /// after what is shown has begun; by -1 the last one before. From the last it goes on with the first. Rows that are shown come before
  /// those that are not.
  next(by) {
    const {trace, matched} = this;
    if (!matched) return;
    const shown = new Set(this.rows.map(each => each.row));
    const from = this.selected >= 0 ? [trace.begin[this.selected], this.selected] : [this.begin, -1];
    const compare = (a, b) => by * (a[0] - b[0] || a[1] - b[1]);
    const isFound = i => matched[trace.name[i]] || matched.rows[trace.row[i]], isShown = i => shown.has(trace.rows[trace.row[i]]);
    let nearest = null, first = null, hasShown = false;
    for (let i = 0; i < trace.count && !hasShown; i++) hasShown = isFound(i) && isShown(i);
    for (let i = 0; i < trace.count; i++) {
      if (!isFound(i) || hasShown && !isShown(i)) continue;
      const here = [trace.begin[i], i];
      if (compare(here, from) > 0 && (!nearest || compare(here, nearest) < 0)) nearest = here;
      if (!first || compare(here, first) < 0) first = here;
    }
    const found = nearest ?? first;
    if (!found) return;
    const [at, event] = found;
    if (at < this.begin || at > this.end) this.pan(at - (this.begin + this.end) / 2);
    this.select(event);
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
