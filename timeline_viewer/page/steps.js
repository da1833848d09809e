// The strip along the top, on the time axis of the lanes. It has a bar for each step of the first rank that
// has any, as high as the step is long. The step that was chosen last has the accent colour.
import {gutterOf, time} from './format.js';
import {firstEndingAfter} from './spans.js';

export class Steps {
  constructor(canvas, onStep) {
    this.canvas = canvas;
    this.onStep = onStep;
    this.steps = [];
    this.seen = {begin: 0, end: 1};
    this.current = -1;  // the step that was chosen last
    canvas.onclick = event => this.go(this.at(event.offsetX));
    canvas.onpointermove = event => {
      const i = this.at(event.offsetX);
      canvas.title = this.steps[i] ? this.words(i) : '';
    };
    canvas.onkeydown = event => this.key(event);
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw());
  }

  /// Shows the marked steps; without marks, the steps of the report, with times shifted by `shift`.
  show(trace, report, shift = 0) {
    const lane = trace.rows.find(row => row.name === 'steps')?.lanes[0];
    this.steps = [];
    this.current = -1;
    for (let i = lane?.from; i < lane?.to; i++)
      if (trace.end[i] > trace.begin[i])
        this.steps.push({begin: trace.begin[i], end: trace.end[i], name: trace.names[trace.name[i]]});
    if (!this.steps.length && Array.isArray(report?.steps))
      for (const step of report.steps)
        if (step?.end_us > step?.start_us)
          this.steps.push({begin: Number(step.start_us) + shift, end: Number(step.end_us) + shift,
            name: `step ${step.step}`});
    this.steps.sort((a, b) => a.begin - b.begin);
    this.ends = Float64Array.from(this.steps, step => step.end);
    this.longest = this.steps.reduce((most, {begin, end}) => Math.max(most, end - begin), 0);
    const {canvas, steps} = this;
    canvas.setAttribute('aria-valuemax', steps.length);
    canvas.setAttribute('aria-valuenow', 0);
    canvas.setAttribute('aria-valuetext', steps.length ?
      `${steps.length} steps; the longest takes ${time(this.longest)}` : 'no step is marked');
    this.draw();
  }

  /// Sets the range that the lanes show.
  see(begin, end) {
    this.seen = {begin, end};
    this.draw();
  }

  words(i) { return `${this.steps[i].name}: ${time(this.steps[i].end - this.steps[i].begin)}`; }

  get gutter() { return gutterOf(this.canvas.clientWidth); }

  get scale() { return (this.canvas.clientWidth - this.gutter) / (this.seen.end - this.seen.begin); }

  /// Returns the step at this position of the canvas; -1 if there is none.
  at(x) {
    if (!this.steps.length || x < this.gutter) return -1;
    const us = this.seen.begin + (x - this.gutter) / this.scale,
      i = firstEndingAfter(this.ends, 0, this.steps.length, us);
    return this.steps[i]?.begin <= us ? i : -1;
  }

  go(i) {
    if (!this.steps[i]) return;
    this.current = i;
    this.draw();
    this.canvas.setAttribute('aria-valuenow', i + 1);
    this.canvas.setAttribute('aria-valuetext', this.words(i));
    this.onStep(this.steps[i]);
  }

  key({key}) {
    const last = this.steps.length - 1;
    const to = {ArrowRight: Math.min(this.current + 1, last), ArrowLeft: Math.max(this.current - 1, 0),
      Home: 0, End: last}[key];
    if (to !== undefined) this.go(to);
  }

  draw() {
    const {canvas, steps, seen} = this, ratio = devicePixelRatio,
      width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== width * ratio || canvas.height !== height * ratio)
      [canvas.width, canvas.height] = [width * ratio, height * ratio];
    const context = canvas.getContext('2d'), style = getComputedStyle(canvas),
      look = name => style.getPropertyValue(name);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = `12px ${style.fontFamily}`;
    context.fillStyle = look('--faint');
    const {gutter, scale} = this, inset = gutter < 160 ? 8 : 16;
    if (!steps.length)
      return context.fillText(width < 560 ? 'No step is marked' :
        'No step is marked: call dabke_mark_step at the end of each', inset, 24);
    context.fillText(`${steps.length.toLocaleString('en')} steps`, inset, 17);
    context.fillText(`longest ${time(this.longest)}`, inset, 33);
    const x = us => gutter + (us - seen.begin) * scale, colors = [look('--bar'), look('--accent')],
      ink = look('--ink');
    this.bars = 0;
    for (let i = firstEndingAfter(this.ends, 0, steps.length, seen.begin), next;
      i < steps.length && steps[i].begin < seen.end; i = next) {
      const left = Math.max(gutter, Math.floor(x(steps[i].begin))),
        right = Math.min(width, Math.max(left + 1, x(steps[i].end)));
      let most = 0, isCurrent = 0;
      // The steps from `i` to `next` share a pixel column.
      for (next = i; next < steps.length && (next === i || x(steps[next].end) <= left + 1); next++) {
        most = Math.max(most, steps[next].end - steps[next].begin);
        if (next === this.current) isCurrent = 1;
      }
      const wide = right - left, tall = Math.max(1, (height - 8) * most / this.longest);
      context.fillStyle = colors[isCurrent];
      context.fillRect(left, height - tall, wide > 2 ? wide - 1 : wide, tall);
      this.bars++;
      const {name} = steps[i];
      if (wide < 48 || context.measureText(name).width > wide - 8) continue;
      context.fillStyle = ink;
      context.fillText(name, left + 4, height - 6);
    }
  }
}
