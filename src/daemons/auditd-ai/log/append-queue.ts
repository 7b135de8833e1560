// Events that wait to be written: what may wait, how much of it, and in which groups it is
// committed. Writing a group is left to log.ts.
import { fault } from '../../../wire/errors.ts';
import { refuseRotation } from './rotation.ts';

export type Appended = { firstSeq: number; size: number };
export type QueuedAppend = {
  bodies: readonly string[];
  sizeBytes: number;
  resolve: (appended: Appended) => void;
  reject: (problem: unknown) => void;
};
type QueueLimits = { lineBytesMax: number; queueBytesMax: number };

/** One group is not much larger, so that a flood does not keep the process from answering. */
const GROUP_BYTES_MAX = 4 << 20;
/** After a pause like this, and a group no larger than what one call adds, nobody else is near. */
const ALONE = { pauseMs: 0.2, eventsMax: 2 };

export class AppendQueue {
  readonly #limits: QueueLimits;
  readonly #commit: (group: QueuedAppend[]) => void;
  #waiting: QueuedAppend[] = [];
  #waitingBytes = 0;
  #flushing: Promise<void> | undefined;
  /** When the last group was written, and how many events it had. */
  #last = { ms: 0, events: 0 };
  #isClosed = false;

  /** `commit` settles every append of its group, and does not throw. */
  constructor(limits: QueueLimits, commit: (group: QueuedAppend[]) => void) {
    this.#limits = limits;
    this.#commit = commit;
  }

  add(bodies: readonly string[]): Promise<Appended> {
    return new Promise((resolve, reject) => {
      for (const [index, body] of bodies.entries()) {
        checkBody(body, index);
        refuseRotation(body);
      }
      this.#push({ bodies, sizeBytes: this.#measure(bodies), resolve, reject });
    });
  }

  /**
   * For the one event that only the log may write; `onDurable` runs before anything can sign it.
   */
  addRotation(body: string, onDurable: () => void): Promise<Appended> {
    return new Promise((resolve, reject) => {
      const settle = (appended: Appended): void => {
        onDurable();
        resolve(appended);
      };
      this.#push({ bodies: [body], sizeBytes: this.#measure([body]), resolve: settle, reject });
    });
  }

  /** Takes nothing more, and waits for what was taken. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#flushing;
  }

  #push(waiting: QueuedAppend): void {
    if (this.#isClosed) throw fault('stopping', 'the audit log is closed');
    const total = this.#waitingBytes + waiting.sizeBytes;
    if (this.#waiting.length > 0 && total > this.#limits.queueBytesMax) {
      throw fault('overloaded', `${this.#waitingBytes} bytes of events wait to be written`);
    }
    this.#waiting.push(waiting);
    this.#waitingBytes = total;
    this.#flushing ??= this.#flush();
  }

  #measure(bodies: readonly string[]): number {
    const { lineBytesMax } = this.#limits;
    let sizeBytes = 0;
    for (const [index, body] of bodies.entries()) {
      const bytes = Buffer.byteLength(body);
      if (bytes > lineBytesMax) {
        const message = `event ${index} has ${bytes} bytes, more than ${lineBytesMax}`;
        throw fault('too_large', message, { details: { index } });
      }
      sizeBytes += bytes;
    }
    return sizeBytes;
  }

  /**
   * One group per turn of the event loop: all that came in meanwhile shares one write and one sync.
   * After a pause there is nobody to share with, and the first need not wait for the turn to end.
   */
  async #flush(): Promise<void> {
    while (this.#waiting.length > 0) {
      const pauseMs = performance.now() - this.#last.ms;
      const isAlone = pauseMs > ALONE.pauseMs && this.#last.events <= ALONE.eventsMax;
      await (isAlone ? undefined : new Promise<void>((resolve) => setImmediate(resolve)));
      const group = this.#takeGroup();
      const events = group.reduce((sum, { bodies }) => sum + bodies.length, 0);
      this.#commit(group);
      this.#last = { ms: performance.now(), events };
    }
    this.#flushing = undefined;
  }

  #takeGroup(): QueuedAppend[] {
    let count = 0;
    let bytes = 0;
    while (count < this.#waiting.length && bytes < GROUP_BYTES_MAX) {
      bytes += this.#waiting[count]!.sizeBytes;
      count += 1;
    }
    this.#waitingBytes -= bytes;
    return this.#waiting.splice(0, count);
  }
}

function checkBody(body: string, index: number): void {
  if (body.startsWith('{"') && body.endsWith('}') && !body.includes('\n')) return;
  const message = `event ${index} of this append is not one line with a JSON object in it`;
  throw fault('bad_request', message, { details: { index } });
}

/** The lines of a group after one spare byte, which hashing in place needs. */
export function encodeGroup(group: readonly QueuedAppend[], firstSeq: number): Buffer {
  let seq = firstSeq;
  let text = '\n';
  for (const { bodies } of group) {
    for (const body of bodies) {
      text += `{"seq":${seq},${body.slice(1)}\n`;
      seq += 1;
    }
  }
  return Buffer.from(text);
}
