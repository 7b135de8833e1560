// Decides which calls of a restored run may repeat an effect that no record has: those that it may
// have made after the backup. They wait until a person has confirmed that they did not happen.
import type { AgentBoxRules } from '../../../policy/box-rules.ts';
import { isWithin } from '../../../policy/paths.ts';
import type { ToolRun } from '../runs.ts';
import type { ToolCallRow, TooldStore } from '../store/store.ts';
import type { Tool } from '../tools/tool.ts';
import type { Job } from './job.ts';

/** Bounds what a command in the run's box can change. */
export type BoxReach = Pick<AgentBoxRules, 'write' | 'workspace' | 'home' | 'network'>;

type RestoredCall = {
  tool: Tool;
  input: unknown;
  run: Pick<ToolRun, 'restored' | 'workspace' | 'isLayered'>;
  reach: BoxReach;
};

/** Returns true if making the call could repeat an effect of the time after the backup. */
export function mayRepeat({ tool, input, run, reach }: RestoredCall): boolean {
  const reversibility = tool.assessReversibility?.(input) ?? tool.reversibility;
  if (run.restored === null || reversibility === 'read-only') return false;
  // A tool that recalls its effect is idempotent by a record, which the backup may not have.
  if (tool.idempotent && tool.recall === undefined) return false;
  if (reversibility !== 'reversible' || tool.box === undefined) return true;
  // The files were restored, too, unless they are on the host, or newer than the record. A layer is
  // part of the state.
  const isOnHost = run.workspace !== null && !run.isLayered;
  if (isOnHost || run.restored.changed) return true;
  return leavesBox(tool, input, reach);
}

/** Every box has its own. */
const SCRATCH = '/tmp';

function leavesBox(tool: Tool, input: unknown, reach: BoxReach): boolean {
  const isOwn = (path: string): boolean =>
    [reach.workspace, reach.home, SCRATCH].some((root) => isWithin(path, root));
  const isOutside = (tool.touches?.(input) ?? []).some((touch) =>
    'path' in touch
      ? touch.action !== 'file.read' && !isOwn(touch.path)
      : touch.action === 'net.connect',
  );
  if (isOutside || tool.touchesAll === true) return isOutside;
  return reach.network.mode !== 'none' || !reach.write.every(isOwn);
}

/** Resolves to true if a person must be asked first. */
export type NeedsConfirmation = (
  job: Job,
  input: unknown,
  record?: ToolCallRow,
) => Promise<boolean>;

export function makeNeedsConfirmation(options: {
  store: Pick<TooldStore, 'isRestoreLifted'>;
  reachOf: (run: ToolRun) => Promise<BoxReach>;
}): NeedsConfirmation {
  const { store, reachOf } = options;
  return async ({ run, tool }, input, record) => {
    const { restored, rootTaskId } = run;
    if (restored === null || tool === undefined) return false;
    if (record?.confirmed_after === restored.backup) return false;
    if (!mayRepeat({ tool, input, run, reach: await reachOf(run) })) return false;
    return !(await store.isRestoreLifted(rootTaskId, restored.backup));
  };
}
