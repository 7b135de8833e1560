// Client of the warden: starts commands, opens boxes, and queries features. It reuses connections,
// and maps refusals to faults.
import { type Fault, fault } from '../../../wire/errors.ts';
import {
  type BoxCommand,
  type BoxPlan,
  type DirectoryOwner,
  encodeBoxCommand,
  encodeBoxPlan,
  encodeChown,
  encodeDelete,
  encodeGrant,
  encodeLayer,
  encodeMeasure,
  encodeNewest,
  encodePlan,
  type LayerRequest,
  type TerminalSize,
  type WardenPlan,
} from './plan.ts';
import {
  type ProcessExit,
  REQUEST,
  WardenConnection,
  type WardenRefusal,
} from './warden-connection.ts';

export type OutputChunk = { stream: 'stdout' | 'stderr'; bytes: Buffer };
/** `gone`: the warden died, so how it ended is unknown. `note`: a remark for the caller. */
export type CommandExit = (ProcessExit & { note?: string }) | 'gone';

/**
 * A command on a terminal was stopped by this signal, as by Ctrl-Z: it continues with SIGCONT.
 * Without a listener it continues at once.
 */
export type OnStopped = (signal: number) => void;

export type SandboxCommand = {
  /** 0 when it ended before it started. */
  pid: number;
  /** Its output, with backpressure. A caller that does not read it must call `discard`. */
  readOutput(): AsyncIterable<OutputChunk>;
  discard(): void;
  stdin(bytes: Buffer): Promise<void>;
  /** On a terminal this types Ctrl-D, if the command reads lines. */
  stdinEnd(): void;
  /** SIGTERM, SIGINT, SIGHUP or SIGCONT. */
  signal(number: number): void;
  /** A new size of its terminal. */
  resize(size: TerminalSize): void;
  kill(): void;
  ended: Promise<CommandExit>;
};

export type OpenedBox = {
  pid: number;
  exec(command: Omit<BoxCommand, 'box'>, onStopped?: OnStopped): Promise<SandboxCommand>;
  close(): Promise<void>;
  ended: Promise<CommandExit>;
};

/** A directory whose changes by boxes stay in a directory of ours. */
export type OpenedLayer = {
  /** For binds of kind `layer`. */
  handle: bigint;
  /** No box can start using it any more. Resolves when none does. */
  close(): Promise<void>;
  ended: Promise<'closed' | 'gone'>;
};

export type Warden = {
  features(): Promise<Map<string, string>>;
  start(plan: WardenPlan, onStopped?: OnStopped): Promise<SandboxCommand>;
  open(plan: BoxPlan): Promise<OpenedBox>;
  layer(request: LayerRequest): Promise<OpenedLayer>;
  /** Changes owners, which needs root. Resolves to the number of files left unchanged. */
  chown(owned: DirectoryOwner): Promise<number>;
  /**
   * Measures a directory: bytes on disk, and entries, each of which takes space too. With a gid,
   * only entries of that group are counted, the directory included, and mounts below it.
   */
  measure(path: string, gid?: number): Promise<{ bytes: number; entries: number }>;
  /**
   * The newest time of change of a directory and the directories in it, in nanoseconds. Rejects for
   * more than half a million of them.
   */
  newest(path: string): Promise<bigint>;
  /**
   * Deletes a directory of STATE/workspaces or STATE/homes with everything in it. Resolves to what
   * that freed; nothing for one that does not exist.
   */
  deleteTree(path: string): Promise<{ bytes: number; entries: number }>;
  /** Throws `denied` unless a person's grant allows boxes to use this path. */
  assertGranted(path: string): Promise<void>;
  /** Removes the grants of exactly this path. Resolves to how many there were. */
  revokeGrant(path: string): Promise<number>;
  close(): void;
};

const SIGCONT = 18;
const IDLE_MAX = 16;
const BUFFERED_BYTES_MAX = 256 * 1024;

export function makeWarden(socketPath: string): Warden {
  const idle: WardenConnection[] = [];
  const live = new Set<WardenConnection>();

  const acquire = async (): Promise<WardenConnection> => {
    for (let found = idle.pop(); found !== undefined; found = idle.pop())
      if (!found.closed) return found;
    const connection = await WardenConnection.open(socketPath);
    live.add(connection);
    return connection;
  };
  const release = (connection: WardenConnection): void => {
    connection.resume();
    if (!connection.closed && idle.length < IDLE_MAX) idle.push(connection);
    else {
      live.delete(connection);
      connection.destroy();
    }
  };

  /** Resolves when the command runs. */
  const begin = async (
    type: number,
    body: Buffer,
    onStopped: OnStopped | undefined,
  ): Promise<SandboxCommand> => {
    const connection = await acquire();
    const pieces = makeOutputBuffer(connection);
    const ended = Promise.withResolvers<CommandExit>();
    const started = Promise.withResolvers<number>();
    // After the end, the connection may serve another command.
    let isOver = false;
    const whileRunning = (work: () => void): void => {
      if (!isOver) work();
    };
    const end = (exit: CommandExit): void => {
      isOver = true;
      pieces.end();
      ended.resolve(exit);
    };
    connection.request(type, body, {
      started: started.resolve,
      output: (stream, bytes) => pieces.add({ stream, bytes }),
      stopped: onStopped ?? (() => connection.signal(SIGCONT)),
      exit(exit) {
        // Ended by a limit or a halt before it started.
        started.resolve(0);
        end(exit);
        release(connection);
      },
      refused(refusal) {
        isOver = true;
        started.reject(refusalFault(refusal));
        release(connection);
      },
      gone() {
        live.delete(connection);
        started.reject(wardenGoneFault());
        end('gone');
      },
    });
    const pid = await started.promise;
    return {
      pid,
      readOutput: pieces.read,
      discard: pieces.discard,
      stdin: (bytes) => (isOver ? Promise.resolve() : connection.stdin(bytes)),
      stdinEnd: () => whileRunning(() => connection.stdinEnd()),
      signal: (number) => whileRunning(() => connection.signal(number)),
      resize: (size) => whileRunning(() => connection.resize(size)),
      kill: () => whileRunning(() => connection.kill()),
      ended: ended.promise,
    };
  };

  const open = async (plan: BoxPlan): Promise<OpenedBox> => {
    // A box has its own connection, and ends with it.
    const connection = await WardenConnection.open(socketPath);
    live.add(connection);
    const ended = Promise.withResolvers<CommandExit>();
    const opened = Promise.withResolvers<bigint>();
    let pid = 0;
    const over = (exit: CommandExit): void => {
      live.delete(connection);
      opened.reject(wardenGoneFault());
      ended.resolve(exit);
      connection.destroy();
    };
    connection.request(REQUEST.open, encodeBoxPlan(plan), {
      started: (number) => {
        pid = number;
      },
      opened: opened.resolve,
      output: () => undefined,
      exit: over,
      refused(refusal) {
        opened.reject(refusalFault(refusal));
        over('gone');
      },
      gone: () => over('gone'),
    });
    const box = await opened.promise;
    return {
      pid,
      exec: (command, onStopped) =>
        begin(REQUEST.exec, encodeBoxCommand({ ...command, box }), onStopped),
      async close() {
        connection.closeOpened();
        await ended.promise;
      },
      ended: ended.promise,
    };
  };

  const layer = async (request: LayerRequest): Promise<OpenedLayer> => {
    // A layer has its own connection, and is closed with it.
    const connection = await WardenConnection.open(socketPath);
    live.add(connection);
    const ended = Promise.withResolvers<'closed' | 'gone'>();
    const opened = Promise.withResolvers<bigint>();
    const over = (how: 'closed' | 'gone', reason: Fault): void => {
      live.delete(connection);
      opened.reject(reason);
      ended.resolve(how);
      connection.destroy();
    };
    const ignore = (): void => undefined;
    connection.request(REQUEST.layer, encodeLayer(request), {
      started: ignore,
      output: ignore,
      exit: ignore,
      layerOpened: opened.resolve,
      layerClosed: () => over('closed', wardenGoneFault()),
      refused: (refusal) => over('gone', refusalFault(refusal)),
      gone: () => over('gone', wardenGoneFault()),
    });
    const handle = await opened.promise;
    return {
      handle,
      async close() {
        connection.closeOpened();
        await ended.promise;
      },
      ended: ended.promise,
    };
  };

  const requestDirectory = async <T>(
    body: Buffer,
    reply: 'directoryDone' | 'measured' | 'newest',
  ): Promise<T> => {
    const connection = await acquire();
    const done = Promise.withResolvers<T>();
    const ignore = (): void => undefined;
    connection.request(REQUEST.directory, body, {
      started: ignore,
      output: ignore,
      exit: ignore,
      [reply]: done.resolve,
      refused: (refusal) => done.reject(refusalFault(refusal)),
      gone: () => done.reject(wardenGoneFault()),
    });
    return done.promise.finally(() => release(connection));
  };

  return {
    async features() {
      const connection = await acquire();
      const text = await connection.features();
      if (text === '') throw wardenGoneFault();
      release(connection);
      const lines = text.split('\n').filter((line) => line !== '');
      return new Map(
        lines.map((line) => {
          const [name = '', ...rest] = line.split(' ');
          return [name, rest.join(' ')];
        }),
      );
    },
    start: (plan, onStopped) => begin(REQUEST.plan, encodePlan(plan), onStopped),
    open,
    layer,
    chown: (owned) => requestDirectory(encodeChown(owned), 'directoryDone'),
    measure: (path, gid = 0) => requestDirectory(encodeMeasure(path, gid), 'measured'),
    newest: (path) => requestDirectory(encodeNewest(path), 'newest'),
    deleteTree: (path) => requestDirectory(encodeDelete(path), 'measured'),
    assertGranted: (path) => requestDirectory(encodeGrant('isGranted', path), 'directoryDone'),
    revokeGrant: (path) => requestDirectory(encodeGrant('revoke', path), 'directoryDone'),
    close() {
      for (const connection of live) connection.destroy();
    },
  };
}

const wardenGoneFault = (): Fault =>
  fault('unavailable', 'the warden, which starts every sandbox, is gone and will be restarted', {
    retryAfterMs: 500,
  });

/** Buffers unread output; past a bound, it pauses the connection. */
function makeOutputBuffer(connection: WardenConnection) {
  const buffered: OutputChunk[] = [];
  let bytes = 0;
  let ended = false;
  let discarding = false;
  let wake = (): void => {};
  const read = async function* (): AsyncGenerator<OutputChunk> {
    for (;;) {
      const piece = buffered.shift();
      if (piece !== undefined) {
        bytes -= piece.bytes.length;
        if (bytes < BUFFERED_BYTES_MAX && !ended) connection.resume();
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
      buffered.push({ ...piece, bytes: Buffer.from(piece.bytes) });
      bytes += piece.bytes.length;
      if (bytes >= BUFFERED_BYTES_MAX) connection.pause();
      wake();
    },
    end(): void {
      ended = true;
      wake();
    },
    discard(): void {
      discarding = true;
      buffered.length = 0;
      bytes = 0;
      if (!ended) connection.resume();
    },
  };
}

const FAULT_CODES = {
  bounds: 'denied',
  host: 'level_unavailable',
  overlay: 'level_unavailable',
  halt: 'halted',
  overload: 'overloaded',
  exec: 'bad_request',
  box: 'unavailable',
} as const;

function refusalFault({ code, message, hint }: WardenRefusal): Fault {
  const known = FAULT_CODES[code as keyof typeof FAULT_CODES] ?? 'sandbox_refused';
  return fault(known, `the warden refused: ${message}`, {
    ...(hint === '' ? {} : { hint }),
    details: { refused: code },
  });
}
