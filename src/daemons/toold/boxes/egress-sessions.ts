// Keeps each run's egress session at egressd: opened as policy allows, narrowed when the run has
// read text from outside, and closed with the run, also across restarts of either daemon.

import { isTransient, retryWithBackoff } from '../../../platform/backoff.ts';
import type { Log } from '../../../platform/log.ts';
import type { HostPort } from '../../../policy/box-hosts.ts';
import type { AgentBoxRules } from '../../../policy/box-rules.ts';
import type { RunId } from '../../../wire/primitives.ts';
import type { ToolRun } from '../runs.ts';
import type { EgressdClient } from '../tools/http.ts';
import { peerOptions } from '../tools/tool.ts';

export type EgressSessions = {
  /** Opens or updates the session. Returns its socket. */
  open(run: ToolRun, rules: AgentBoxRules): Promise<string>;
  has(run: ToolRun): boolean;
  close(run: ToolRun): Promise<void>;
  /** After a restart, adopts the sessions of live runs and closes all others. */
  reconcile(find: (runId: RunId) => ToolRun | undefined): Promise<void>;
};

/**
 * A run marked `outside` may still read with plain requests, which egressd can inspect; a tunnel
 * could carry data out.
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

  /** Retries while egressd is down: it restores every session it was not asked to close. */
  const retryInBackground = (what: string, work: () => Promise<void>): Promise<void> =>
    retryWithBackoff(work, {
      isTransient,
      backoffMsMax: BACKOFF_MS_MAX,
      inBackground: true,
    }).catch((error: unknown) => log.error(what, { error }));

  const dropSession = (runId: RunId, fence: number): Promise<void> =>
    retryInBackground(`closing the egress of ${runId} failed`, async () => {
      await egressd.dropEgress({ params: { id: runId }, query: { fence } }, peerOptions);
    });

  return {
    async open(run, { network }) {
      const marked = run.labels.has('outside');
      const narrowed = (rule: HostPort) => (marked ? { ...rule, methods: ONLY_READS } : rule);
      const isChosen = ({ host, port }: HostPort): boolean =>
        run.chosenHosts.some((chosen) => chosen.host === host && chosen.port === port);
      const { runId, fence, agent, taskId, rootTaskId, labels } = run;
      const body = {
        fence,
        agent,
        task_id: taskId,
        root_task_id: rootTaskId,
        allow: network.allow.map(narrowed),
        granted: network.granted.map((rule) =>
          isChosen(rule) ? { ...rule, chosen: true as const } : narrowed(rule),
        ),
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
      retryInBackground('closing egress sessions from before the restart failed', async () => {
        const { egress } = await egressd.listEgress({}, peerOptions);
        for (const { run_id: runId, fence } of egress)
          if (find(runId)?.fence === fence) open.add(runId);
          else await dropSession(runId, fence);
      }),
  };
}
