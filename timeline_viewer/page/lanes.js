// The canvas of lanes. A lane is drawn in at most one rectangle a pixel column: what is narrower shares one.
import {colorOf, inkOn} from './colors.js';
import {time} from './format.js';

const LABELS = 168, AXIS = 24, LANE = 16, GAP = 6;

export class Lanes {
  /// `on`: select(event, -1 for none), measure({begin, end}), moved().
  constructor(canvas, on) {
    this.canvas = canvas;
    this.on = on;
    this.measured = null;
    this.trace = null;
    this.selected = -1;
    this.matched = null;
    this.drawMs = [];
    this.rectangles = 0;
    this.listen();
    new ResizeObserver(() => this.redraw()).observe(canvas);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.redraw());
  }

  show(trace, grouping) {
    this.trace = trace;
    this.colors = trace.names.map(colorOf);
    this.selected = -1;
    this.measured = null;
    this.matched = null;
    this.group(grouping);
    this.showAll();
  }

  /// By rank: each process with its rows. By tensor: each name of a row with that of every process.
  group(grouping) {
    const {rows} = this.trace;
    const [outer, inner] = grouping === 'tensor' ? ['name', 'process'] : ['process', 'name'];
    const groups = new Map();
    for (const row of rows) {
      if (!groups.has(row[outer])) groups.set(row[outer], []);
      groups.get(row[outer]).push(row);
    }
    const compare = new Intl.Collator('en', {numeric: true}).compare;
    this.rows = [];
    let y = AXIS;
    for (const key of [...groups.keys()].sort(compare)) {
      const members = groups.get(key).filter(row => row.lanes.length);
      members.sort((a, b) => (a.tid ?? 0) - (b.tid ?? 0) || compare(a.pid, b.pid));
      members.forEach((row, i) => {
        this.rows.push({row, y, head: i === 0 ? key : '', label: row[inner]});
        y += row.lanes.length * LANE + GAP;
      });
      y += GAP;
    }
    this.height = y;
    this.scroll = 0;
    this.redraw();
  }

  showAll() { this.look(this.trace.first, this.trace.last); }

  look(begin, end) {
    const middle = (begin + end) / 2, half = Math.max((end - begin) / 2, 0.05);
    this.begin = middle - half;
    this.end = middle + half;
    this.redraw();
  }

  select(event) {
    this.selected = event;
    const place = this.rows.find(each => this.trace.rows[this.trace.row[event]] === each.row);
    if (place) this.scroll = Math.max(0, Math.min(place.y - 80, this.height - this.canvas.clientHeight));
    this.redraw();
    this.on.select(event);
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
    this.scale = (width - LABELS) / (this.end - this.begin);
    for (const {row, y, head, label} of this.rows) {
      const top = y - this.scroll;
      if (top > height || top + row.lanes.length * LANE < AXIS) continue;
      if (head !== '') {
        context.fillStyle = look('--line');
        context.fillRect(0, top - GAP, width, 1);
      }
      context.fillStyle = look(head === '' ? '--faint' : '--ink');
      const text = head === '' ? label : `${head}${label && ` · ${label}`}`;
      context.fillText(this.fitted(text, LABELS - 24), 16, top + LANE / 2);
      row.lanes.forEach((lane, i) => this.drawLane(lane, top + i * LANE, width));
    }
    this.drawAxis(width, look('--ground'), look('--faint'), look('--line'));
    if (this.selected >= 0) this.drawSelection(look('--ink'), height);
    if (this.measured) this.drawMeasured(look('--accent'), look('--ground'), height);
  }

  fitted(text, width) {
    if (this.context.measureText(text).width <= width) return text;
    let keep = text.length;
    while (keep > 1 && this.context.measureText(`${text.slice(0, keep)}…`).width > width) keep = Math.floor(keep * 0.9);
    return `${text.slice(0, keep)}…`;
  }

  x(us) { return LABELS + (us - this.begin) * this.scale; }

  /// The first event of the lane that ends after this time.
  after(lane, us, from = lane.from) {
    const {end} = this.trace;
    let low = from, high = lane.to;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (end[middle] > us) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  drawLane(lane, y, width) {
    const {trace, context, colors, matched} = this;
    let i = this.after(lane, this.begin), free = LABELS;  // the first pixel column that no rectangle begins in or before
    while (i < lane.to) {
      const left = Math.max(free, Math.floor(this.x(trace.begin[i])));
      if (left >= width) break;
      const right = Math.min(width, this.x(trace.end[i]));
      const wide = Math.max(1, right - left);
      context.globalAlpha = matched && !matched[trace.name[i]] && !matched.rows[trace.row[i]] ? 0.15 : 1;
      context.fillStyle = colors[trace.name[i]];
      context.fillRect(left, y, wide > 2 ? wide - 0.5 : wide, LANE - 1);
      this.rectangles++;
      if (wide > 48) {
        context.fillStyle = inkOn(colors[trace.name[i]]);
        context.fillText(this.fitted(trace.names[trace.name[i]], wide - 8), left + 4, y + LANE / 2);
      }
      free = Math.max(left + 1, Math.floor(right));
      i = this.after(lane, this.begin + (free - LABELS) / this.scale, i + 1);  // what ends before has been drawn
    }
    context.globalAlpha = 1;
  }

  drawAxis(width, ground, faint, line) {
    const {context} = this;
    context.fillStyle = ground;
    context.fillRect(0, 0, width, AXIS - 4);
    const wanted = (this.end - this.begin) / 6, power = 10 ** Math.floor(Math.log10(wanted));
    const tick = power * ([2, 5, 10].find(each => each * power >= wanted) ?? 10);
    for (let us = Math.ceil(this.begin / tick) * tick; us < this.end; us += tick) {
      context.fillStyle = line;
      context.fillRect(this.x(us), 0, 1, AXIS - 4);
      context.fillStyle = faint;
      context.fillText(time(us - this.trace.first), this.x(us) + 4, 10);
    }
  }

  drawSelection(ink, height) {
    const {trace, context, selected} = this;
    const place = this.rows.find(each => each.row === trace.rows[trace.row[selected]]);
    const y = place.y - this.scroll + trace.depth[selected] * LANE;
    if (y < 0 || y > height) return;
    const left = Math.max(LABELS, this.x(trace.begin[selected]));
    const right = this.x(trace.end[selected]);
    if (right < LABELS) return;
    context.strokeStyle = ink;
    context.lineWidth = 2;
    context.strokeRect(left, y, Math.max(2, right - left), LANE - 1);
  }

  drawMeasured(accent, ground, height) {
    const {context} = this, {begin, end} = this.measured, left = Math.max(LABELS, this.x(begin)), right = this.x(end);
    if (right <= LABELS) return;
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
    const us = x => this.begin + (Math.max(LABELS, x) - LABELS) / this.scale;
    this.measured = {begin: us(Math.min(from, to)), end: us(Math.max(from, to))};
    this.redraw();
  }

  at(x, y) {
    const place = this.rows.findLast(each => each.y <= y + this.scroll);
    const lane = place?.row.lanes[Math.floor((y + this.scroll - place.y) / LANE)];
    if (!lane || x < LABELS) return -1;
    const i = this.after(lane, this.begin + (x - 2 - LABELS) / this.scale);
    return i < lane.to && this.x(this.trace.begin[i]) <= x + 2 ? i : -1;
  }

  zoom(factor, x = LABELS + (this.canvas.clientWidth - LABELS) / 2) {
    const fixed = this.begin + (x - LABELS) / this.scale;
    this.begin = fixed - (fixed - this.begin) * factor;
    this.end = fixed + (this.end - fixed) * factor;
    this.redraw();
  }

  pan(us) {
    this.begin += us;
    this.end += us;
    this.redraw();
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

  listen() {
    const {canvas} = this;
    canvas.addEventListener('wheel', event => {
      event.preventDefault();
      if (event.shiftKey) this.scrollBy(event.deltaY || event.deltaX);
      else this.zoom(1.002 ** event.deltaY, event.offsetX);
    }, {passive: false});
    let drag = null;
    canvas.addEventListener('pointerdown', event => {
      drag = {x: event.offsetX, y: event.offsetY, moved: 0, from: event.shiftKey ? event.offsetX : null};
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', event => {
      if (!drag) return;
      if (drag.from !== null) return this.measure(drag.from, event.offsetX);
      const dx = event.offsetX - drag.x, dy = event.offsetY - drag.y;
      this.pan(-dx / this.scale);
      this.scrollBy(-dy);
      drag = {x: event.offsetX, y: event.offsetY, moved: drag.moved + Math.abs(dx) + Math.abs(dy), from: null};
    });
    canvas.addEventListener('pointerup', event => {
      if (drag?.from != null && this.measured) {
        this.on.measure(this.measured);
      } else if (drag && drag.moved < 4) {
        this.selected = this.at(event.offsetX, event.offsetY);
        this.redraw();
        this.on.select(this.selected);
      }
      drag = null;
    });
    canvas.addEventListener('keydown', event => this.key(event));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const span = this.end - this.begin;
    const act = {
      w: () => this.zoom(0.8), s: () => this.zoom(1.25), a: () => this.pan(-span / 8), d: () => this.pan(span / 8),
      ArrowLeft: () => this.pan(-span / 8), ArrowRight: () => this.pan(span / 8),
      ArrowUp: () => this.scrollBy(-LANE * 2), ArrowDown: () => this.scrollBy(LANE * 2), 0: () => this.showAll(),
      m: () => this.measureSelected(),
      Escape: () => { this.selected = -1; this.measured = null; this.redraw(); this.on.select(-1); },
    }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }
}
