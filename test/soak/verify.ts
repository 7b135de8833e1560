// Checks the end of a soak: every task ended as it should, every effect happened as often as it
// should, journal and log are equal, the log verifies, and nothing is left on the host.
import { readRuntimeInfo } from '../../src/platform/state-dir.ts';
import { assertHostClean, assertNothingLeft } from '../support/leftovers.ts';
import { assertReconciled } from '../support/reconcile.ts';
import { eventually } from '../support/runtime.ts';
import type { Criterion } from './criteria.ts';
import type { SoakSite } from './site.ts';
import { KINDS } from './task-kinds.ts';
import type { SoakTask } from './workload.ts';

/** Enough to see what went wrong. */
const FINDINGS_MAX = 5;

function toCriterion(name: string, findings: readonly string[], detail: string): Criterion {
  if (findings.length === 0) return { name, status: 'ok', detail };
  const first = findings.slice(0, FINDINGS_MAX).join('; ');
  return { name, status: 'failed', detail: `${findings.length} findings: ${first}` };
}

export function checkTasks(tasks: readonly SoakTask[], open: readonly string[]): Criterion {
  const wrong = tasks.flatMap(({ key, kind, ended }) =>
    ended
      .filter(({ status }) => !KINDS[kind].status.includes(status))
      .map(({ id, status, error }) => `${key} (${kind}, ${id}) is ${status}: ${error?.message}`),
  );
  const missing = open.map((key) => `${key} has not ended`);
  const name = 'every task ends as it should';
  return toCriterion(name, [...missing, ...wrong], `${tasks.length} tasks`);
}

export function checkEffects(
  tasks: readonly SoakTask[],
  effects: ReadonlyMap<string, number>,
): Criterion {
  const bounds = tasks.flatMap(({ key, kind, ended }) => KINDS[kind].effects(key, ended[0]!));
  const known = new Set(bounds.map(({ key }) => key));
  const wrong = bounds.flatMap(({ key, min, max }) => {
    const times = effects.get(key) ?? 0;
    if (times >= min && times <= max) return [];
    return [`${key} happened ${times} times instead of ${min === max ? min : `${min}..${max}`}`];
  });
  const extra = [...effects.keys()].filter((key) => !known.has(key));
  const name = 'every effect happens as often as it should';
  return toCriterion(
    name,
    [...wrong, ...extra.map((key) => `${key} belongs to no task`)],
    `${effects.size} effects`,
  );
}

async function runCheck(name: string, check: () => Promise<string>): Promise<Criterion> {
  try {
    return { name, status: 'ok', detail: await check() };
  } catch (error) {
    const { message, cause } = error as Error;
    const why = cause === undefined ? '' : `: ${(cause as Error).message}`;
    return { name, status: 'failed', detail: `${message}${why}` };
  }
}

/** Stops the runtime. */
export async function checkRecord(site: SoakSite): Promise<Criterion[]> {
  const runtimeDir = readRuntimeInfo(site.stateDir)!.runtime_dir;
  const reconciled = await runCheck('journal and log are equal', async () => {
    const check = () => assertReconciled(site.clients());
    const { events } = await eventually('equality of journal and log', check, 120_000);
    return `${events} events`;
  });
  const idle = await runCheck('an idle runtime leaves nothing', async () => {
    await assertNothingLeft({ runtimeDir });
    return 'no process, cgroup, mount or socket of a run';
  });
  await site.ctl('down');
  const ended = await runCheck('an ended runtime leaves nothing', async () => {
    await assertHostClean({ runtimeDir });
    return 'no process, cgroup, mount or directory';
  });
  const verified = await runCheck('the log verifies', async () => {
    const text = await site.ctl('audit', 'verify');
    return text.split('\n').find((line) => line.includes('events')) ?? 'no events';
  });
  return [reconciled, verified, idle, ended];
}
