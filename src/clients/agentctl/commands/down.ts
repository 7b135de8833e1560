// agentctl down: asks the runtime to stop in order and waits until it has.
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
    return out.print({ down: { was_running: false } }, () => [`No runtime runs on ${stateDir}.`]);
  }
  const { pid, mode } = running.info;
  out.info(`Stopping the runtime (pid ${pid}, ${mode}) …`);
  const startMs = Date.now();
  terminate(pid, stateDir);
  while (isAlive(pid)) {
    if (Date.now() - startMs > STOP_TIMEOUT_MS) {
      throw fault('deadline', `pid ${pid} is still stopping after ${STOP_TIMEOUT_MS / 1_000} s`, {
        hint: `Wait, or kill -9 ${pid}: the next up takes up what it had in hand.`,
      });
    }
    await sleep(50);
  }
  const tookMs = Date.now() - startMs;
  out.print({ down: { was_running: true, pid, took_ms: tookMs } }, () => [
    `Stopped in ${formatSpan(tookMs)}. Everything that lasts is in ${stateDir}.`,
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
