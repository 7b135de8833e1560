// Client of one box's boxfs (native/boxfs): concurrent requests over one stream, each with its own
// timeout.
import type { Duplex } from 'node:stream';
import type { Clock, Timer } from '../../../platform/clock.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import {
  type FileAnswer,
  FileRequest,
  type FileRequestInput,
  type FileResponseTo,
} from '../../../wire/sandboxd/files.ts';
import { statusFault } from './boxfs-faults.ts';
import { type BoxfsLayers, makeBoxfsLayers, type SendFrame } from './boxfs-layers.ts';
import { type BoxfsWatch, makeBoxfsWatch } from './boxfs-watch.ts';
import {
  decodeHeader,
  decodeResponse,
  encodeHello,
  encodeRequest,
  Fields,
  type FrameHeader,
  HEADER_BYTES,
  type RootedPath,
} from './boxfs-wire.ts';

/** A part of the box's tree that boxfs may access. The first writable one is the workspace. */
export type BoxfsRoot = { path: string; writable: boolean };

export type BoxfsClient = BoxfsLayers &
  BoxfsWatch & {
    perform<R extends FileRequestInput>(request: R): Promise<FileResponseTo<R>>;
    /** The same with a path that boxfs has listed. */
    performExactly<R extends FileRequestInput>(request: R): Promise<FileResponseTo<R>>;
    /** Resolves with the reason when no more requests are possible. */
    ended: Promise<Fault>;
    close(): void;
  };

export type BoxfsOptions = {
  stream: Duplex;
  /** As passed to boxfs by `boxfsArgs`, in the same order. */
  roots: readonly BoxfsRoot[];
  clock: Clock;
  inFlightMax?: number;
  timeoutMs?: number;
};

/** Returns the arguments of the boxfs program. */
export function boxfsArgs(roots: readonly BoxfsRoot[]): string[] {
  return roots.flatMap(({ path, writable }) => [writable ? '--write' : '--read', path]);
}

/** Finds the innermost root that contains the path. */
export function locateInRoots(path: string, roots: readonly BoxfsRoot[]): RootedPath | undefined {
  let best: RootedPath | undefined;
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
  receive(head: FrameHeader, payload: Buffer): void;
  fail(error: Fault): void;
  timer: Timer;
};

export async function openBoxfs(options: BoxfsOptions): Promise<BoxfsClient> {
  const { stream, roots, clock, inFlightMax = 64, timeoutMs = 15_000 } = options;
  const pending = new Map<number, Pending>();
  const ended = Promise.withResolvers<Fault>();
  let lastId = 0;
  let endFault: Fault | undefined;

  const end = (why: Fault): void => {
    if (endFault !== undefined) return;
    endFault = why;
    stream.destroy();
    for (const call of pending.values()) {
      call.timer.cancel();
      call.fail(why);
    }
    pending.clear();
    ended.resolve(why);
  };

  /** Sends one frame and passes its response to `read`, whose errors reject the request. */
  const send: SendFrame = (encode, read, what) =>
    new Promise((resolve, reject) => {
      if (endFault !== undefined) return reject(endFault);
      if (pending.size >= inFlightMax)
        return reject(fault('overloaded', `${inFlightMax} file requests of this box are open`));
      lastId = (lastId % 0xffff_fffe) + 1;
      const id = lastId;
      const bytes = encode(id);
      const timer = clock.at(clock.nowMs() + what.waitMs, () => {
        pending.delete(id);
        reject(fault('deadline', `${what.name} timed out after ${what.waitMs} ms`));
      });
      pending.set(id, {
        timer,
        fail: reject,
        receive(head, payload) {
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
    const call = pending.get(head.id);
    // The request has already timed out.
    if (call === undefined) return;
    pending.delete(head.id);
    call.timer.cancel();
    call.receive(head, payload);
  };

  stream.on('data', makeSplitter(deliver, end));
  stream.on('error', (cause) => end(goneFault('its stream broke', cause)));
  stream.on('close', () => end(goneFault('its stream closed')));
  stream.on('end', () => end(goneFault('it ended')));

  await send(
    encodeHello,
    (head, fields) => {
      const [version, count] = [fields.u16(), fields.u16()];
      if (head.status !== 0 || version !== 1 || count !== roots.length)
        throw fault('bad_output', 'boxfs started with other roots than requested');
    },
    { waitMs: timeoutMs, name: 'the start of boxfs' },
  ).catch((error: Fault) => {
    end(error);
    throw error;
  });

  const locate = (path: string): RootedPath => {
    const location = locateInRoots(path, roots);
    if (location === undefined) throw outsideFault(path, roots);
    return location;
  };

  const perform = async <R extends FileRequestInput>(
    input: R,
    isLossless: boolean,
  ): Promise<FileResponseTo<R>> => {
    const request = FileRequest.parse(input);
    const location = { ...locate(request.path), isLossless };
    const extraMs = 'limit_ms' in request ? request.limit_ms : 0;
    const response = await send<FileAnswer>(
      (id) => encodeRequest(id, request, location),
      (head, fields) => {
        if (head.status !== 0) throw statusFault(head.status, request.path, fields.text());
        return decodeResponse(request, fields);
      },
      { waitMs: timeoutMs + extraMs, name: `${request.op} of ${request.path}` },
    );
    return response as FileResponseTo<R>;
  };

  return {
    ...makeBoxfsLayers({ send, locate }),
    ...makeBoxfsWatch({ send, locate }),
    perform: (request) => perform(request, false),
    performExactly: (request) => perform(request, true),
    ended: ended.promise,
    close: () => end(fault('stopping', 'the box was closed')),
  };
}

function goneFault(how: string, cause?: unknown): Fault {
  return fault('unavailable', `the box's file service is gone: ${how}`, { cause });
}

function outsideFault(path: string, roots: readonly BoxfsRoot[]): Fault {
  return fault('denied', `${path} is not among the paths of this agent`, {
    hint: `Use a path in one of: ${roots.map((root) => root.path).join(', ')}.`,
    details: { reason: 'outside' },
  });
}

/** Splits received bytes into frames; parts are joined late, so a large frame is copied once. */
function makeSplitter(
  deliver: (head: FrameHeader, payload: Buffer) => void,
  end: (why: Fault) => void,
) {
  let parts: Buffer[] = [];
  let buffered = 0;
  let head: FrameHeader | undefined;
  const consume = (count: number): Buffer => {
    const all = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
    parts = all.length > count ? [all.subarray(count)] : [];
    buffered = all.length - count;
    return all.subarray(0, count);
  };
  return (bytes: Buffer): void => {
    parts.push(bytes);
    buffered += bytes.length;
    try {
      for (;;) {
        if (head === undefined) {
          if (buffered < HEADER_BYTES) return;
          head = decodeHeader(consume(HEADER_BYTES));
        }
        if (buffered < head.length) return;
        const whole = head;
        head = undefined;
        deliver(whole, consume(whole.length));
      }
    } catch (error) {
      end(error as Fault);
    }
  };
}
