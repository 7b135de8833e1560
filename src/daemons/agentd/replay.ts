// Replays an ended task: runs it again in a runner that gets only recorded responses, and reports
// where its requests differ from the record. Nothing is executed or recorded.
import type { Client } from '../../platform/link.ts';
import type { ReplayView } from '../../wire/agentd.ts';
import { fault } from '../../wire/errors.ts';
import type { RunId } from '../../wire/primitives.ts';
import type { tooldRoutes } from '../../wire/toold.ts';
import type { LiveActivations } from './activations.ts';
import type { RunnerProcess } from './adapters/sandbox-launcher.ts';
import type { AgentdStore } from './store/store.ts';

export type ReplayReport = {
  calls: number;
  differences: ReplayView['differences'];
  /** The runner made a request past the end of the record. */
  record_ended?: boolean | undefined;
  result: string | null;
};
export type Replays = {
  replay(taskId: string): Promise<ReplayView>;
  /** Takes the replaying runner's report. Returns false if no replay is open. */
  submitReport(runId: string, report: ReplayReport): boolean;
};

const REPLAY_MS_MAX = 25_000;

export function makeReplays(deps: {
  store: AgentdStore;
  activations: LiveActivations;
  toold: Pick<Client<typeof tooldRoutes>, 'listCalls'>;
}): Replays {
  const { store, activations, toold } = deps;
  const open = new Map<string, (report: ReplayReport) => void>();

  const replayRun = async (runId: string, taskId: string): Promise<ReplayReport> => {
    // Dismissing the activation that ended the task would close the replay's sockets too.
    await activations.waitUntilGone(runId);
    const [run, task] = await Promise.all([store.runRow(runId), store.taskRow(taskId)]);
    await activations.admit(run, task, 'replay');
    const report = Promise.withResolvers<ReplayReport>();
    open.set(runId, report.resolve);
    const late = fault('deadline', `the replay took longer than ${REPLAY_MS_MAX / 1000} s`);
    const timer = setTimeout(() => report.reject(late), REPLAY_MS_MAX);
    let launched: RunnerProcess | undefined;
    try {
      launched = await activations.launch(run, task, 'replay', ({ code, signal, stderrTail }) => {
        const detail = `exit ${code ?? signal}: ${stderrTail.slice(-300)}`;
        report.reject(fault('internal', `the replaying runner ended without a report (${detail})`));
      });
      await launched.sendLine(JSON.stringify(launched.sockets));
      return await report.promise;
    } finally {
      clearTimeout(timer);
      open.delete(runId);
      await activations.dismiss(runId, run.fence, 'replay');
      await launched?.kill('the replay has ended');
    }
  };

  /** The record of a run that was canceled, stopped or timed out has no task.finish call. */
  const hasFinishCall = async (runId: RunId): Promise<boolean> => {
    const { calls } = await toold.listCalls({ query: { run_id: runId, tool: 'task.finish' } });
    return calls.some(({ status }) => status === 'completed');
  };

  return {
    submitReport(runId, report) {
      const resolve = open.get(runId);
      resolve?.(report);
      return resolve !== undefined;
    },
    async replay(taskId) {
      const task = await store.task(taskId);
      if (task.ended_at === null)
        throw fault('conflict', `${taskId} has not ended`, {
          hint: 'Replay it after it has ended.',
        });
      const contextsPrunedAt = task.pruned?.model_contexts;
      if (contextsPrunedAt !== undefined)
        throw fault(
          'pruned',
          `the model contexts of ${taskId} were pruned on ${contextsPrunedAt.slice(0, 10)}`,
          {
            hint: 'It can no longer be replayed; its record is still there: agentctl task explain.',
          },
        );
      const runs = (await store.runs({ task_id: taskId }, { limit: 1_000 })).rows.filter(
        (run) => run.activations > 0,
      );
      const run = runs.find((candidate) => candidate.outcome === 'completed') ?? runs[0];
      if (run === undefined) throw fault('conflict', `${taskId} has no run to replay`);
      if (open.has(run.id)) throw fault('conflict', `${taskId} is already being replayed`);
      const replayed = await replayRun(run.id, taskId);
      const isTruncated = replayed.record_ended === true && !(await hasFinishCall(run.id));
      const differences = isTruncated ? [] : replayed.differences;
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
