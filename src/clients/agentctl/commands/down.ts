// agentctl down: stops the runtime with SIGTERM and waits until it has exited.
import { fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import { sleep } from '../follow.ts';
import { findRunning } from '../running.ts';
import { formatSpan } from '../show/amounts.ts';
import { assertReadable, isAlive } from '../state.ts';

const STOP_TIMEOUT_MS = 20_000;

export async function down({ out, stateDir }: Session): Promise<void> {
  const running = await findRunning(stateDir);
  if (running === undefined) {
    assertReadable(stateDir);
    return out.print({ down: { was_running: false } }, () => [
      `No runtime is running on ${stateDir}.`,
    ]);
  }
  const { pid, mode } = running.info;
  out.info(`Stopping the runtime (pid ${pid}, ${mode}) …`);
  const startMs = Date.now();
  terminate(pid, stateDir);
  while (isAlive(pid)) {
    if (Date.now() - startMs > STOP_TIMEOUT_MS) {
      throw fault('deadline', `pid ${pid} is still stopping after ${STOP_TIMEOUT_MS / 1_000} s`, {
        hint: `Wait, or run kill -9 ${pid}; the next agentctl up resumes its work.`,
      });
    }
    await sleep(50);
  }
  const tookMs = Date.now() - startMs;
  out.print({ down: { was_running: true, pid, took_ms: tookMs } }, () => [
    `Stopped in ${formatSpan(tookMs)}. All persistent state is in ${stateDir}.`,
  ]);
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
