// Keeps the episode of an ended task as two records in each scope that its agent may write: what it
// took, which the platform wrote, and its words, which carry the labels of the task.

import { toTimestamp } from '../../../platform/clock.ts';
import type { NewId } from '../../../platform/ids.ts';
import { sha256Hex } from '../../../platform/json.ts';
import { findSecrets } from '../../../platform/secrets/find-secrets.ts';
import { findPersonalData } from '../../../platform/secrets/personal-data.ts';
import type { Episode } from '../../../wire/memoryd/for-agentd.ts';
import type { MemoryId } from '../../../wire/memoryd/records.ts';
import type { Label } from '../../../wire/primitives.ts';
import type { About, Change } from '../journal/entry.ts';
import { findLifetimeS } from '../rules/lifetime.ts';
import { filterMarks, stampLabels } from '../rules/marks.ts';
import type { Commit } from '../store/commit.ts';
import { toEntryRun } from './remember.ts';
import type { Actor, Rights } from './rights.ts';
import type { StoredText, Texts } from './texts.ts';

type EpisodeRecord = { text: string; labels: Label[]; about: About };
type Place = { scope: string; record: EpisodeRecord; status: 'active' | 'proposed' };

export type KeepEpisode = (episode: Episode) => Promise<MemoryId[]>;

export function makeKeepEpisode(deps: {
  commit: Commit;
  rights: Rights;
  texts: Texts;
  newId: NewId;
  lifetimesS: Readonly<Record<string, number>>;
  onExpirySet(): void;
}): KeepEpisode {
  const { commit, rights, texts, newId, lifetimesS } = deps;

  /**
   * The rule writes, not the run, so that outside text needs no approval: it keeps its mark, and is
   * never injected. Secret and personal words are proposals where policy asks for that.
   */
  const findPlaces = async (
    actor: Actor,
    scopes: readonly string[],
    records: readonly EpisodeRecord[],
  ): Promise<Place[]> => {
    const places: Place[] = [];
    for (const scope of new Set(scopes))
      for (const record of records) {
        const marks = filterMarks(record.labels).filter((mark) => mark !== 'outside');
        const decision = await rights.decide(actor, 'memory.write', scope, marks);
        const { answer } = decision;
        if (answer === 'deny') await rights.deny(actor, 'memory.write', scope, decision);
        else places.push({ scope, record, status: answer === 'allow' ? 'active' : 'proposed' });
      }
    return places;
  };

  return async ({ scopes, occurred_at, structure, words, owner, agent, ...run }) => {
    const actor: Actor = {
      principal: `agent:${agent}`,
      person: owner ?? undefined,
      run: { ...run, agent, labels: [] },
    };
    const safe = leaveOutSecrets(words);
    const personal: Label[] = findPersonalData(safe).length > 0 ? ['personal'] : [];
    const records: readonly EpisodeRecord[] = [
      { text: structure, labels: ['own'], about: { seq: 0 } },
      {
        text: safe,
        labels: stampLabels('agent', run.labels, personal),
        about: { seq: 1, speaker: agent },
      },
    ];
    const places = await findPlaces(actor, scopes, records);
    const toChange = ({ scope, status, record }: Place, stored: StoredText): Change => {
      const lifetimeS = findLifetimeS(lifetimesS, { class: 'episodic', scope });
      const fromMs = Date.parse(occurred_at);
      return {
        do: 'add',
        id: newId<MemoryId>('memory'),
        class: 'episodic',
        scope,
        status,
        ...(lifetimeS === undefined ? {} : { expires_at: toTimestamp(fromMs + lifetimeS * 1_000) }),
        content: {
          ...stored,
          about: { occurred_at, ref: run.task_id, thread: run.task_id, ...record.about },
          labels: record.labels,
        },
      };
    };
    const ids = await texts.whileStored(
      places.map(({ record }) => record.text),
      (stored) =>
        commit(
          async () => ({
            op: 'remember',
            by: 'service:agentd',
            run: toEntryRun(actor),
            changes: places.map((place, i) => toChange(place, stored[i]!)),
          }),
          // A repeat counts again what the task took, and may differ.
          { scope: 'episode', key: run.task_id, requestHash: sha256Hex(run.task_id) },
        ),
    );
    if (Object.keys(lifetimesS).length > 0) deps.onExpirySet();
    return ids as MemoryId[];
  };
}

/** Nothing that looks like a secret is written. */
function leaveOutSecrets(words: string): string {
  const kinds = findSecrets(words);
  return kinds.length === 0 ? words : `[left out: it contains a secret: ${kinds.join(', ')}]`;
}
