// Reads a trace away from the page's own thread. Comes in: {blob}; goes out: {progress}, then {trace, ...} or {error}.
import {Scanner} from './scanner.js';
import {Builder} from './builder.js';

async function isGzip(blob) {
  const head = new Uint8Array(await blob.slice(0, 2).arrayBuffer());
  return head[0] === 0x1f && head[1] === 0x8b;
}

async function read(blob) {
  const builder = new Builder();
  const scanner = new Scanner(events => builder.add(events));
  const seen = {bytes: 0};
  let cut = '';
  try {
    const bytes = blob.stream().pipeThrough(new TransformStream({transform: (piece, to) => {
      seen.bytes += piece.length;
      to.enqueue(piece);
    }}));
    const stream = await isGzip(blob) ? bytes.pipeThrough(new DecompressionStream('gzip')) : bytes;
    // Counted before it is decompressed, since only that size is known.
    const reader = stream.getReader();
    let told = Date.now();
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      scanner.push(piece.value);
      if (Date.now() < told + 200) continue;
      told = Date.now();
      self.postMessage({progress: Math.min(1, seen.bytes / blob.size)});
    }
  } catch (error) {
    cut = String(error.message);
  }
  const scanned = scanner.finish();
  return {...scanned, bad: scanned.bad + builder.bad, cut, trace: builder.finish()};
}

self.onmessage = async ({data}) => {
  try {
    const result = await read(data.blob);
    const {trace} = result;
    self.postMessage(result, Object.values(trace).filter(ArrayBuffer.isView).map(column => column.buffer));
  } catch (error) {
    self.postMessage({error: String(error.message)});
  }
};
