// Rows of numbers that change with time, such as the queue's length, bytes in flight and bandwidth.

const BLOCK = 64;  // changes whose largest value is stored

/// Returns the last change at or before this time; -1 if there is none.
export function changeAt({times}, us) {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] > us) high = middle;
    else low = middle + 1;
  }
  return low - 1;
}

function blocksOf({values}) {
  const blocks = new Float64Array(Math.ceil(values.length / BLOCK));
  for (let i = 0; i < values.length; i++)
    blocks[Math.floor(i / BLOCK)] = Math.max(blocks[Math.floor(i / BLOCK)], values[i]);
  return blocks;
}

/// Returns the largest value from one change to another, both included.
function largestOf(counter, from, to) {
  counter.blocks ??= blocksOf(counter);
  let most = 0;
  for (let i = from; i <= to;) {
    const isBlock = i % BLOCK === 0 && i + BLOCK <= to + 1;
    most = Math.max(most, isBlock ? counter.blocks[i / BLOCK] : counter.values[i]);
    i += isBlock ? BLOCK : 1;
  }
  return most;
}

/// True if the counter is above zero at any time of this range.
export function countsIn(counter, begin, end) {
  const last = changeAt(counter, end);
  return last >= 0 && largestOf(counter, Math.max(0, changeAt(counter, begin)), last) > 0;
}

/// Draws the largest value of each pixel column, in one rectangle while nothing changes. Returns
/// the number of rectangles.
export function drawCounter(context, counter, {left, right, top, height, begin, scale}) {
  const {times, most} = counter;
  let drawn = 0;
  context.beginPath();
  for (let x = left, next; most > 0 && x < right; x = next) {
    const first = changeAt(counter, begin + (x - left) / scale),
      last = changeAt(counter, begin + (x + 1 - left) / scale);
    const change = last + 1 < times.length ? Math.floor(left + (times[last + 1] - begin) * scale) : right;
    next = first === last ? Math.min(right, Math.max(x + 1, change)) : x + 1;
    const value = last < 0 ? 0 : largestOf(counter, Math.max(0, first), last);
    if (!(value > 0)) continue;
    const tall = Math.max(1, height * value / most);
    context.rect(x, top + height - tall, next - x, tall);
    drawn++;
  }
  context.fill();
  return drawn;
}
