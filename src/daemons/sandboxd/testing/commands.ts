// Test helper: a running command that ends when the test says so, or when it is killed.
import type { CommandExit, SandboxCommand } from '../adapters/warden.ts';

export const EXIT: Exclude<CommandExit, 'gone'> = {
  endedBy: null,
  exitCode: 0,
  signal: null,
  wallMs: 1,
  cpuMs: 1,
  memoryPeakBytes: 1,
  stdoutBytes: 0,
  stderrBytes: 0,
};

export function fakeCommand(stderr = ''): {
  command: SandboxCommand;
  end(exit: CommandExit): void;
  /** The text written to its stdin. */
  sent: string[];
} {
  const { promise: ended, resolve: end } = Promise.withResolvers<CommandExit>();
  const sent: string[] = [];
  const command: SandboxCommand = {
    pid: process.pid,
    async *readOutput() {
      if (stderr !== '') yield { stream: 'stderr', bytes: Buffer.from(stderr) };
      await ended;
    },
    discard: () => undefined,
    stdin: async (bytes) => void sent.push(bytes.toString()),
    stdinEnd: () => void sent.push('end'),
    signal: () => undefined,
    resize: () => undefined,
    kill: () => end({ ...EXIT, endedBy: 'killed', exitCode: null, signal: 9 }),
    ended,
  };
  return { command, end, sent };
}
