// Checks the files of running commands at an interval, and ends a command that violates a limit.
import type { SandboxCommand } from './adapters/warden.ts';

export const CHECK_INTERVAL_MS = 100;

/** Returns why the command must end; undefined: it may continue. Must not throw. */
type Check = () => string | undefined | Promise<string | undefined>;

/** Returns the command, which is ended by `disk` when its check says so. */
type DiskGuard = (command: SandboxCommand, check: Check) => SandboxCommand;

/** One timer for all commands, while there are any. */
export function makeDiskGuard(): DiskGuard {
  const checks = new Set<() => Promise<void>>();
  let timer: NodeJS.Timeout | undefined;

  return (command, check) => {
    let note: string | undefined;
    let isChecking = false;
    const checkOnce = async (): Promise<void> => {
      if (isChecking || note !== undefined) return;
      isChecking = true;
      note = await check();
      isChecking = false;
      if (note !== undefined) command.kill();
    };
    checks.add(checkOnce);
    timer ??= setInterval(() => {
      for (const next of checks) void next();
    }, CHECK_INTERVAL_MS).unref();
    const ended = command.ended.then((exit) => {
      checks.delete(checkOnce);
      if (checks.size === 0) {
        clearInterval(timer);
        timer = undefined;
      }
      return note === undefined || exit === 'gone'
        ? exit
        : { ...exit, endedBy: 'disk' as const, note };
    });
    return { ...command, ended };
  };
}
