// Searches sorted spans that do not overlap: a lane of a trace, or the spans of a folded rank.

/// Returns the first span of [from, to) that ends after this time; `to` if there is none. It
/// is usually near `from`.
export function firstEndingAfter(ends, from, to, us) {
  let low = from, high = to;
  for (let stride = 1; from + stride < high; stride *= 2) {
    if (ends[from + stride - 1] > us) {
      high = from + stride;
      break;
    }
    low = from + stride;
  }
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ends[middle] > us) high = middle;
    else low = middle + 1;
  }
  return low;
}
