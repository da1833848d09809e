// Puts the page together: where traces come from, and what follows from a click.
import {legendOf} from './colors.js';
import {showComparison} from './compare.js';
import {time} from './format.js';
import {followPointer} from './hover.js';
import {showKeys} from './keys.js';
import {Lanes} from './lanes.js';
import {readLink, writeLink} from './link.js';
import {showFindings, showRange, showSelection} from './panel.js';
import {showPlots} from './plots.js';
import {find, goToNext, matcher} from './search.js';
import {steerTime} from './steer.js';
import {Steps} from './steps.js';

const at = id => document.getElementById(id);
const lanes = new Lanes(at('lanes'), {
  select: event => showSelection(at('selection'), lanes.trace, event),
  measure: range => showRange(at('selection'), lanes.trace, range),
  reveal: ({grouping, isFiltered}) => {
    at('grouping').value = grouping;
    if (!isFiltered) at('filter').value = '';
  },
  fold: words => { at('status').textContent = words; },
  moved: () => {
    steps.see(lanes.begin, lanes.end);
    clearTimeout(linking);
    linking = setTimeout(link, 200);
  },
});
let told = null;  // the report of the trace that is shown
let linking = 0, linked = readLink();  // of the first trace alone
const steps = new Steps(at('strip'), ({begin, end}) => lanes.look(begin, end));

function tell(text) {
  at('message').textContent = text;
  at('message').hidden = !text;
}

function startWorker() {
  const code = at('dabke-worker')?.textContent;  // in a page of one file
  if (!code) return new Worker(new URL('./worker.js', import.meta.url), {type: 'module'});
  return new Worker(URL.createObjectURL(new Blob([code], {type: 'text/javascript'})));
}

function parse(blob, onProgress = () => {}) {
  const worker = startWorker();
  return new Promise((resolve, reject) => {
    worker.onmessage = ({data}) => {
      if (data.progress !== undefined) onProgress(data.progress);
      else if (data.error) reject(new Error(data.error));
      else resolve(data);
    };
    worker.onerror = event => reject(new Error(event.message || 'the parser could not be started'));
    worker.postMessage({blob});
  }).finally(() => worker.terminate());
}

function faultsOf({truncated, bad, cut, metadata}) {
  return [
    cut && `The file cannot be decompressed to its end (${cut}).`,
    truncated && 'The file ends in the middle: what follows is missing.',
    bad && (bad === 1 ? '1 event cannot be read and is left out.' : `${bad.toLocaleString('en')} events cannot be read and are left out.`),
    ...(Array.isArray(metadata?.otherData?.missing) ? metadata.otherData.missing.map(String) : []),
  ].filter(Boolean).join(' ');
}

async function open(blob, name, report) {
  tell(`Reading ${name} …`);
  let result;
  try {
    result = await parse(blob, part => tell(`Reading ${name}: ${Math.round(100 * part)} %`));
  } catch (error) {
    return tell(`${name} cannot be read: ${error.message}`);
  }
  if (!result.trace.count) return tell(`${name} has no events: it is empty, or no Chrome trace (.json or .json.gz).`);
  tell(faultsOf(result));
  at('empty').hidden = true;
  at('work').hidden = at('tools').hidden = false;
  at('name').textContent = `${name} · ${result.trace.count.toLocaleString('en')} event${result.trace.count === 1 ? '' : 's'}`;
  if (['batches', 'tensor'].includes(linked?.by)) at('grouping').value = linked.by;
  if (linked?.words) at('search').value = linked.words;
  if (linked?.filter) at('filter').value = linked.filter;
  lanes.show(result.trace, at('grouping').value);
  for (const key of linked?.opened ?? []) lanes.layout.open(key, true);
  lanes.arrange();
  if (linked?.hasTimes) lanes.look(linked.from + result.trace.first, linked.to + result.trace.first);
  linked = null;
  showLegend(legendOf(result.trace.names, [...result.trace.summaries.values()].some(summary => summary.late.begin.length)));
  showSelection(at('selection'), result.trace, -1);
  told = report ?? result.metadata?.otherData?.report;
  steps.show(result.trace, told);
  at('comparison').replaceChildren();
  if (told?.clock_error_us > 0) at('name').textContent += ` · hosts' clocks ±${time(told.clock_error_us)}`;
  lanes.late = lateOf(told);
  showFindings(at('findings'), told, showEvidence);
  showPlots(at('plots'), told, look);
  search();
  filter();
}

/// The rank that the report has found to hold the others up, and by how much in the usual step, for its head in the lanes.
function lateOf(report) {
  const found = Array.isArray(report?.findings) && report.findings.find(each => each?.id === 'late-rank'), rank = found?.evidence?.[0]?.rank;
  if (!Number.isInteger(rank)) return null;
  const cost = Array.isArray(report.cost) ? report.cost.find(each => each?.rank === rank) : null;
  const us = cost?.caused_median_us || cost?.caused_per_step_us;
  return {process: `rank ${rank}`, words: Number.isFinite(us) && us > 0 ? `late ${time(us)}` : 'late'};
}

function showLegend(kinds) {
  at('legend').replaceChildren(...kinds.map(([color, meaning]) => {
    const item = document.createElement('li'), patch = document.createElement('i');
    patch.style.background = color || 'none';
    item.append(patch, meaning);
    return item;
  }));
}

async function compare(blob, name) {
  try {
    const other = (await parse(blob)).metadata?.otherData?.report;
    if (!told || !other) throw new Error(`${told ? name : 'the trace that is shown'} has no report; dabke-timeline merge makes traces that have one`);
    tell('');
    showComparison(at('comparison'), name, other, told);
    at('comparison').scrollIntoView();
  } catch (error) {
    tell(`${name} cannot be compared: ${error.message}`);
  }
}

function link() {
  const {begin, end, trace} = lanes;
  writeLink({from: begin - trace.first, to: end - trace.first, by: at('grouping').value, words: at('search').value, filter: at('filter').value,
    opened: [...lanes.unfolded].filter(([, isOpen]) => isOpen).map(([key]) => key)});
}

function look(begin, end) {
  at('lanes').scrollIntoView({block: 'nearest'});  // where the panel lies below them
  const margin = Math.max((end - begin) / 2, 1);
  lanes.look(begin - margin, end + margin);
}

function showEvidence({rank, start_us: begin, end_us: end, tensor, order}) {
  const {trace} = lanes;
  if (!Number.isFinite(begin) || !Number.isFinite(end)) return;
  look(begin, end);
  const fits = i => trace.begin[i] <= end && trace.end[i] >= begin && (order == null || trace.order[i] === order);
  for (const row of trace.rows) {
    if (row.process !== `rank ${rank}` || (tensor != null && row.name !== tensor)) continue;
    for (const lane of row.lanes)
      for (let i = lane.from; i < lane.to; i++) if (fits(i)) return lanes.select(i);
  }
}

function search() {
  const {trace} = lanes, text = at('search').value;
  if (!trace) return;
  lanes.matched = null;
  at('matches').textContent = '';
  try {
    if (text) {
      const found = find(trace, text);
      lanes.matched = found.matched;
      at('matches').textContent = found.words;
    }
  } catch (error) {
    at('matches').textContent = error.message;
  }
  lanes.redraw();
}

function filter() {
  const text = at('filter').value;
  let matches = null;
  at('filter').setCustomValidity('');
  try {
    if (text) matches = matcher(text);
  } catch (error) {
    at('filter').setCustomValidity(error.message);
    return;
  }
  if (lanes.trace && (matches || lanes.filter)) lanes.filterBy(matches);
}

at('search').oninput = search;
at('search').onkeydown = event => {
  if (event.key === 'Enter') goToNext(lanes, event.shiftKey ? -1 : 1);
  if (event.key === 'Escape') at('lanes').focus();
};
at('filter').oninput = filter;
at('filter').onkeydown = event => {
  if (event.key === 'Escape' || event.key === 'Enter') at('lanes').focus();
};
addEventListener('keydown', event => {
  const field = {'/': 'search', r: 'filter', R: 'filter'}[event.key];
  if (!field || event.ctrlKey || event.metaKey || event.altKey || event.target.matches('input, select') || at('keys').open || !lanes.trace) return;
  event.preventDefault();
  at(field).focus();
});
showKeys(at('keys'), at('keylist'), at('help'));
steerTime(lanes, at('strip'));
followPointer(at('lanes'), at('hover'), (x, y) => lanes.hint(x, y));
at('grouping').onchange = () => lanes.trace && lanes.group(at('grouping').value);
function onFile(input, act) {
  input.onchange = () => {
    const [file] = input.files;
    if (file) act(file, file.name);
    input.value = '';  // else the same file, recorded again, could not be chosen
  };
}
onFile(at('file'), (file, name) => open(file, name));
onFile(at('other'), compare);
addEventListener('dragover', event => event.preventDefault());
addEventListener('drop', event => {
  event.preventDefault();
  const [file] = event.dataTransfer.files;
  if (file) open(file, file.name);
});

const name = document.querySelector('meta[name="dabke-name"]')?.content;
if (document.querySelector('meta[name="dabke-source"][content="server"]')) {
  const [trace, report] = await Promise.all([fetch('./trace'), fetch('./report')]);
  if (trace.ok) open(await trace.blob(), name, report.ok ? await report.json() : null);
  else tell(`The trace cannot be fetched: ${trace.status}`);
} else if (at('dabke-trace')) {
  const bytes = Uint8Array.from(atob(at('dabke-trace').textContent), letter => letter.charCodeAt(0));
  open(new Blob([bytes]), name, JSON.parse(at('dabke-report').textContent));
}

window.dabke = {lanes, steps};  // for tests and the console
