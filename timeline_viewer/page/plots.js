// Pictures of a report's figures. The report is not trusted: values that are not numbers are left out, and
// names are only used as text.
import {size, time} from './format.js';

const WIDTH = 288, HEIGHT = 96, ROW = 12, MOST_COLUMNS = 144, MOST_ROWS = 32;
const ORANGE = '#d55e00', SKY = '#56b4e9';
const SVG = 'http://www.w3.org/2000/svg';

const number = value => Number.isFinite(value) ? value : 0;
const list = value => Array.isArray(value) ? value.filter(each => each && typeof each === 'object') : [];

function shape(kind, attributes, hint) {
  const made = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (hint) made.append(Object.assign(document.createElementNS(SVG, 'title'), {textContent: hint}));
  return made;
}

function text(x, y, content, anchor = 'start') {
  const made = shape('text', {x, y, 'text-anchor': anchor});
  made.textContent = content;
  return made;
}

function figure(title, says, height, shapes) {
  const picture = shape('svg',
    {viewBox: `0 0 ${WIDTH} ${height}`, role: 'img', 'aria-label': `${title}: ${says}`});
  picture.append(...shapes);
  const made = document.createElement('figure'), caption = document.createElement('figcaption'),
    words = document.createElement('p');
  caption.textContent = title;
  words.textContent = says;
  made.append(caption, picture, words);
  return made;
}

/// Returns [from, to) for each column. Neighbours may share a column.
function columnsOf(count) {
  const columns = Math.min(count, MOST_COLUMNS);
  return Array.from({length: columns}, (_, i) =>
    [Math.floor(i * count / columns), Math.max(Math.floor((i + 1) * count / columns), 1)]);
}

const largest = values => values.reduce((most, value) => Math.max(most, number(value)), 0);

function clickable(made, steps, [from], goTo) {
  const step = steps[from];
  made.classList.add('step');
  made.onclick = () => goTo(number(step.start_us), number(step.end_us));
  return made;
}

function exposed(steps, goTo) {
  if (!steps.some(step => Number.isFinite(step.exposed_us))) return null;
  const most = largest(steps.map(step => number(step.exposed_us) + number(step.overlapped_us))) || 1,
    columns = columnsOf(steps.length);
  const wide = WIDTH / columns.length;
  const bars = columns.flatMap((column, i) => {
    const part = name => largest(steps.slice(...column).map(step => step[name])) / most * HEIGHT;
    const waits = part('exposed_us'), hidden = Math.min(part('overlapped_us'), HEIGHT - waits);
    const hint = `step ${steps[column[0]].step}: exposed ${
      time(number(steps[column[0]].exposed_us))}, hidden ${time(number(steps[column[0]].overlapped_us))}`;
    const bar = (y, height, fill) => clickable(
      shape('rect', {x: i * wide, y, width: Math.max(wide - 0.5, 0.5), height, fill}, hint),
      steps, column, goTo);
    return [bar(HEIGHT - waits, waits, ORANGE), bar(HEIGHT - waits - hidden, hidden, SKY)];
  });
  return figure('Communication of each step',
    `Orange: exposed, the application waits. Blue: hidden behind computation. At most ${time(most)}.`,
    HEIGHT, bars);
}

function lateness(report, steps, goTo) {
  const of = report.lateness ?? {}, rows = (Array.isArray(of.caused_us) ? of.caused_us : [])
    .filter(Array.isArray).slice(0, MOST_ROWS);
  const most = largest(rows.map(row => largest(row)));
  if (!most || !steps.length) return null;
  const columns = columnsOf(steps.length), left = 28, wide = (WIDTH - left) / columns.length;
  const shapes = rows.flatMap((row, y) => [
    text(left - 4, y * ROW + 10, String(number(of.ranks?.[y])), 'end'), ...columns.map((column, i) => {
      const caused = largest(row.slice(...column));
      const hint = `rank ${number(of.ranks?.[y])}, step ${steps[column[0]].step}: costs the others ${
        time(caused)}`;
      return clickable(
        shape('rect', {x: left + i * wide, y: y * ROW, width: wide + 0.1, height: ROW - 1, fill: ORANGE,
          'fill-opacity': (0.06 + 0.94 * Math.sqrt(caused / most)).toFixed(2)}, hint),
        steps, column, goTo);
    })]);
  return figure('Late ranks, by step',
    `The stronger the colour, the more a rank cost the others in a step; at most ${time(most)}.`,
    rows.length * ROW, shapes);
}

function bandwidth(sizes) {
  const points = sizes.filter(each => number(each.bytes_to) > 1 && number(each.bus_bandwidth_mb_s) > 0);
  if (!points.length) return null;
  const peak = largest(points.map(each => each.bus_bandwidth_mb_s)), inset = 6;
  const logs = points.map(each => Math.log2(each.bytes_to)), least = Math.min(...logs),
    span = Math.max(Math.max(...logs) - least, 1);
  const y = value => HEIGHT - inset - (HEIGHT - 2 * inset - 12) * value / peak;
  const dots = points.map((each, i) => shape('circle',
    {cx: inset + (WIDTH - 2 * inset) * (logs[i] - least) / span, cy: y(each.bus_bandwidth_mb_s), r: 4,
      class: 'data'},
    `up to ${size(each.bytes_to)}: ${
      each.bus_bandwidth_mb_s.toFixed(each.bus_bandwidth_mb_s < 10 ? 2 : 0)} MB/s on the bus, ${
      number(each.count)} batches, ${each.backend} ${each.algorithm}`));
  return figure('Bandwidth by size of batch',
    `Bus bandwidth from ${size(2 ** least)} to ${size(2 ** (least + span))}; the best is ${
      peak.toFixed(0)} MB/s.`, HEIGHT,
    [shape('line', {x1: 0, x2: WIDTH, y1: y(peak), y2: y(peak), class: 'mark'}),
      text(4, y(peak) - 4, `${peak.toFixed(0)} MB/s`), ...dots]);
}

function fusion(of) {
  const bars = list(of?.histogram);
  if (!bars.length) return null;
  const most = largest(bars.map(bar => bar.count)) || 1, wide = WIDTH / bars.length;
  const shapes = bars.flatMap((bar, i) => {
    const tall = (HEIGHT - 16) * number(bar.count) / most, from = number(bar.tensors_from),
      to = number(bar.tensors_to);
    return [
      shape('rect',
        {x: i * wide + 2, y: HEIGHT - 14 - tall, width: wide - 4, height: tall, class: 'data'},
        `${from} to ${to} tensors: ${number(bar.count)} batches`),
      text((i + 0.5) * wide, HEIGHT - 2, from === to ? String(from) : `${from}-${to}`, 'middle')];
  });
  return figure('Tensors in a batch',
    `${number(of.tensors)} ${number(of.tensors) === 1 ? 'tensor' : 'tensors'} in ${number(of.batches)} ${
      number(of.batches) === 1 ? 'batch' : 'batches'}, ${
      number(of.mean_tensors).toFixed(1)} per batch on average.`, HEIGHT, shapes);
}

function table(title, heads, rows) {
  if (!rows.length) return null;
  const made = document.createElement('figure'), caption = document.createElement('figcaption'),
    body = document.createElement('table');
  caption.textContent = title;
  for (const [kind, cells] of [['th', heads], ...rows.map(cells => ['td', cells])]) {
    const line = document.createElement('tr');
    line.append(...cells.map(
      cell => Object.assign(document.createElement(kind), {textContent: cell, title: cell})));
    body.append(line);
  }
  made.append(caption, body);
  return made;
}

/// `goTo(from, to)` takes microseconds. `file` is the name of the report's file if there are several.
export function showPlots(place, report, goTo, file = '') {
  place.replaceChildren();
  if (!report || typeof report !== 'object') return;
  const steps = list(report.steps);
  const cost = list(report.cost).slice(0, MOST_ROWS).map(each =>
    [`rank ${number(each.rank)}`, `${(100 * number(each.last_share)).toFixed(0)} %`,
      time(number(each.caused_median_us ?? each.caused_per_step_us)),
      ...steps.length ? [time(number(each.caused_per_step_us))] : []]);
  const tensors = list(report.tensors).slice(0, 10).map(each =>
    [String(each.name), time(number(each.negotiate_us)), time(number(each.collective_us))]);
  const figures = [exposed(steps, goTo), lateness(report, steps, goTo),
    table('Last ranks',
      ['rank', 'last in', ...steps.length ? ['typical step', 'on average'] : ['cost']], cost),
    bandwidth(list(report.sizes)), fusion(report.fusion),
    table('The slowest tensors', ['name', 'negotiate', 'collective'], tensors)].filter(Boolean);
  if (!figures.length) return;
  const head = document.createElement('h2');
  head.textContent = file ? `Figures of ${file}` : 'Figures';
  place.append(head, ...figures);
}
