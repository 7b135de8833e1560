// How a command ended, as callers of sandboxd see it.
import { fault } from '../../wire/errors.ts';
import type { CommandEnd } from '../../wire/sandboxd.ts';
import type { CommandExit, OpenedBox, SandboxCommand } from './adapters/warden.ts';

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

/** A command whose end is reported when this is done. */
export function endingWith(command: SandboxCommand, work: () => Promise<void>): SandboxCommand {
  return { ...command, ended: command.ended.then((exit) => work().then(() => exit)) };
}

/** A command that ended with its box reports `seal` if that ended the box. */
export function withSealReason(command: SandboxCommand, box: OpenedBox): SandboxCommand {
  const ended = command.ended.then(async (exit) => {
    if (exit === 'gone' || exit.endedBy !== 'box') return exit;
    const whole = await box.ended;
    return whole !== 'gone' && whole.endedBy === 'seal' ? { ...exit, endedBy: 'seal' } : exit;
  });
  return { ...command, ended: ended as SandboxCommand['ended'] };
}
