// The warden as the service sees it: start a command, hold a box open, run in it, ask what the host
// gives. Connections are kept for the next command; a refusal becomes a fault here.
import { type Fault, fault } from '../../../wire/errors.ts';
import {
  type BoxCommand,
  type BoxPlan,
  encodeBoxCommand,
  encodeBoxPlan,
  encodeMeasured,
  encodeOwned,
  encodePlan,
  type Owned,
  type WardenPlan,
} from './plan.ts';
import {
  ASK,
  type ProcessExit,
  WardenConnection,
  type WardenRefusal,
} from './warden-connection.ts';

export type OutputChunk = { stream: 'stdout' | 'stderr'; bytes: Buffer };
/** `gone`: the warden died, so nobody knows how it ended, only that it did. */
/** `note`: more for whoever gave the command. */
export type CommandExit = (ProcessExit & { note?: string }) | 'gone';

export type SandboxCommand = {
  /** 0 when it ended before it had begun. */
  pid: number;
  /** What it prints, as fast as it is read. Whoever does not read it must say so: discard. */
  pieces(): AsyncIterable<OutputChunk>;
  discard(): void;
  stdin(bytes: Buffer): Promise<void>;
  stdinEnd(): void;
  signal(number: number): void;
  kill(): void;
  ended: Promise<CommandExit>;
};

export type OpenedBox = {
  pid: number;
  exec(command: Omit<BoxCommand, 'box'>): Promise<SandboxCommand>;
  close(): Promise<void>;
  ended: Promise<CommandExit>;
};

export type Warden = {
  features(): Promise<Map<string, string>>;
  start(plan: WardenPlan): Promise<SandboxCommand>;
  open(plan: BoxPlan): Promise<OpenedBox>;
  /** What only root can do. Gives how many files were left as they were. */
  own(owned: Owned): Promise<number>;
  /** How much is in a directory: bytes on the disk, and an empty file is some too. */
  measure(path: string): Promise<{ bytes: number; entries: number }>;
  close(): void;
};

const IDLE_MAX = 16;
const WAITING_BYTES_MAX = 256 * 1024;

export function makeWarden(socketPath: string): Warden {
  const idle: WardenConnection[] = [];
  const live = new Set<WardenConnection>();

  const take = async (): Promise<WardenConnection> => {
    for (let found = idle.pop(); found !== undefined; found = idle.pop())
      if (!found.closed) return found;
    const made = await WardenConnection.open(socketPath);
    live.add(made);
    return made;
  };
  const giveBack = (connection: WardenConnection): void => {
    connection.resume();
    if (!connection.closed && idle.length < IDLE_MAX) idle.push(connection);
    else {
      live.delete(connection);
      connection.destroy();
    }
  };

  /** Asks for a command and resolves when it runs. */
  const begin = async (type: number, body: Buffer): Promise<SandboxCommand> => {
    const connection = await take();
    const pieces = makePieces(connection);
    const ended = Promise.withResolvers<CommandExit>();
    const started = Promise.withResolvers<number>();
    // The connection is another's after the end: nothing may be said on it any more.
    let isOver = false;
    const whileRunning = (work: () => void): void => {
      if (!isOver) work();
    };
    const end = (exit: CommandExit): void => {
      isOver = true;
      pieces.end();
      ended.resolve(exit);
    };
    connection.ask(type, body, {
      started: started.resolve,
      output: (stream, bytes) => pieces.add({ stream, bytes }),
      exit(exit) {
        // Ended by a limit or a halt while it was still being made.
        started.resolve(0);
        end(exit);
        giveBack(connection);
      },
      refused(refusal) {
        isOver = true;
        started.reject(asFault(refusal));
        giveBack(connection);
      },
      gone() {
        live.delete(connection);
        started.reject(wardenGone());
        end('gone');
      },
    });
    const pid = await started.promise;
    return {
      pid,
      pieces: pieces.read,
      discard: pieces.discard,
      stdin: (bytes) => (isOver ? Promise.resolve() : connection.stdin(bytes)),
      stdinEnd: () => whileRunning(() => connection.stdinEnd()),
      signal: (number) => whileRunning(() => connection.signal(number)),
      kill: () => whileRunning(() => connection.kill()),
      ended: ended.promise,
    };
  };

  const open = async (plan: BoxPlan): Promise<OpenedBox> => {
    // Its own connection for as long as it lives: when it goes, the box goes.
    const connection = await WardenConnection.open(socketPath);
    live.add(connection);
    const ended = Promise.withResolvers<CommandExit>();
    const opened = Promise.withResolvers<bigint>();
    let pid = 0;
    const over = (exit: CommandExit): void => {
      live.delete(connection);
      opened.reject(wardenGone());
      ended.resolve(exit);
      connection.destroy();
    };
    connection.ask(ASK.open, encodeBoxPlan(plan), {
      started: (number) => {
        pid = number;
      },
      opened: opened.resolve,
      output: () => undefined,
      exit: over,
      refused(refusal) {
        opened.reject(asFault(refusal));
        over('gone');
      },
      gone: () => over('gone'),
    });
    const box = await opened.promise;
    return {
      pid,
      exec: (command) => begin(ASK.exec, encodeBoxCommand({ ...command, box })),
      async close() {
        connection.closeBox();
        await ended.promise;
      },
      ended: ended.promise,
    };
  };

  const own = async (owned: Owned): Promise<number> => {
    const connection = await take();
    const done = Promise.withResolvers<number>();
    const nothing = (): void => undefined;
    connection.ask(ASK.own, encodeOwned(owned), {
      started: nothing,
      output: nothing,
      exit: nothing,
      owned: done.resolve,
      refused: (refusal) => done.reject(asFault(refusal)),
      gone: () => done.reject(wardenGone()),
    });
    return done.promise.finally(() => giveBack(connection));
  };

  const measure = async (path: string): Promise<{ bytes: number; entries: number }> => {
    const connection = await take();
    const done = Promise.withResolvers<{ bytes: number; entries: number }>();
    const nothing = (): void => undefined;
    connection.ask(ASK.own, encodeMeasured(path), {
      started: nothing,
      output: nothing,
      exit: nothing,
      measured: done.resolve,
      refused: (refusal) => done.reject(asFault(refusal)),
      gone: () => done.reject(wardenGone()),
    });
    return done.promise.finally(() => giveBack(connection));
  };

  return {
    async features() {
      const connection = await take();
      const text = await connection.features();
      if (text === '') throw wardenGone();
      giveBack(connection);
      const lines = text.split('\n').filter((line) => line !== '');
      return new Map(
        lines.map((line) => {
          const [name = '', ...rest] = line.split(' ');
          return [name, rest.join(' ')];
        }),
      );
    },
    start: (plan) => begin(ASK.plan, encodePlan(plan)),
    open,
    own,
    measure,
    close() {
      for (const connection of live) connection.destroy();
    },
  };
}

const wardenGone = (): Fault =>
  fault('unavailable', 'the warden, which starts every sandbox, is gone; it is started again', {
    retryAfterMs: 500,
  });

/** What has come and was not read yet; past a bound the warden is asked to wait. */
function makePieces(connection: WardenConnection) {
  const waiting: OutputChunk[] = [];
  let bytes = 0;
  let ended = false;
  let discarding = false;
  let wake = (): void => {};
  const read = async function* (): AsyncGenerator<OutputChunk> {
    for (;;) {
      const piece = waiting.shift();
      if (piece !== undefined) {
        bytes -= piece.bytes.length;
        if (bytes < WAITING_BYTES_MAX && !ended) connection.resume();
        yield piece;
      } else if (ended) return;
      else
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    }
  };
  return {
    read,
    add(piece: OutputChunk): void {
      if (discarding) return;
      // The bytes are the connection's own buffer.
      waiting.push({ ...piece, bytes: Buffer.from(piece.bytes) });
      bytes += piece.bytes.length;
      if (bytes >= WAITING_BYTES_MAX) connection.pause();
      wake();
    },
    end(): void {
      ended = true;
      wake();
    },
    discard(): void {
      discarding = true;
      waiting.length = 0;
      bytes = 0;
      if (!ended) connection.resume();
    },
  };
}

const CODES = {
  bounds: 'denied',
  host: 'level_unavailable',
  halt: 'halted',
  overload: 'overloaded',
  exec: 'bad_request',
  box: 'unavailable',
} as const;

function asFault({ code, message, hint }: WardenRefusal): Fault {
  const known = CODES[code as keyof typeof CODES] ?? 'sandbox_refused';
  return fault(known, `the warden refused: ${message}`, {
    ...(hint === '' ? {} : { hint }),
    details: { refused: code },
  });
}
