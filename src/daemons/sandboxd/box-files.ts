// File access to a box through the boxfs process in it, which is started at the first request and
// restarted when it is gone.
import { Duplex } from 'node:stream';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { FileRequestInput, FileResponseTo } from '../../wire/sandboxd/files.ts';
import type { BoxRules } from '../../wire/sandboxd.ts';
import { type BoxfsClient, type BoxfsRoot, boxfsArgs, openBoxfs } from './adapters/boxfs-client.ts';
import { TOOL_BIN } from './adapters/host-paths.ts';
import type { Bind } from './adapters/plan.ts';
import type { SandboxCommand } from './adapters/warden.ts';
import { WORKSPACE } from './rules.ts';

export const BOXFS = `${TOOL_BIN}/boxfs`;

export type BoxFileService = {
  perform<R extends FileRequestInput>(request: R): Promise<FileResponseTo<R>>;
  close(): void;
};

export function makeBoxFiles(options: {
  roots: readonly BoxfsRoot[];
  /** Runs a program in the box. */
  run: (argv: string[]) => Promise<SandboxCommand>;
  clock: Clock;
  log: Log;
}): BoxFileService {
  const { roots, clock, log } = options;
  let open: Promise<BoxfsClient> | undefined;

  const start = async (): Promise<BoxfsClient> => {
    const command = await options.run([BOXFS, ...boxfsArgs(roots)]);
    const client = await openBoxfs({ stream: toDuplex(command, log), roots, clock });
    void client.ended.then(() => {
      open = undefined;
      command.kill();
    });
    return client;
  };

  return {
    async perform(request) {
      open ??= start();
      const starting = open;
      starting.catch(() => {
        if (open === starting) open = undefined;
      });
      return (await starting).perform(request);
    },
    close() {
      open?.then(
        (client) => client.close(),
        () => undefined,
      );
    },
  };
}

/** Joins a command's stdin and stdout into one stream; stderr goes to the log. */
export function toDuplex(command: SandboxCommand, log: Log): Duplex {
  const pieces = command.readOutput()[Symbol.asyncIterator]();
  let reading = false;
  const pull = async (): Promise<void> => {
    if (reading) return;
    reading = true;
    try {
      for (;;) {
        const next = await pieces.next();
        if (next.done === true) return void stream.push(null);
        const { stream: from, bytes } = next.value;
        if (from === 'stderr') log.warn('boxfs wrote to stderr', { stderr: bytes.toString() });
        else if (!stream.push(bytes)) return;
      }
    } finally {
      reading = false;
    }
  };
  const stream: Duplex = new Duplex({
    read: () => void pull(),
    write(bytes: Buffer, _encoding, done) {
      command.stdin(bytes).then(() => done(), done);
    },
    final(done) {
      command.stdinEnd();
      done();
    },
    destroy(error, done) {
      command.kill();
      done(error);
    },
  });
  return stream;
}

/** Returns the declared paths that exist, as roots for file requests, workspace first. */
export function toBoxfsRoots(binds: readonly Bind[], rules: BoxRules): BoxfsRoot[] {
  const declared = new Set([...rules.read, ...rules.write]);
  const roots = binds.flatMap(({ kind, dst, readonly }): BoxfsRoot[] => {
    const isShown = kind === 'ro' || kind === 'rw' || kind === 'layer';
    if (!isShown || !declared.has(dst)) return [];
    return [{ path: dst, writable: kind !== 'ro' && readonly !== true }];
  });
  const isWorkspace = ({ path }: BoxfsRoot) => (path === WORKSPACE ? 0 : 1);
  return roots.toSorted((a, b) => isWorkspace(a) - isWorkspace(b));
}

/** Estimates the bytes that a file request may add. */
export const estimateBytes = (request: FileRequestInput): number =>
  request.op === 'write' ? Buffer.byteLength(request.content) : 4_096;
