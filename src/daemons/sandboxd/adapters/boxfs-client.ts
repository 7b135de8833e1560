// Asks the boxfs of one box: many requests at once over one stream, each with its own time. What it
// does with files is in native/boxfs; starting it in the box is left to others.
import type { Duplex } from 'node:stream';
import type { Clock, Timer } from '../../../platform/clock.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import {
  type AnswerTo,
  type FileAnswer,
  type FileAsk,
  FileRequest,
} from '../../../wire/sandboxd/files.ts';
import { faultOfStatus } from './boxfs-faults.ts';
import {
  decodeAnswer,
  decodeHead,
  encodeHello,
  encodeRequest,
  Fields,
  type FrameHeader,
  HEAD_BYTES,
  type PlacedField,
} from './boxfs-wire.ts';

/** A part of the box's tree that boxfs may touch. The first that is writable is the workspace. */
export type BoxfsRoot = { path: string; writable: boolean };

export type BoxfsClient = {
  perform<R extends FileAsk>(request: R): Promise<AnswerTo<R>>;
  /** Resolves when no more can be asked, with why. */
  ended: Promise<Fault>;
  close(): void;
};

export type BoxfsOptions = {
  /** boxfs's stdin and stdout. */
  stream: Duplex;
  /** As given to boxfs by `boxfsArgs`, in the same order. */
  roots: readonly BoxfsRoot[];
  clock: Clock;
  inFlightMax?: number;
  timeoutMs?: number;
};

/** What follows the program's name. */
export function boxfsArgs(roots: readonly BoxfsRoot[]): string[] {
  return roots.flatMap(({ path, writable }) => [writable ? '--write' : '--read', path]);
}

/** The innermost root that holds the path. */
export function placeOf(path: string, roots: readonly BoxfsRoot[]): PlacedField | undefined {
  let best: PlacedField | undefined;
  let length = -1;
  roots.forEach(({ path: top }, root) => {
    const prefix = top.endsWith('/') ? top : `${top}/`;
    if (top.length <= length || !(path === top || path.startsWith(prefix))) return;
    best = { root, path: path.slice(prefix.length) };
    length = top.length;
  });
  return best;
}

type Pending = {
  take(head: FrameHeader, payload: Buffer): void;
  fail(error: Fault): void;
  timer: Timer;
};

export async function openBoxfs(options: BoxfsOptions): Promise<BoxfsClient> {
  const { stream, roots, clock, inFlightMax = 64, timeoutMs = 15_000 } = options;
  const pending = new Map<number, Pending>();
  const ended = Promise.withResolvers<Fault>();
  let lastId = 0;
  let over: Fault | undefined;

  const end = (why: Fault): void => {
    if (over !== undefined) return;
    over = why;
    stream.destroy();
    for (const one of pending.values()) {
      one.timer.cancel();
      one.fail(why);
    }
    pending.clear();
    ended.resolve(why);
  };

  /** Sends one frame and gives its answer to `read`; an error of `read` is the request's own. */
  const send = <T>(
    encode: (id: number) => Buffer,
    read: (head: FrameHeader, fields: Fields) => T,
    what: { waitMs: number; name: string },
  ): Promise<T> =>
    new Promise((resolve, reject) => {
      if (over !== undefined) return reject(over);
      if (pending.size >= inFlightMax)
        return reject(fault('overloaded', `${inFlightMax} file requests of this box are open`));
      lastId = (lastId % 0xffff_fffe) + 1;
      const id = lastId;
      const bytes = encode(id);
      const timer = clock.at(clock.nowMs() + what.waitMs, () => {
        pending.delete(id);
        reject(fault('deadline', `${what.name} was not answered within ${what.waitMs} ms`));
      });
      pending.set(id, {
        timer,
        fail: reject,
        take(head, payload) {
          try {
            resolve(read(head, new Fields(payload)));
          } catch (error) {
            reject(error);
          }
        },
      });
      stream.write(bytes);
    });

  const deliver = (head: FrameHeader, payload: Buffer): void => {
    const one = pending.get(head.id);
    // An answer that nobody waits for any more came too late.
    if (one === undefined) return;
    pending.delete(head.id);
    one.timer.cancel();
    one.take(head, payload);
  };

  stream.on('data', makeSplitter(deliver, end));
  stream.on('error', (cause) => end(lost('its stream broke', cause)));
  stream.on('close', () => end(lost('its stream closed')));
  stream.on('end', () => end(lost('it ended')));

  await send(
    encodeHello,
    (head, fields) => {
      const [version, count] = [fields.u16(), fields.u16()];
      if (head.status !== 0 || version !== 1 || count !== roots.length)
        throw fault('bad_output', 'boxfs did not start with the roots it was to have');
    },
    { waitMs: timeoutMs, name: 'the start of boxfs' },
  ).catch((error: Fault) => {
    end(error);
    throw error;
  });

  return {
    async perform<R extends FileAsk>(asked: R): Promise<AnswerTo<R>> {
      const request = FileRequest.parse(asked);
      const place = placeOf(request.path, roots);
      if (place === undefined) throw outside(request.path, roots);
      const extraMs = 'limit_ms' in request ? request.limit_ms : 0;
      const answer = await send<FileAnswer>(
        (id) => encodeRequest(id, request, place),
        (head, fields) => {
          if (head.status !== 0) throw faultOfStatus(head.status, request.path, fields.text());
          return decodeAnswer(request, fields);
        },
        { waitMs: timeoutMs + extraMs, name: `${request.op} of ${request.path}` },
      );
      return answer as AnswerTo<R>;
    },
    ended: ended.promise,
    close: () => end(fault('stopping', 'the box was closed')),
  };
}

function lost(how: string, cause?: unknown): Fault {
  return fault('unavailable', `the file service of the box has gone: ${how}`, { cause });
}

function outside(path: string, roots: readonly BoxfsRoot[]): Fault {
  return fault('denied', `${path} is not among the paths of this agent`, {
    hint: `Use a path in one of: ${roots.map((root) => root.path).join(', ')}.`,
    details: { reason: 'outside' },
  });
}

/** Cuts what arrives into frames, keeping parts as they came: a large frame is copied once. */
function makeSplitter(
  deliver: (head: FrameHeader, payload: Buffer) => void,
  end: (why: Fault) => void,
) {
  let parts: Buffer[] = [];
  let held = 0;
  let head: FrameHeader | undefined;
  const take = (count: number): Buffer => {
    const all = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
    parts = all.length > count ? [all.subarray(count)] : [];
    held = all.length - count;
    return all.subarray(0, count);
  };
  return (bytes: Buffer): void => {
    parts.push(bytes);
    held += bytes.length;
    try {
      for (;;) {
        if (head === undefined) {
          if (held < HEAD_BYTES) return;
          head = decodeHead(take(HEAD_BYTES));
        }
        if (held < head.length) return;
        const whole = head;
        head = undefined;
        deliver(whole, take(whole.length));
      }
    } catch (error) {
      end(error as Fault);
    }
  };
}
