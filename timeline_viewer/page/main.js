// Puts the page together: where traces come from, and what a click does.
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
import {jobIn, processIn} from './tracks.js';

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
let told = [];  // the reports of what is shown: one for all files, or one for each
let linking = 0, linked = readLink();  // for the first trace only
const steps = new Steps(at('strip'), ({begin, end}) => lanes.look(begin, end));

function showStatus(text) {
  at('message').textContent = text;
  at('message').hidden = !text;
}

function startWorker() {
  const code = at('dabke-worker')?.textContent;  // if the page is one file
  if (!code) return new Worker(new URL('./worker.js', import.meta.url), {type: 'module'});
  return new Worker(URL.createObjectURL(new Blob([code], {type: 'text/javascript'})));
}

/// `files` has elements {blob, name}.
function parse(files, onProgress = () => {}) {
  const worker = startWorker();
  return new Promise((resolve, reject) => {
    worker.onmessage = ({data}) => {
      if (data.progress !== undefined) onProgress(data.progress);
      else if (data.error) reject(new Error(data.error));
      else resolve(data);
    };
    worker.onerror = event => reject(new Error(event.message || 'the parser could not be started'));
    worker.postMessage({files});
  }).finally(() => worker.terminate());
}

function faultsOf({truncated, bad, cut, metadata}) {
  return [
    cut && `The file cannot be decompressed completely (${cut}).`,
    truncated && 'The file is cut off: its end is missing.',
    bad && (bad === 1 ? '1 event cannot be read and is left out.' :
      `${bad.toLocaleString('en')} events cannot be read and are left out.`),
    ...(Array.isArray(metadata?.otherData?.missing) ? metadata.otherData.missing.map(String) : []),
  ].filter(Boolean).join(' ');
}

/// Returns a label for each file: its name without the usual ending, if these labels differ.
function labelsOf(names) {
  const plain = names.map(name => name.replace(/\.json(\.gz)?$/, '')),
    isUnique = texts => new Set(texts).size === texts.length;
  return [plain, names].find(isUnique) ?? names.map((name, i) => `${name} (${i + 1})`);
}

/// `files` has elements {blob, name}. `reports` has one for all files, or one for each. Without `reports`,
/// those inside the files are used.
async function open(files, reports) {
  const names = files.map(file => file.name), name = names.join(', ');
  showStatus(`Reading ${name} …`);
  let result;
  try {
    const labels = labelsOf(names);
    result = await parse(files.map(({blob}, i) => ({blob, name: labels[i]})),
      part => showStatus(`Reading ${name}: ${Math.round(100 * part)} %`));
  } catch (error) {
    return showStatus(`${name} cannot be read: ${error.message}`);
  }
  const isAlone = files.length === 1,
    hasNone = text => `${text} has no events: it is empty, or not a Chrome trace (.json or .json.gz).`;
  if (!result.trace.count) return showStatus(names.map(hasNone).join(' '));
  showStatus(result.files.map((file, i) => {
    const faults = file.count ? faultsOf(file) : hasNone(names[i]);
    return isAlone || !faults || !file.count ? faults : `${names[i]}: ${faults}`;
  }).filter(Boolean).join(' '));
  at('empty').hidden = true;
  at('work').hidden = at('tools').hidden = false;
  at('name').textContent = `${name} · ${result.trace.count.toLocaleString('en')} event${
    result.trace.count === 1 ? '' : 's'}`;
  if (['batches', 'tensor'].includes(linked?.by)) at('grouping').value = linked.by;
  if (linked?.words) at('search').value = linked.words;
  if (linked?.filter) at('filter').value = linked.filter;
  lanes.show(result.trace, at('grouping').value);
  for (const key of linked?.opened ?? []) lanes.layout.open(key, true);
  lanes.arrange();
  if (linked?.hasTimes) lanes.look(linked.from + result.trace.first, linked.to + result.trace.first);
  linked = null;
  showLegend(legendOf(result.trace.names,
    [...result.trace.summaries.values()].some(summary => summary.late.begin.length)));
  showSelection(at('selection'), result.trace, -1);
  const own = result.files.map(file => file.metadata?.otherData?.report);
  told = reports ?? (own.some(Boolean) ? own : [undefined]);
  steps.show(result.trace, told[0], jobOf(0).shift);
  at('comparison').replaceChildren();
  const clockError = Math.max(...told.map(report => report?.clock_error_us || 0));
  if (clockError > 0) at('name').textContent += ` · hosts' clocks ±${time(clockError)}`;
  lanes.late = new Map(told.map((report, i) => lateOf(report, jobOf(i).name)).filter(Boolean));
  showReports();
  search();
  filter();
}

/// Returns the name of the file that a report is for, and the shift of its times. The report
/// for all files has no name.
function jobOf(i) {
  const {name, first, shift} = lanes.trace.files[i], report = told[i],
    end = report?.steps?.at?.(-1)?.end_us ?? report?.duration_us;
  // The events of a profile have the time of day, and its report counts from the first of them.
  return {name: told.length === 1 ? '' : name, shift: shift + (end < first ? first : 0)};
}

function showReports() {
  const places = {findings: [], plots: []};
  told.forEach((report, i) => {
    const {name, shift} = jobOf(i), findings = document.createElement('div'),
      plots = document.createElement('div');
    showFindings(findings, report, evidence => showEvidence(evidence, i), name);
    showPlots(plots, report, (begin, end) => look(begin + shift, end + shift), name);
    places.findings.push(findings);
    places.plots.push(plots);
  });
  for (const [id, made] of Object.entries(places)) at(id).replaceChildren(...made);
  if (told.length === 2 && told[0] && told[1])
    showComparison(at('comparison'), jobOf(0).name, told[0], told[1], jobOf(1).name);
}

/// Returns [process, words] for the head of a rank in the lanes: the rank that holds up the others according
/// to the report, and its cost in the usual step.
function lateOf(report, file) {
  const found = Array.isArray(report?.findings) && report.findings.find(each => each?.id === 'late-rank'),
    rank = found?.evidence?.[0]?.rank;
  if (!Number.isInteger(rank)) return null;
  const cost = Array.isArray(report.cost) ? report.cost.find(each => each?.rank === rank) : null;
  const us = cost?.caused_median_us || cost?.caused_per_step_us;
  return [processIn(file, `rank ${rank}`), Number.isFinite(us) && us > 0 ? `late ${time(us)}` : 'late'];
}

function showLegend(kinds) {
  at('legend').replaceChildren(...kinds.map(([color, meaning]) => {
    const item = document.createElement('li'), patch = document.createElement('i');
    patch.style.background = color || 'none';
    item.append(patch, meaning);
    return item;
  }));
}

async function compare({blob, name}) {
  try {
    const [file] = (await parse([{blob, name}])).files, other = file.metadata?.otherData?.report,
      [now] = told;
    if (!now || !other)
      throw new Error(`${now ? name : 'this trace'
      } has no report; traces from dabke-timeline merge have one`);
    showStatus('');
    showComparison(at('comparison'), name, other, now);
    at('comparison').scrollIntoView();
  } catch (error) {
    showStatus(`${name} cannot be compared: ${error.message}`);
  }
}

function link() {
  const {begin, end, trace} = lanes;
  writeLink({from: begin - trace.first, to: end - trace.first, by: at('grouping').value,
    words: at('search').value, filter: at('filter').value,
    opened: [...lanes.unfolded].filter(([, isOpen]) => isOpen).map(([key]) => key)});
}

function look(begin, end) {
  at('lanes').scrollIntoView({block: 'nearest'});  // on narrow screens, the panel is below them
  const margin = Math.max((end - begin) / 2, 1);
  lanes.look(begin - margin, end + margin);
}

/// `i` is the number of the report with this evidence. Without a rank (-1), it is about the whole job.
function showEvidence({rank, start_us, end_us, tensor, order}, i) {
  const {trace} = lanes, {name, shift} = jobOf(i), begin = start_us + shift, end = end_us + shift;
  if (!Number.isFinite(begin) || !Number.isFinite(end)) return;
  look(begin, end);
  const isOfJob = rank === -1, process = isOfJob ? jobIn(name) : processIn(name, `rank ${rank}`);
  const fits = i => trace.begin[i] <= end && trace.end[i] >= begin &&
    (isOfJob || order == null || trace.order[i] === order);
  for (const row of trace.rows) {
    if (row.process !== process || (!isOfJob && tensor != null && row.name !== tensor)) continue;
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
  if (!field || event.ctrlKey || event.metaKey || event.altKey || event.target.matches('input, select') ||
    at('keys').open || !lanes.trace) return;
  event.preventDefault();
  at(field).focus();
});
showKeys(at('keys'), at('keylist'), at('help'));
steerTime(lanes, at('strip'));
followPointer(at('lanes'), at('hover'), (x, y) => lanes.hint(x, y));
at('grouping').onchange = () => lanes.trace && lanes.group(at('grouping').value);
const filesOf = list => [...list].map(file => ({blob: file, name: file.name}));
function onFile(input, act) {
  input.onchange = () => {
    if (input.files.length) act(filesOf(input.files));
    input.value = '';  // otherwise the same file could not be chosen again after a new recording
  };
}
onFile(at('file'), files => open(files));
onFile(at('other'), ([file]) => compare(file));
addEventListener('dragover', event => event.preventDefault());
addEventListener('drop', event => {
  event.preventDefault();
  if (event.dataTransfer.files.length) open(filesOf(event.dataTransfer.files));
});

async function fetched(names) {
  const blobs = await Promise.all(names.map(async (name, i) => {
    const answer = await fetch(`./trace/${i}`);
    if (!answer.ok) throw new Error(`${name} cannot be fetched: ${answer.status}`);
    return answer.blob();
  }));
  const answer = await fetch('./reports');
  return [blobs, answer.ok ? await answer.json() : undefined];
}

const inPage = text => new Blob([Uint8Array.from(atob(text), letter => letter.charCodeAt(0))]);
const given = [...document.querySelectorAll('meta[name="dabke-name"]')].map(each => each.content);
try {
  const isServed = document.querySelector('meta[name="dabke-source"][content="server"]');
  const [blobs, reports] = isServed ? await fetched(given)
    : given.length ? [[...document.querySelectorAll('.dabke-trace')].map(each => inPage(each.textContent)),
      JSON.parse(at('dabke-reports').textContent)] : [];
  if (blobs) open(blobs.map((blob, i) => ({blob, name: given[i]})), reports);
} catch (error) {
  showStatus(error.message);
}

window.dabke = {lanes, steps};  // for tests and the console
