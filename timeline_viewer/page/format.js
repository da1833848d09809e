// Numbers as people read them, and a width that the canvases share.

/// The width in pixels of the names at the left of a canvas of this width.
export const gutterOf = width => width < 560 ? 128 : width < 900 ? 168 : 208;

export function time(us) {
  if (us === 0) return '0 µs';
  const size = Math.abs(us);
  if (size >= 1e6) return `${(us / 1e6).toFixed(3)} s`;
  if (size >= 1e3) return `${(us / 1e3).toFixed(2)} ms`;
  return `${us.toFixed(size < 10 ? 2 : 1)} µs`;
}

/// Returns a time on an axis with ticks of this distance, with only the digits that distinguish the ticks.
export function tickTime(us, tick) {
  const [unit, name] = tick >= 1e5 ? [1e6, 's'] : tick >= 1e2 ? [1e3, 'ms'] : [1, 'µs'];
  return `${(us / unit).toLocaleString('en',
    {maximumFractionDigits: Math.max(0, Math.ceil(-Math.log10(tick / unit)))})} ${name}`;
}

/// Keeps a number and its unit on one line.
export const unbroken = text => String(text ?? '').replace(/(\d) (?=(%|[mun]?s)(?!\w))/g, '$1\u00a0');

export function size(bytes) {
  if (bytes >= 1 << 20) return `${(bytes / (1 << 20)).toFixed(1)} MiB`;
  return bytes >= 1024 ? `${(bytes / 1024).toFixed(1)} KiB` : `${bytes} B`;
}
