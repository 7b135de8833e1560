// agentctl halt and unhalt. Without a running runtime they write or remove STATE/HALT.
import { closeSync, existsSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { diskFault } from '../../../platform/disk-fault.ts';
import type { Session } from '../command.ts';
import { makeStateDir, runAsOwner } from '../make-state-dir.ts';
import { isRuntimeDown } from '../retry-while-down.ts';
import { pluralize } from '../show/amounts.ts';

export async function halt({ args, out, stateDir, runtime }: Session): Promise<void> {
  const reason = args.text('reason');
  try {
    const body = reason === undefined ? {} : { reason };
    const answer = await runtime().call('agentd', 'halt', { body });
    out.print({ halt: answer }, () => [
      `Halted. ${pluralize(answer.stopped_runs, 'run')} stopped.`,
      'Lift it with: agentctl unhalt',
    ]);
  } catch (error) {
    if (!isRuntimeDown(error)) throw error;
    const file = join(stateDir, 'HALT');
    if (!existsSync(stateDir)) makeStateDir(stateDir);
    runAsOwner(stateDir, (here) => writeHalt(join(here, 'HALT'), reason ?? ''));
    out.print({ halt: { halted: true, stopped_runs: 0, file } }, () => [
      `No runtime responds; created ${file}, which halts all agents until it is lifted.`,
    ]);
  }
}

/** The file's existence halts; on a full disk the reason may be lost. */
function writeHalt(file: string, reason: string): void {
  const fd = openSync(file, 'w', 0o600);
  try {
    writeSync(fd, `${reason}\n`);
  } catch (error) {
    if (diskFault(error)?.code !== 'storage_full') throw error;
  } finally {
    closeSync(fd);
  }
}

export async function unhalt({ out, stateDir, runtime }: Session): Promise<void> {
  try {
    const answer = await runtime().call('agentd', 'unhalt', {});
    out.print({ unhalt: answer }, () => ['The halt is lifted; agents resume.']);
  } catch (error) {
    const file = join(stateDir, 'HALT');
    if (!isRuntimeDown(error) || !existsSync(file)) throw error;
    runAsOwner(stateDir, (here) => rmSync(join(here, 'HALT')));
    out.print({ unhalt: { halted: false, file } }, () => [
      `No runtime responds; removed ${file}. The next one starts without a halt.`,
    ]);
  }
}
