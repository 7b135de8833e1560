// How a command ended, as callers of sandboxd see it.
import { fault } from '../../wire/errors.ts';
import type { CommandEnd } from '../../wire/sandboxd.ts';
import type { CommandExit } from './adapters/warden.ts';

export const wardenGoneFault = () =>
  fault('unavailable', 'the warden died while the command ran, and ended it');

export function toCommandEnd(exit: Exclude<CommandExit, 'gone'>): CommandEnd {
  return {
    exit_code: exit.exitCode,
    signal: exit.signal,
    ended_by: exit.endedBy,
    ...(exit.note === undefined ? {} : { note: exit.note }),
    usage: {
      wall_ms: exit.wallMs,
      cpu_ms: exit.cpuMs,
      memory_peak_bytes: exit.memoryPeakBytes,
      stdout_bytes: exit.stdoutBytes,
      stderr_bytes: exit.stderrBytes,
    },
  };
}
