// Replaying a task: its last run is run again in a runner that gets only recorded answers. Whatever
// the runner would now ask differently shows as a difference; nothing is done and nothing is
// recorded.
import type { Client } from '../../platform/link.ts';
import type { ReplayView } from '../../wire/agentd.ts';
import { fault } from '../../wire/errors.ts';
import type { RunId } from '../../wire/primitives.ts';
import type { tooldRoutes } from '../../wire/toold.ts';
import type { LiveActivations } from './activations.ts';
import type { Launched } from './adapters/sandbox-launcher.ts';
import type { AgentdStore } from './store/store.ts';

export type Replayed = {
  calls: number;
  differences: ReplayView['differences'];
  /** The runner asked for more than was recorded. */
  record_ended?: boolean | undefined;
  result: string | null;
};
export type Replays = {
  replay(taskId: string): Promise<ReplayView>;
  /** Told by the replaying runner. */
  note(runId: string, replayed: Replayed): boolean;
};

const REPLAY_MS_MAX = 25_000;

export function makeReplays({
  store,
  activations,
  toold,
}: {
  store: AgentdStore;
  activations: LiveActivations;
  toold: Pick<Client<typeof tooldRoutes>, 'listCalls'>;
}): Replays {
  const open = new Map<string, (replayed: Replayed) => void>();

  const replayRun = async (runId: string, taskId: string): Promise<Replayed> => {
    // The dismissal of the activation that ended the task would take away the replay's sockets too.
    await activations.gone(runId);
    const [run, task] = await Promise.all([store.runRow(runId), store.taskRow(taskId)]);
    await activations.admit(run, task, 'replay');
    const told = Promise.withResolvers<Replayed>();
    open.set(runId, told.resolve);
    const late = fault('deadline', `the replay took longer than ${REPLAY_MS_MAX / 1000} s`);
    const timer = setTimeout(() => told.reject(late), REPLAY_MS_MAX);
    let launched: Launched | undefined;
    try {
      launched = await activations.launch(run, task, 'replay', ({ code, signal, stderrTail }) => {
        const how = `exit ${code ?? signal}: ${stderrTail.slice(-300)}`;
        told.reject(fault('internal', `the replaying runner ended without a word (${how})`));
      });
      await launched.tell(JSON.stringify(launched.sockets));
      return await told.promise;
    } finally {
      clearTimeout(timer);
      open.delete(runId);
      await activations.dismiss(runId, run.fence, 'replay');
      await launched?.kill('the replay is over');
    }
  };

  /** A run that was ended by others (canceled, broken, out of time) has a record that just ends. */
  const hasFinished = async (runId: RunId): Promise<boolean> => {
    const { calls } = await toold.listCalls({ query: { run_id: runId, tool: 'task.finish' } });
    return calls.some(({ status }) => status === 'completed');
  };

  return {
    note(runId, replayed) {
      const waiting = open.get(runId);
      waiting?.(replayed);
      return waiting !== undefined;
    },
    async replay(taskId) {
      const task = await store.task(taskId);
      if (task.ended_at === null)
        throw fault('conflict', `${taskId} has not ended yet`, { hint: 'Replay it when it has.' });
      const runs = (await store.runs({ task_id: taskId }, { limit: 1_000 })).rows.filter(
        (run) => run.activations > 0,
      );
      const run = runs.find((candidate) => candidate.outcome === 'completed') ?? runs[0];
      if (run === undefined)
        throw fault('conflict', `${taskId} never ran, so there is nothing to replay`);
      if (open.has(run.id)) throw fault('conflict', `${taskId} is being replayed already`);
      const replayed = await replayRun(run.id, taskId);
      const isCutOff = replayed.record_ended === true && !(await hasFinished(run.id));
      const differences = isCutOff ? [] : replayed.differences;
      const resultSame =
        task.status !== 'completed' || task.result_ref !== null || replayed.result === task.result;
      return {
        run_id: run.id,
        calls: replayed.calls,
        differences,
        result_same: resultSame,
        same: differences.length === 0 && resultSame,
      };
    },
  };
}
