// agentctl halt and unhalt. When nothing answers, the file STATE/HALT says the same.
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import { some } from '../show/amounts.ts';
import { asOwnerOf } from '../state-owner.ts';

const isAway = (error: unknown): boolean =>
  error instanceof Fault && ['not_reachable', 'unavailable', 'stopping'].includes(error.code);

export async function halt({ args, out, stateDir, runtime }: Session): Promise<void> {
  const reason = args.text('reason');
  try {
    const body = reason === undefined ? {} : { reason };
    const answer = await runtime().ask('agentd', 'halt', { body });
    out.give({ halt: answer }, () => [
      `Halted. ${some(answer.stopped_runs, 'run')} stopped.`,
      'Lift it with: agentctl unhalt',
    ]);
  } catch (error) {
    if (!isAway(error)) throw error;
    const file = join(stateDir, 'HALT');
    mkdirSync(stateDir, { recursive: true, mode: 0o700 });
    asOwnerOf(stateDir, (here) =>
      writeFileSync(join(here, 'HALT'), `${reason ?? ''}\n`, { mode: 0o600 }),
    );
    out.give({ halt: { halted: true, stopped_runs: 0, file } }, () => [
      `No runtime answers; made ${file}, so that none works until it is lifted.`,
    ]);
  }
}

export async function unhalt({ out, stateDir, runtime }: Session): Promise<void> {
  try {
    const answer = await runtime().ask('agentd', 'unhalt', {});
    out.give({ unhalt: answer }, () => ['The halt is lifted: agents work again.']);
  } catch (error) {
    const file = join(stateDir, 'HALT');
    if (!isAway(error) || !existsSync(file)) throw error;
    asOwnerOf(stateDir, (here) => rmSync(join(here, 'HALT')));
    out.give({ unhalt: { halted: false, file } }, () => [
      `No runtime answers; removed ${file}. The next one starts without a halt.`,
    ]);
  }
}
