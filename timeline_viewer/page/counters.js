// Rows of numbers that change with time: what is in the queue, how many bytes are under way, how fast they go.

/// The last change at or before this time; -1: it comes before all.
export function changeAt({times}, us) {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] > us) high = middle;
    else low = middle + 1;
  }
  return low - 1;
}

/// One rectangle a pixel column at most: the largest value in it. Returns how many.
export function drawCounter(context, counter, {left, right, top, height, begin, scale}) {
  const {times, values, most} = counter;
  if (!(most > 0)) return 0;
  let drawn = 0, i = Math.max(0, changeAt(counter, begin));
  for (let x = left; x < right && i < times.length;) {
    const until = begin + (x + 1 - left) / scale;
    let value = times[i] < until ? values[i] : 0;
    while (i + 1 < times.length && times[i + 1] < until) value = Math.max(value, values[++i]);
    // As long as nothing changes one rectangle does.
    const next = i + 1 < times.length ? Math.max(x + 1, Math.min(right, Math.floor(left + (times[i + 1] - begin) * scale))) : right;
    const from = times[i] >= until ? Math.min(right, Math.floor(left + (times[i] - begin) * scale)) : 0;  // the first is still to come
    const to = from ? Math.max(x + 1, from) : value === values[i] ? next : x + 1;
    if (value > 0) {
      const tall = Math.max(1, height * Math.min(value / most, 1));
      context.fillRect(x, top + height - tall, to - x, tall);
      drawn++;
    }
    x = to;
  }
  return drawn;
}
