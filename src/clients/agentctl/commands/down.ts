// agentctl down: stops the runtime and its supervisor with SIGTERM and waits until it has exited.
import { fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import { sleep } from '../follow.ts';
import { findRunning } from '../running.ts';
import { formatSpan } from '../show/amounts.ts';
import { assertReadable, isAlive } from '../state.ts';
import { readSupervisor } from '../supervisor.ts';

const STOP_TIMEOUT_MS = 20_000;

export async function down({ out, stateDir }: Session): Promise<void> {
  const running = await findRunning(stateDir);
  const supervisor = readSupervisor(stateDir);
  const isSupervised = supervisor?.isAlive === true;
  if (running === undefined && !isSupervised) {
    assertReadable(stateDir);
    return out.print({ down: { was_running: false } }, () => [
      `No runtime is running on ${stateDir}.`,
    ]);
  }
  // The supervisor stops the runtime and does not restart it; a signal to the runtime alone might
  // come after its death.
  const pids = [isSupervised ? supervisor.pid : [], running?.info.pid ?? []].flat();
  const pid = running?.info.pid ?? supervisor!.pid;
  out.info(`Stopping the runtime (pid ${pid}, ${running?.info.mode ?? 'being restarted'}) …`);
  const startMs = Date.now();
  terminate(pids[0]!, stateDir);
  await waitUntilGone(pids, startMs);
  const tookMs = Date.now() - startMs;
  out.print({ down: { was_running: true, pid, took_ms: tookMs } }, () => [
    `Stopped in ${formatSpan(tookMs)}. All persistent state is in ${stateDir}.`,
  ]);
}

async function waitUntilGone(pids: readonly number[], startMs: number): Promise<void> {
  for (;;) {
    const pid = pids.findLast(isAlive);
    if (pid === undefined) return;
    if (Date.now() - startMs > STOP_TIMEOUT_MS)
      throw fault('deadline', `pid ${pid} is still stopping after ${STOP_TIMEOUT_MS / 1_000} s`, {
        hint: `Wait, or run kill -9 ${pid}; the next agentctl up resumes its work.`,
      });
    await sleep(50);
  }
}

function terminate(pid: number, stateDir: string): void {
  try {
    process.kill(pid, 'SIGTERM');
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'ESRCH') return;
    throw fault('denied', `this user may not stop the runtime of ${stateDir} (pid ${pid})`, {
      hint: 'Stop it as the user who started it.',
      cause,
    });
  }
}
