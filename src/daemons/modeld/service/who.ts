// Who calls, and for whom: a run speaks for its agent and task, an operator only says so for the
// record.
import type { Caller } from '../../../wire/caller.ts';
import { toMask } from '../rules/labels.ts';
import type { Run, Runs } from './runs.ts';

export type Who = {
  principal: string;
  agent: string;
  runId: string | null;
  fence: number | null;
  taskId: string | null;
  rootTaskId: string | null;
  /** What everything this caller says is labelled with. */
  labels: number;
  mode: 'live' | 'replay';
  run: Run | undefined;
};

/** A mark may have come since the caller was identified. */
export const labelsNow = ({ labels, run }: Who): number => labels | (run?.labels ?? 0);

export type Said = { agent?: string | undefined; taskId?: string | undefined };

const PERSON = toMask(['person']);

export function identify(runs: Runs, caller: Caller, said: Said = {}): Who {
  if (caller.kind !== 'run') {
    return {
      principal: caller.principal,
      agent: (said.agent ?? '').replace(/^agent:/, ''),
      runId: null,
      fence: null,
      taskId: said.taskId ?? null,
      rootTaskId: null,
      labels: PERSON,
      mode: 'live',
      run: undefined,
    };
  }
  const run = runs.of(caller);
  return {
    principal: caller.principal,
    agent: run.body.agent,
    runId: run.id,
    fence: run.body.fence,
    taskId: run.body.task_id,
    rootTaskId: run.body.root_task_id,
    labels: run.labels,
    mode: caller.mode,
    run,
  };
}
