// The strip along the top: a bar for each step of the first rank that has some, as high as the step is long. It begins where the
// lanes do; the steps that the lanes show are in the page's accent.
import {GUTTER, time} from './format.js';

export class Steps {
  constructor(canvas, onStep) {
    this.canvas = canvas;
    this.onStep = onStep;
    this.steps = [];
    this.seen = {begin: 0, end: 0};
    this.current = -1;  // of the keyboard
    canvas.onclick = event => this.go(this.at(event.offsetX));
    canvas.onpointermove = event => {
      const i = this.at(event.offsetX);
      canvas.title = this.steps[i] ? this.words(i) : '';
    };
    canvas.onkeydown = event => this.key(event);
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw());
  }

  /// Those that are marked; else what the report takes for steps.
  show(trace, report) {
    const lane = trace.rows.find(row => row.name === 'steps')?.lanes[0];
    this.steps = [];
    this.current = -1;
    for (let i = lane?.from; i < lane?.to; i++)
      if (trace.end[i] > trace.begin[i]) this.steps.push({begin: trace.begin[i], end: trace.end[i], name: trace.names[trace.name[i]]});
    if (!this.steps.length && Array.isArray(report?.steps))
      for (const step of report.steps)
        if (step?.end_us > step?.start_us) this.steps.push({begin: Number(step.start_us), end: Number(step.end_us), name: `step ${step.step}`});
    this.longest = this.steps.reduce((most, {begin, end}) => Math.max(most, end - begin), 0);
    const {canvas, steps} = this;
    canvas.setAttribute('aria-valuemax', steps.length);
    canvas.setAttribute('aria-valuenow', 0);
    canvas.setAttribute('aria-valuetext', steps.length ? `${steps.length} steps; the longest takes ${time(this.longest)}` : 'no step is marked');
    this.draw();
  }

  /// What the lanes show.
  see(begin, end) {
    this.seen = {begin, end};
    this.draw();
  }

  words(i) { return `${this.steps[i].name}: ${time(this.steps[i].end - this.steps[i].begin)}`; }

  at(x) { return Math.floor((x - GUTTER) / (this.canvas.clientWidth - GUTTER) * this.steps.length); }

  go(i) {
    if (!this.steps[i]) return;
    this.current = i;
    this.canvas.setAttribute('aria-valuenow', i + 1);
    this.canvas.setAttribute('aria-valuetext', this.words(i));
    this.onStep(this.steps[i]);
  }

  key({key}) {
    const last = this.steps.length - 1;
    const to = {ArrowRight: Math.min(this.current + 1, last), ArrowLeft: Math.max(this.current - 1, 0), Home: 0, End: last}[key];
    if (to !== undefined) this.go(to);
  }

  draw() {
    const {canvas, steps, seen} = this, ratio = devicePixelRatio, width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== width * ratio || canvas.height !== height * ratio) [canvas.width, canvas.height] = [width * ratio, height * ratio];
    const context = canvas.getContext('2d'), style = getComputedStyle(canvas), look = name => style.getPropertyValue(name);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = `12px ${style.fontFamily}`;
    context.fillStyle = look('--faint');
    if (!steps.length) return context.fillText('No step is marked: call dabke_mark_step at the end of each', 16, 24);
    context.fillText(`${steps.length.toLocaleString('en')} steps`, 16, 17);
    context.fillText(`longest ${time(this.longest)}`, 16, 33);
    const room = width - GUTTER, columns = Math.min(steps.length, room), colors = [look('--line-strong'), look('--accent')];
    for (let column = 0; column < columns; column++) {
      let most = 0, isSeen = 0;
      const to = (column + 1) * steps.length / columns;
      for (let i = Math.floor(column * steps.length / columns); i < to; i++) {
        most = Math.max(most, steps[i].end - steps[i].begin);
        if (steps[i].begin < seen.end && steps[i].end > seen.begin) isSeen = 1;
      }
      const tall = Math.max(1, (height - 8) * most / this.longest);
      context.fillStyle = colors[isSeen];
      context.fillRect(GUTTER + column * room / columns, height - tall, Math.max(1, room / columns - 1), tall);
    }
  }
}
