// The way out of each run through egressd: opened with what policy allows, narrowed when the run
// has read text from outside, and closed with the run, whoever of the two dies meanwhile.

import { isTransient, retryWithBackoff } from '../../../platform/backoff.ts';
import type { Log } from '../../../platform/log.ts';
import type { HostPort } from '../../../policy/box-hosts.ts';
import type { AgentBoxRules } from '../../../policy/box-rules.ts';
import type { RunId } from '../../../wire/primitives.ts';
import type { ToolRun } from '../runs.ts';
import type { EgressdClient } from '../tools/http.ts';
import { peerOptions } from '../tools/tool.ts';

export type EgressSessions = {
  /** Gives the socket that leads there. */
  open(run: ToolRun, rules: AgentBoxRules): Promise<string>;
  has(run: ToolRun): boolean;
  close(run: ToolRun): Promise<void>;
  /** After a restart: those of live runs are known again, and those of no run are closed. */
  reconcile(find: (runId: RunId) => ToolRun | undefined): Promise<void>;
};

/**
 * A run that has read text from outside may still read: what egressd can see to be a plain request
 * goes through, a tunnel could carry anything out and does not.
 */
const ONLY_READS = ['GET', 'HEAD'];
const BACKOFF_MS_MAX = 5_000;

export function makeEgressSessions(options: {
  egressd: EgressdClient;
  bytesMax: number;
  log: Log;
}): EgressSessions {
  const { egressd, log } = options;
  const open = new Set<RunId>();

  /** Again and again while egressd is away: it opens what it was not told to close. */
  const retryInBackground = (what: string, work: () => Promise<void>): Promise<void> =>
    retryWithBackoff(work, {
      isTransient: isTransient,
      backoffMsMax: BACKOFF_MS_MAX,
      inBackground: true,
    }).catch((error: unknown) => log.error(what, { error }));

  const dropSession = (runId: RunId, fence: number): Promise<void> =>
    retryInBackground(`the way out of ${runId} was not closed`, async () => {
      await egressd.dropEgress({ params: { id: runId }, query: { fence } }, peerOptions);
    });

  return {
    async open(run, { network }) {
      const marked = run.labels.has('outside');
      const narrowed = (rule: HostPort) => (marked ? { ...rule, methods: ONLY_READS } : rule);
      const { runId, fence, agent, taskId, rootTaskId, labels } = run;
      const body = {
        fence,
        agent,
        task_id: taskId,
        root_task_id: rootTaskId,
        allow: network.allow.map(narrowed),
        granted: network.granted.map(narrowed),
        bytes_max: options.bytesMax,
        labels: [...labels],
      };
      open.add(runId);
      return (await egressd.putEgress({ params: { id: runId }, body }, peerOptions)).socket;
    },
    has: ({ runId }) => open.has(runId),
    async close({ runId, fence }) {
      if (open.delete(runId)) await dropSession(runId, fence);
    },
    reconcile: (find) =>
      retryInBackground('ways out of an earlier life were not closed', async () => {
        const { egress } = await egressd.listEgress({}, peerOptions);
        for (const { run_id: runId, fence } of egress)
          if (find(runId)?.fence === fence) open.add(runId);
          else await dropSession(runId, fence);
      }),
  };
}
