// Reads traces on a thread of its own. It receives {files: [{blob, name}]} and sends {progress}, then {trace,
// files: [{name, metadata, ...}]} or {error}.
import {Scanner} from './scanner.js';
import {Builder} from './builder.js';

async function isGzip(blob) {
  const head = new Uint8Array(await blob.slice(0, 2).arrayBuffer());
  return head[0] === 0x1f && head[1] === 0x8b;
}

/// Calls `onPiece` with the bytes of the file that were read. They are counted before decompression, since
/// only the size of the compressed file is known.
async function scan(blob, scanner, onPiece) {
  const bytes = blob.stream().pipeThrough(new TransformStream({transform: (piece, to) => {
    onPiece(piece.length);
    to.enqueue(piece);
  }}));
  const stream = await isGzip(blob) ? bytes.pipeThrough(new DecompressionStream('gzip')) : bytes;
  const reader = stream.getReader();
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) scanner.push(piece.value);
}

async function read(files) {
  const builder = new Builder(), whole = files.reduce((sum, {blob}) => sum + blob.size, 0), read = [];
  let seen = 0, told = Date.now();
  for (const {blob, name} of files) {
    if (read.length) builder.nextFile();
    const scanner = new Scanner(events => builder.add(events)), {bad, count} = builder;
    let cut = '';
    try {
      await scan(blob, scanner, bytes => {
        seen += bytes;
        if (Date.now() < told + 200) return;
        told = Date.now();
        self.postMessage({progress: Math.min(1, seen / whole)});
      });
    } catch (error) {
      cut = String(error.message);
    }
    const scanned = scanner.finish();
    read.push({...scanned, name, bad: scanned.bad + builder.bad - bad, cut, count: builder.count - count});
  }
  const baseTimes = read.map(({metadata}) => metadata?.baseTimeNanoseconds)
    .map(ns => Number.isFinite(ns) ? ns / 1e3 : undefined);
  return {files: read, trace: builder.finish(files.map(file => file.name), baseTimes)};
}

self.onmessage = async ({data}) => {
  try {
    const result = await read(data.files);
    const {trace} = result;
    self.postMessage(result, Object.values(trace).filter(ArrayBuffer.isView).map(column => column.buffer));
  } catch (error) {
    self.postMessage({error: String(error.message)});
  }
};
