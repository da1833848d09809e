// The strip along the top: a bar for each step of the first rank that has some, as high as the step is long.
import {time} from './format.js';

export class Steps {
  constructor(canvas, onStep) {
    this.canvas = canvas;
    this.steps = [];
    canvas.onclick = event => {
      const step = this.steps[Math.floor(event.offsetX / canvas.clientWidth * this.steps.length)];
      if (step) onStep(step);
    };
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw());
  }

  show(trace) {
    const lane = trace.rows.find(row => row.name === 'steps')?.lanes[0];
    this.steps = [];
    for (let i = lane?.from; i < lane?.to; i++)
      if (trace.end[i] > trace.begin[i]) this.steps.push({begin: trace.begin[i], end: trace.end[i]});
    this.draw();
  }

  draw() {
    const {canvas, steps} = this, ratio = devicePixelRatio, width = canvas.clientWidth, height = canvas.clientHeight;
    [canvas.width, canvas.height] = [width * ratio, height * ratio];
    const context = canvas.getContext('2d'), style = getComputedStyle(canvas);
    context.scale(ratio, ratio);
    context.font = `12px ${style.fontFamily}`;
    context.fillStyle = style.getPropertyValue('--faint');
    if (!steps.length) return context.fillText('No step is marked: call dabke_mark_step at the end of each', 16, 24);
    const columns = Math.min(steps.length, width), longest = steps.reduce((most, {begin, end}) => Math.max(most, end - begin), 0);
    for (let column = 0; column < columns; column++) {
      let most = 0;
      const to = (column + 1) * steps.length / columns;
      for (let i = Math.floor(column * steps.length / columns); i < to; i++) most = Math.max(most, steps[i].end - steps[i].begin);
      const tall = Math.max(1, (height - 8) * most / longest);
      context.fillRect(column * width / columns, height - tall, Math.max(1, width / columns - 1), tall);
    }
    canvas.title = `${steps.length} steps; the longest takes ${time(longest)}`;
  }
}
