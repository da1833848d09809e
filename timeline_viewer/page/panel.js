// The side panel: the selection, and the findings of the report. Names from a file are only used as text.
import {colorOf} from './colors.js';
import {size, time, unbroken} from './format.js';
import {lastRankOf, rankOf, sameOnAllRanks} from './ranks.js';

function element(tag, text, ...children) {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  made.append(...children);
  return made;
}

/// A patch in the colour that the name has in the lanes.
function patchOf(name) {
  const patch = element('i');
  patch.style.background = colorOf(name);
  return patch;
}

const named = name => element('td', '', patchOf(name), name);

/// `file` is the name of the report's file if there are several.
export function showFindings(place, report, onEvidence, file = '') {
  place.replaceChildren(element('h2', file ? `Findings in ${file}` : 'Findings'));
  if (!report) {
    place.append(element('p',
      'This file has no report; dabke-timeline view FILE makes one. '
      + 'A click shows details above, for all ranks side by side.'));
    return;
  }
  if (!report.findings?.length) place.append(element('p', 'The report has no findings.'));
  for (const finding of report.findings ?? []) {
    const button = element('button', '', element('strong', finding.title),
      element('p', unbroken(finding.text)), element('p', unbroken(finding.advice)));
    const [evidence] = Array.isArray(finding.evidence) ? finding.evidence : [];
    button.disabled = !evidence;
    if (evidence) button.append(Object.assign(element('p', 'Show it in the timeline'), {className: 'go'}));
    button.className = 'finding';
    if (['high', 'medium'].includes(finding.severity)) button.classList.add(finding.severity);
    button.onclick = () => onEvidence(evidence);
    place.append(button);
  }
}

export function showSelection(place, trace, event) {
  place.replaceChildren();
  if (event < 0) return;
  const row = trace.rows[trace.row[event]];
  const facts = [
    ['where', [row.process, row.words].filter(Boolean).join(' · ')],
    ['begins', time(trace.begin[event] - trace.first)],
    ['takes', time(trace.end[event] - trace.begin[event])],
    ...JSON.parse(trace.details[trace.detail[event]])];
  if (!Number.isNaN(trace.order[event])) facts.push(['order', trace.order[event]]);
  if (!Number.isNaN(trace.bytes[event])) facts.push(['size', size(trace.bytes[event])]);
  if (trace.lastRank[event] >= 0)
    facts.push(['last', `rank ${trace.lastRank[event]}, by ${time(trace.lastBy[event])}`]);
  const list = element('dl');
  for (const [name, value] of facts)
    list.append(element('dt', String(name)),
      element('dd', typeof value === 'object' ? JSON.stringify(value) : String(value)));
  const title = element('h2', '', patchOf(trace.names[trace.name[event]]), trace.names[trace.name[event]]);
  place.append(title, list);
  if (!Number.isNaN(trace.order[event])) place.append(...sideBySide(trace, event));
}

/// Shows what happens in a range: for each name, the number of its events and their time in all lanes.
export function showRange(place, trace, {begin, end}) {
  const sums = new Map();
  for (const row of trace.rows) {
    for (const lane of row.lanes) {
      for (let i = lane.from; i < lane.to; i++) {
        const inside = Math.min(trace.end[i], end) - Math.max(trace.begin[i], begin);
        if (inside < 0 || trace.begin[i] >= end) continue;
        const sum = sums.get(trace.name[i]) ?? {count: 0, us: 0};
        sums.set(trace.name[i], {count: sum.count + 1, us: sum.us + inside});
      }
    }
  }
  const lines = [...sums].sort((a, b) => b[1].us - a[1].us).slice(0, 12).map(
    ([name, {count, us}]) => element('tr', '', named(trace.names[name]),
      element('td', count.toLocaleString('en')), element('td', time(us))));
  const head = element('tr', '', element('th', 'in this range, all lanes'), element('th', 'events'),
    element('th', 'time'));
  place.replaceChildren(element('h2', `${time(end - begin)} from ${time(begin - trace.first)} on`),
    element('table', '', head, ...lines));
}

/// Shows the same order of the same tensor on all ranks: when each rank came, and how long the
/// others waited for it alone.
function sideBySide(trace, event) {
  const rank = i => rankOf(trace, i) ?? Infinity;
  const found = sameOnAllRanks(trace, event).sort((a, b) => rank(a) - rank(b) || a - b),
    last = lastRankOf(trace, event);
  if (found.length < 2) return [];
  const first = Math.min(...found.map(i => trace.begin[i]));
  const head = element('tr', '',
    ...['rank', 'begins after', 'takes', ...last ? ['others waited'] : []].map(each => element('th', each)));
  const lines = found.map(i => element('tr', '',
    element('td', String(rankOf(trace, i) ?? trace.rows[trace.row[i]].process)),
    element('td', time(trace.begin[i] - first)), element('td', time(trace.end[i] - trace.begin[i])),
    ...last ? [element('td', rankOf(trace, i) === last.rank ? time(last.us) : '–')] : []));
  return [element('table', '', head, ...lines)];
}
