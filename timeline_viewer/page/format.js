// Numbers as people read them.
export function time(us) {
  const size = Math.abs(us);
  if (size >= 1e6) return `${(us / 1e6).toFixed(3)} s`;
  if (size >= 1e3) return `${(us / 1e3).toFixed(2)} ms`;
  return `${us.toFixed(size < 10 ? 2 : 1)} µs`;
}

export function size(bytes) {
  if (bytes >= 1 << 20) return `${(bytes / (1 << 20)).toFixed(1)} MiB`;
  return bytes >= 1024 ? `${(bytes / 1024).toFixed(1)} KiB` : `${bytes} B`;
}
