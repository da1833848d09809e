// Finds the events of a trace in its bytes, piece by piece. So a file may be longer than a string can be, and
// a file that was cut yields what it has. The bytes outside the array of events are kept for the metadata.

const QUOTE = 34, BACKSLASH = 92, OPEN_ARRAY = 91, CLOSE_ARRAY = 93, OPEN_OBJECT = 123, CLOSE_OBJECT = 125;
const MOST_OUTSIDE = 64 << 20;
// No tool writes longer events, and an incomplete event is copied with each piece.
const MOST_EVENT = 4 << 20;

export class Scanner {
  constructor(onEvents) {
    this.onEvents = onEvents;
    this.decoder = new TextDecoder();
    this.carry = new Uint8Array(0);
    this.outside = [];
    this.outsideBytes = 0;
    this.depth = 0;
    this.eventDepth = -1;  // the depth of the objects that are events; -1 outside the array
    this.inString = this.escaped = this.ended = false;
    this.stringStart = this.objectStart = -1;
    this.key = '';
    this.bad = 0;
    this.isTrace = false;
  }

  push(chunk) {
    const bytes = new Uint8Array(this.carry.length + chunk.length);
    bytes.set(this.carry);
    bytes.set(chunk, this.carry.length);
    const objects = [];
    let outsideFrom = this.eventDepth < 0 ? this.carry.length : -1;
    for (let i = this.carry.length; i < bytes.length; i++) {
      const c = bytes[i];
      if (this.inString) {
        if (this.escaped) this.escaped = false;
        else if (c === BACKSLASH) this.escaped = true;
        else if (c === QUOTE) {
          this.inString = false;
          if (this.depth === 1 && this.eventDepth < 0 && i - this.stringStart < 64)
            this.key = this.decoder.decode(bytes.subarray(Math.max(0, this.stringStart), i));
        }
      } else if (c === QUOTE) {
        this.inString = true;
        this.stringStart = i + 1;
      } else if (c === OPEN_OBJECT || c === OPEN_ARRAY) {
        if (c === OPEN_OBJECT && this.depth === this.eventDepth) this.objectStart = i;
        this.depth++;
        if (c === OPEN_ARRAY && !this.isTrace &&
          (this.depth === 1 || (this.depth === 2 && this.key === 'traceEvents'))) {
          this.isTrace = true;
          this.eventDepth = this.depth;
          this.keepOutside(bytes, outsideFrom, i + 1);
          outsideFrom = -1;
        }
      } else if (c === CLOSE_OBJECT || c === CLOSE_ARRAY) {
        this.depth--;
        if (this.objectStart >= 0 && this.depth === this.eventDepth) {
          objects.push(this.objectStart, i + 1);
          this.objectStart = -1;
        } else if (this.eventDepth >= 0 && this.depth < this.eventDepth) {
          this.eventDepth = -1;
          outsideFrom = i;
        }
        if (this.depth === 0) this.ended = true;
      }
    }
    this.keepOutside(bytes, outsideFrom, bytes.length);
    this.parse(bytes, objects);
    if (this.objectStart >= 0 && bytes.length - this.objectStart > MOST_EVENT) {
      this.bad++;
      this.objectStart = -1;
    }
    const from = this.objectStart >= 0 ? this.objectStart : bytes.length;
    this.carry = bytes.slice(from);
    if (this.objectStart >= 0) this.objectStart = 0;
    this.stringStart -= from;
  }

  /// Returns {metadata, truncated, bad, isTrace}.
  finish() {
    const text = this.decoder.decode(joined(this.outside));
    let metadata = {};
    for (const end of ['', ']}', ']', '}']) {
      try {
        metadata = JSON.parse(text + end);
        break;
      } catch { /* the next end */ }
    }
    return {metadata, truncated: !this.ended, bad: this.bad, isTrace: this.isTrace};
  }

  keepOutside(bytes, from, to) {
    if (from < 0 || this.outsideBytes > MOST_OUTSIDE) return;
    this.outside.push(bytes.slice(from, to));
    this.outsideBytes += to - from;
  }

  parse(bytes, objects) {
    if (!objects.length) return;
    let events;
    try {
      events = JSON.parse(`[${this.decoder.decode(bytes.subarray(objects[0], objects.at(-1)))}]`);
    } catch {
      for (let i = 0; i < objects.length; i += 2) this.parseOne(bytes.subarray(objects[i], objects[i + 1]));
      return;
    }
    this.onEvents(events);
  }

  parseOne(bytes) {
    let event;
    try {
      event = JSON.parse(this.decoder.decode(bytes));
    } catch {
      this.bad++;
      return;
    }
    this.onEvents([event]);
  }
}

function joined(parts) {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
