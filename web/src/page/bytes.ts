// Offsets in a text: the server counts bytes of UTF-8, the browser counts UTF-16 code units.

// One checkpoint for so many code units: a lookup counts at most this many.
const STEP = 1024;

/** The bytes of the code unit at `i`. The second half of a pair has none, because the first half has all four. */
function bytesAt(text: string, i: number): number {
  const code = text.charCodeAt(i);
  if (code < 0x80) return 1;
  if (code < 0x800) return 2;
  if (code >= 0xd800 && code <= 0xdbff) {
    const next = text.charCodeAt(i + 1);
    return next >= 0xdc00 && next <= 0xdfff ? 4 : 3;
  }
  if (code >= 0xdc00 && code <= 0xdfff) {
    const before = i > 0 ? text.charCodeAt(i - 1) : 0;
    return before >= 0xd800 && before <= 0xdbff ? 0 : 3;
  }
  return 3;
}

/** Converts offsets of one text in both directions. */
export class ByteMap {
  /** The length of the text in bytes. */
  readonly length: number;
  /** The bytes before every code unit whose number is a multiple of `STEP`. */
  private readonly checkpoints: Uint32Array;

  constructor(private readonly text: string) {
    this.checkpoints = new Uint32Array(Math.floor(text.length / STEP) + 1);
    let bytes = 0;
    for (let i = 0; i < text.length; i += 1) {
      if (i % STEP === 0) this.checkpoints[i / STEP] = bytes;
      bytes += bytesAt(text, i);
    }
    if (text.length % STEP === 0) this.checkpoints[text.length / STEP] = bytes;
    this.length = bytes;
  }

  /** The byte at which a code unit begins. */
  byteOf(unit: number): number {
    const end = Math.max(0, Math.min(this.text.length, unit));
    const checkpoint = Math.floor(end / STEP);
    let bytes = this.checkpoints[checkpoint];
    for (let i = checkpoint * STEP; i < end; i += 1) bytes += bytesAt(this.text, i);
    return bytes;
  }

  /** The code unit that holds a byte. */
  unitOf(byte: number): number {
    if (byte >= this.length) return this.text.length;
    if (byte <= 0) return 0;
    if (this.length === this.text.length) return byte;
    let [low, high] = [0, this.checkpoints.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.checkpoints[middle] <= byte) low = middle;
      else high = middle;
    }
    let bytes = this.checkpoints[low];
    for (let i = low * STEP; i < this.text.length; i += 1) {
      bytes += bytesAt(this.text, i);
      if (bytes > byte) return i;
    }
    return this.text.length;
  }
}
