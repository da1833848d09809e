// Shows two reports side by side: that of the shown trace, and that of a trace to compare it with.
import {time} from './format.js';

const finite = value => Number.isFinite(value) ? value : 0;
const median = values => values.length ? values.sort((a, b) => a - b)[Math.floor(values.length / 2)] : 0;
const records = value => Array.isArray(value) ? value.filter(each => each && typeof each === 'object') : [];

function figuresOf(report) {
  const steps = records(report.steps), phases = report.phases ?? {};
  const ofSteps = of => median(steps.map(of).filter(Number.isFinite));
  return [
    ['step (median)',
      steps.length ? ofSteps(step => step.end_us - step.start_us) : finite(report.duration_us)],
    ['communication', ofSteps(step => step.communication_us)],
    ['exposed', ofSteps(step => step.exposed_us)],
    ['waiting for late ranks', finite(report.late_us)],
    ['negotiation', finite(phases.negotiate_us)],
    ['queue', finite(phases.queue_us)],
    ['pack and unpack', finite(phases.pack_us) + finite(phases.unpack_us)],
    ['collective', finite(phases.collective_us)],
  ];
}

const allOf = tensor => ['negotiate_us', 'queue_us', 'pack_us', 'collective_us', 'unpack_us']
  .reduce((sum, name) => sum + finite(tensor[name]), 0);

function change(before, after) {
  if (!before) return after ? 'new' : '';
  const percent = 100 * (after - before) / before;
  return `${percent < 0 ? '−' : '+'}${Math.abs(percent).toFixed(1)} %`;
}

function cells(kind, texts) {
  const line = document.createElement('tr');
  line.append(...texts.map(
    text => Object.assign(document.createElement(kind), {textContent: text, title: text})));
  return line;
}

/// `name` is the name of the earlier trace, whose report is `before`. `now` is the name of the trace of
/// `after`; empty if it has none of its own.
export function showComparison(place, name, before, after, now = '') {
  const head = Object.assign(document.createElement('h2'),
    {textContent: now ? `${now} compared with ${name}` : `Compared with ${name}`});
  const table = document.createElement('table');
  table.append(cells('th', ['', 'before', 'now', 'change']));
  const was = new Map(figuresOf(before));
  const tensors = new Map(records(before.tensors).map(tensor => [String(tensor.name), allOf(tensor)]));
  const lines = figuresOf(after).map(([what, now]) => [what, was.get(what), now]);
  for (const tensor of records(after.tensors))
    if (tensors.has(String(tensor.name)))
      lines.push([String(tensor.name), tensors.get(String(tensor.name)), allOf(tensor)]);
  for (const [what, then, now] of lines) {
    const line = cells('td', [what, time(then), time(now), change(then, now)]);
    if (then && now > 1.05 * then) line.className = 'slower';
    table.append(line);
  }
  place.replaceChildren(head, table);
}
