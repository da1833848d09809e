// Draws a folded rank in one lane. Spans in one pixel column share its height in the
// proportion of their times.
import {LATE, STRATA, wordsOf} from './colors.js';
import {time} from './format.js';
import {firstEndingAfter} from './spans.js';

const LEAST_PIXELS = 0.75;

/// Returns how much of the time before `us` the spans take. `i` is the first span that ends after `us`.
const covered = ({begin, before}, i, us) => before[i] + (i < begin.length ? Math.max(0, us - begin[i]) : 0);

/// Returns the number of rectangles. `colors` has one for each name of the trace. Words to write over the
/// rectangles are added to `texts`.
export function drawFolded(summary, {left, right, top, tall, begin, scale},
  {trace, colors, rectangles, texts}) {
  const width = Math.floor(right - left), filled = new Float32Array(width);
  let drawn = 0;
  for (const stratum of STRATA) {
    const spans = summary[stratum], count = spans.begin.length;
    const next = (i, x) => firstEndingAfter(spans.end, i, count, begin + x / scale);
    for (let x = 0, i = next(0, 0); x < width && i < count; i = next(i, x)) {
      const from = begin + x / scale, until = begin + (x + 1) / scale, name = spans.name[i];
      if (spans.begin[i] >= until) {
        x = Math.max(x + 1, Math.floor((spans.begin[i] - begin) * scale));
        continue;
      }
      const color = name < 0 ? LATE[0] : colors[name];
      if (spans.begin[i] <= from && spans.end[i] >= until || stratum === 'error') {
        const to = Math.min(width, Math.max(x + 1, Math.floor((spans.end[i] - begin) * scale)));
        rectangles.add(color, false, left + x, top, to - x, tall);
        if (to - x > 48)
          texts.push([name < 0 ? 'last to be ready' : wordsOf(trace.names[name]), color, to - x, left + x,
            top + tall / 2]);
        filled.fill(1, x, to);
        x = to;
        drawn++;
        continue;
      }
      const last = firstEndingAfter(spans.end, i, count, until);
      const share = Math.min(1 - filled[x], (covered(spans, last, until) - covered(spans, i, from)) * scale);
      if (share * tall >= LEAST_PIXELS) {
        rectangles.add(color, false, left + x, top + tall * (1 - filled[x] - share), 1, tall * share);
        drawn++;
      }
      filled[x++] += share;
    }
  }
  return drawn;
}

/// Returns the words of the span that takes most of this range; '' if there is none.
export function foldedWords(summary, trace, from, to) {
  let most = 0, words = '';
  for (const stratum of STRATA) {
    const spans = summary[stratum], count = spans.begin.length,
      i = firstEndingAfter(spans.end, 0, count, from);
    const us = covered(spans, firstEndingAfter(spans.end, i, count, to), to) - covered(spans, i, from);
    if (!(us > most)) continue;
    most = us;
    words = `${spans.name[i] < 0 ? LATE[1] : wordsOf(trace.names[spans.name[i]])} · ${
      time(spans.end[i] - spans.begin[i])}`;
  }
  return words;
}
