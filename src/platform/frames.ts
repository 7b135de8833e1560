// Frames on an upgraded connection: one byte of type, four of length (big endian), and the body.
// Knows no types; both ends read with the same limit.

const HEAD_BYTES = 5;

export class FrameError extends Error {}

const EMPTY = new Uint8Array(0);

export function encodeFrame(type: number, body: Uint8Array = EMPTY): Buffer {
  const frame = Buffer.allocUnsafe(HEAD_BYTES + body.length);
  frame[0] = type;
  frame.writeUInt32BE(body.length, 1);
  frame.set(body, HEAD_BYTES);
  return frame;
}

/**
 * Returns a function that takes what arrives, in any pieces; it throws on a longer frame. After an
 * error, also one of `onFrame`, it ignores what follows.
 */
export function makeFrameReader(
  sizeBytesMax: number,
  onFrame: (type: number, body: Buffer) => void,
): (chunk: Buffer) => void {
  let pieces: Buffer[] = [];
  let sizeBytes = 0;
  /** Joined only when a frame is complete: joining at each chunk would be quadratic. */
  let neededBytes = HEAD_BYTES;
  let isBroken = false;
  return (chunk) => {
    if (isBroken) return;
    pieces.push(chunk);
    sizeBytes += chunk.length;
    if (sizeBytes < neededBytes) return;
    let bytes = pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces);
    neededBytes = HEAD_BYTES;
    isBroken = true;
    while (bytes.length >= HEAD_BYTES) {
      const length = bytes.readUInt32BE(1);
      if (length > sizeBytesMax)
        throw new FrameError(`a frame of ${length} bytes is above the limit of ${sizeBytesMax}`);
      neededBytes = HEAD_BYTES + length;
      if (bytes.length < neededBytes) break;
      onFrame(bytes[0]!, bytes.subarray(HEAD_BYTES, neededBytes));
      bytes = bytes.subarray(neededBytes);
      neededBytes = HEAD_BYTES;
    }
    isBroken = false;
    pieces = bytes.length === 0 ? [] : [bytes];
    sizeBytes = bytes.length;
  };
}
