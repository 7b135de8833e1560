// Queues appends up to a size limit and commits them in groups; log.ts writes a group.
import { Gate, type Hold } from '../../../platform/holds.ts';
import { fault } from '../../../wire/errors.ts';
import { refuseRotation } from './rotation.ts';

export type AppendResult = { firstSeq: number; size: number };
export type QueuedAppend = {
  bodies: readonly string[];
  sizeBytes: number;
  resolve: (appended: AppendResult) => void;
  reject: (problem: unknown) => void;
};
type QueueLimits = { lineBytesMax: number; queueBytesMax: number };

/** Bounds a group, so that a flood does not block the event loop for long. */
const GROUP_BYTES_MAX = 4 << 20;
/** After such a pause and a group no larger than one call adds, no other append is expected. */
const IDLE = { pauseMs: 0.2, eventsMax: 2 };

export class AppendQueue {
  readonly #limits: QueueLimits;
  readonly #commit: (group: QueuedAppend[]) => void;
  #queued: QueuedAppend[] = [];
  #queuedBytes = 0;
  #flushing: Promise<void> | undefined;
  /** When the last group was written, and how many events it had. */
  #last = { ms: 0, events: 0 };
  #isClosed = false;
  readonly #gate = new Gate();

  /** `commit` settles every append of its group, and does not throw. */
  constructor(limits: QueueLimits, commit: (group: QueuedAppend[]) => void) {
    this.#limits = limits;
    this.#commit = commit;
  }

  add(bodies: readonly string[]): Promise<AppendResult> {
    return new Promise((resolve, reject) => {
      for (const [index, body] of bodies.entries()) {
        checkBody(body, index);
        refuseRotation(body);
      }
      this.#push({ bodies, sizeBytes: this.#measure(bodies), resolve, reject });
    });
  }

  /** Adds the one event only the log may write; `onDurable` runs before it can be signed. */
  addRotation(body: string, onDurable: () => void): Promise<AppendResult> {
    return new Promise((resolve, reject) => {
      const settle = (appended: AppendResult): void => {
        onDurable();
        resolve(appended);
      };
      this.#push({ bodies: [body], sizeBytes: this.#measure([body]), resolve: settle, reject });
    });
  }

  /** Lets appends wait, and none be committed, until the hold is released. */
  hold(): Hold {
    return this.#gate.close();
  }

  /** Refuses new appends. Resolves when the queued ones are written. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#flushing;
  }

  #push(append: QueuedAppend): void {
    if (this.#isClosed) throw fault('stopping', 'the audit log is closed');
    const total = this.#queuedBytes + append.sizeBytes;
    if (this.#queued.length > 0 && total > this.#limits.queueBytesMax) {
      throw fault('overloaded', `${this.#queuedBytes} bytes of events are queued`);
    }
    this.#queued.push(append);
    this.#queuedBytes = total;
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
   * Commits one group per tick, so that appends of the same tick share one write and one sync. When
   * idle there is nothing to share, so the first append does not wait for the tick to end.
   */
  async #flush(): Promise<void> {
    while (this.#queued.length > 0) {
      const pauseMs = performance.now() - this.#last.ms;
      const isIdle = pauseMs > IDLE.pauseMs && this.#last.events <= IDLE.eventsMax;
      await (isIdle ? undefined : new Promise<void>((resolve) => setImmediate(resolve)));
      while (this.#gate.isClosed) await this.#gate.whenOpen();
      const group = this.#removeGroup();
      const events = group.reduce((sum, { bodies }) => sum + bodies.length, 0);
      this.#commit(group);
      this.#last = { ms: performance.now(), events };
    }
    this.#flushing = undefined;
  }

  #removeGroup(): QueuedAppend[] {
    let count = 0;
    let bytes = 0;
    while (count < this.#queued.length && bytes < GROUP_BYTES_MAX) {
      bytes += this.#queued[count]!.sizeBytes;
      count += 1;
    }
    this.#queuedBytes -= bytes;
    return this.#queued.splice(0, count);
  }
}

function checkBody(body: string, index: number): void {
  if (body.startsWith('{"') && body.endsWith('}') && !body.includes('\n')) return;
  const message = `event ${index} of this append is not a JSON object on one line`;
  throw fault('bad_request', message, { details: { index } });
}

/** Encodes a group's lines after one spare byte, which hashing in place needs. */
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
