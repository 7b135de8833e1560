// Sends the episode of each ended task to memoryd. That it is due is written when the task ends, in
// the same transaction, and removed when memoryd has kept it: no task waits, and nothing is lost.
import { isTransient } from '../../../platform/backoff.ts';
import type { Clock } from '../../../platform/clock.ts';
import { toTimestamp } from '../../../platform/clock.ts';
import type { Client } from '../../../platform/link.ts';
import type { Log } from '../../../platform/log.ts';
import { makeWakeLoop } from '../../../platform/wake-loop.ts';
import type { TaskView } from '../../../wire/agentd.ts';
import type { memorydRoutes } from '../../../wire/memoryd.ts';
import type { modeldRoutes } from '../../../wire/modeld.ts';
import type { TaskId } from '../../../wire/primitives.ts';
import type { tooldRoutes } from '../../../wire/toold.ts';
import type { AgentdConfig } from '../config.ts';
import type { DeclaredAgent } from '../manifests/read-manifest.ts';
import type { DueEpisode } from '../store/episodes.ts';
import type { AgentdStore } from '../store/store.ts';
import type { CommittedWrite } from '../store/tx.ts';
import { type EpisodeFacts, writeStructure, writeWords } from './episode-text.ts';
import { describeRun } from './recall.ts';

export type Episodes = {
  onCommitted(committed: CommittedWrite): void;
  begin(): void;
  stop(): Promise<void>;
};

export type EpisodesDeps = {
  store: AgentdStore;
  memoryd: Pick<Client<typeof memorydRoutes>, 'keepEpisode'>;
  toold: Pick<Client<typeof tooldRoutes>, 'listCalls'>;
  modeld: Pick<Client<typeof modeldRoutes>, 'usage'>;
  config: AgentdConfig['memory'];
  clock: Clock;
  log: Log;
  failpoint(name: string): void;
};

const BACKOFF_MS = { min: 200, max: 5_000 };
const BATCH_MAX = 20;
/** More calls of one task than this are not counted. */
const CALLS_COUNTED_MAX = 1_000;
/** Tools that change the file named by `path`. */
const CHANGES_FILE: ReadonlySet<string> = new Set(['file.write', 'file.edit', 'file.delete']);

export function makeEpisodes(deps: EpisodesDeps): Episodes {
  const { store, memoryd, config, clock, log, failpoint } = deps;

  const send = async ({ task, run, root, subtasks }: DueEpisode): Promise<void> => {
    const view = await store.viewTask(task);
    const { spec } = await store.agent(run.agent);
    const { manifest } = spec;
    if (manifest.spec.memory?.episodes === false) return;
    const facts = await gatherFacts(deps, view, { agent: run.agent, subtasks });
    await memoryd.keepEpisode({
      body: {
        ...describeRun(run, task),
        owner: root.owner ?? null,
        scopes: listEpisodeScopes(spec),
        occurred_at: toTimestamp(Number(task.ended_ms)),
        structure: writeStructure(facts),
        words: writeWords(facts),
      },
    });
  };

  const loop = makeWakeLoop({
    clock,
    async work() {
      const due = await store.dueEpisodes(BATCH_MAX);
      for (const episode of due) {
        failpoint('agentd.before-episode');
        if (config.episodes) await send(episode).catch(dropUnlessTransient(log, episode));
        failpoint('agentd.after-episode');
        await store.endEpisode(episode.task.id);
      }
      return due.length === BATCH_MAX ? clock.nowMs() : undefined;
    },
    backoffMs: BACKOFF_MS,
    onError: (error) => log.debug('memoryd could not keep an episode; retrying', { error }),
  });

  return {
    onCommitted({ events }) {
      if (events.some(({ event }) => event === 'task.ended')) loop.wake();
    },
    begin: () => loop.wake(),
    stop: () => loop.stop(),
  };
}

/** One that memoryd will never take must not hold up the others. */
const dropUnlessTransient =
  (log: Log, { task }: DueEpisode) =>
  (error: unknown): void => {
    if (isTransient(error)) throw error;
    log.warn('the episode of a task is not kept', { task: task.id, error });
  };

/** Its own, and that of its project. memoryd decides by policy which of them it may write. */
const listEpisodeScopes = ({ name, manifest }: DeclaredAgent): string[] => {
  const { scope } = manifest.spec.memory ?? {};
  return [`agent:${name}`, ...(scope === undefined ? [] : [scope])];
};

async function gatherFacts(
  { toold, modeld }: EpisodesDeps,
  task: TaskView,
  of: { agent: string; subtasks: number },
): Promise<EpisodeFacts> {
  const query = { task_id: task.id as TaskId };
  const [{ calls }, { total }] = await Promise.all([
    toold.listCalls({ query: { ...query, limit: CALLS_COUNTED_MAX } }),
    modeld.usage({ query }),
  ]);
  const done = calls.filter(({ status }) => status === 'completed');
  const tools = new Map<string, number>();
  for (const { tool } of done) tools.set(tool, (tools.get(tool) ?? 0) + 1);
  const paths = done.flatMap(({ tool, arguments: { path } }) =>
    CHANGES_FILE.has(tool) && typeof path === 'string' ? [path] : [],
  );
  return {
    ...of,
    task,
    startedMs: Date.parse(task.created_at),
    modelCalls: total.calls,
    costMicrousd: total.cost_microusd,
    tools,
    filesChanged: new Set(paths).size,
  };
}
