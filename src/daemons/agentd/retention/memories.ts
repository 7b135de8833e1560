// Prunes the episodes that tasks left in memory by rule: by age, by the size of all, and by their
// number in each scope. memoryd lists and removes them; agentd decides whether they may go.
import { type Clock, toTimestamp } from '../../../platform/clock.ts';
import type { Client } from '../../../platform/link.ts';
import type { RetentionConfig } from '../../../platform/retention-config.ts';
import type { MemoryId } from '../../../wire/memoryd/records.ts';
import type { KeptEpisode } from '../../../wire/memoryd/retention.ts';
import type { memorydRoutes } from '../../../wire/memoryd.ts';
import type { Principal, TaskId } from '../../../wire/primitives.ts';
import type { AgentdStore } from '../store/store.ts';
import type { Candidate, KindPruner } from './pass.ts';
import { DELETE_OPTIONS, PEER_OPTIONS } from './trees.ts';

export type MemoryPeer = Pick<
  Client<typeof memorydRoutes>,
  'listEpisodes' | 'listFullScopes' | 'pruneEpisodes' | 'compactMemory' | 'memorySizes'
>;

export type EpisodePruner = KindPruner & {
  /** Takes what was pruned out of memoryd's files. */
  compact(step: <T>(work: () => Promise<T>) => Promise<T>): Promise<void>;
};

const PAGE = 100;

type Which = { scope?: string; until?: MemoryId; root_task_id?: TaskId };

export function makeEpisodePruner(deps: {
  store: Pick<AgentdStore, 'findHold'>;
  memoryd: MemoryPeer;
  rule: RetentionConfig['memories'];
  clock: Clock;
}): EpisodePruner {
  const { store, memoryd, rule, clock } = deps;

  const toCandidate = (episode: KeptEpisode): Candidate => {
    const { id, scope, root_task_id: rootTaskId, labels } = episode;
    const endedMs = Date.parse(episode.recorded_at);
    const ageMs = clock.nowMs() - endedMs;
    const agents = [toOwner(scope)];
    return {
      id,
      endedMs,
      bytes: episode.bytes,
      rootTaskId,
      policy: async () => ({ kind: 'memories', id, rootTaskId, agents, labels, ageMs }),
    };
  };

  async function* list(recordedBeforeMs: number, which: Which): AsyncGenerator<Candidate> {
    const recorded_before = toTimestamp(recordedBeforeMs);
    for (let after: MemoryId | undefined; ; ) {
      const query = { ...which, recorded_before, after, limit: PAGE };
      const { episodes } = await memoryd.listEpisodes({ query }, PEER_OPTIONS);
      for (const episode of episodes) yield toCandidate(episode);
      if (episodes.length < PAGE) return;
      after = episodes.at(-1)!.id;
    }
  }

  return {
    kind: 'memories',
    rule,
    async sizeBytes() {
      const { scopes } = await memoryd.memorySizes({}, PEER_OPTIONS);
      return scopes.reduce((sum, { episode_bytes }) => sum + episode_bytes, 0);
    },
    async *candidates(recordedBeforeMs, only) {
      if (only === undefined) yield* list(recordedBeforeMs, {});
      for (const root of only ?? [])
        yield* list(recordedBeforeMs, { root_task_id: root as TaskId });
    },
    async *excess(recordedBeforeMs) {
      const query = { episodes_max: rule.per_scope };
      const { scopes } = await memoryd.listFullScopes({ query }, PEER_OPTIONS);
      for (const { scope, until } of scopes) {
        const cause = `retention.memories keeps up to ${rule.per_scope} episodes of ${scope}`;
        for await (const candidate of list(recordedBeforeMs, { scope, until }))
          yield { candidate, cause };
      }
    },
    async prune({ id, bytes = 0, rootTaskId }, { cause }, { by, isDryRun }) {
      const holder = await store.findHold(rootTaskId!);
      if (holder !== undefined) return { kept: { reason: 'held', detail: `held by ${holder}` } };
      if (isDryRun) return { bytes };
      const body = { ids: [id as MemoryId], by: by as Principal, cause };
      const done = await memoryd.pruneEpisodes({ body }, PEER_OPTIONS);
      return done.pruned === 0 ? 'skipped' : { bytes: done.bytes };
    },
    async compact(step) {
      while (await step(async () => (await memoryd.compactMemory({}, DELETE_OPTIONS)).compacted));
    },
  };
}

/** As in rules about other data: the agent whose memory it is, or the scope. */
const toOwner = (scope: string): string =>
  scope.startsWith('agent:') ? scope.slice('agent:'.length) : scope.replace(':', '/');
