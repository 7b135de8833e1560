// Recalls what the scopes of a run know about its goal, for its briefing. Marked memories are only
// named: a text that a stranger wrote would otherwise mark every later run.
import type { BriefedMemory, BriefingQuery } from '../../../wire/memoryd/for-agentd.ts';
import type { MemoryId, RecalledMemory } from '../../../wire/memoryd/records.ts';
import { filterMarks } from '../rules/marks.ts';
import { cutToTokens } from '../rules/tokens.ts';
import type { Finder } from './finder.ts';
import type { Recall } from './recall.ts';
import type { Actor } from './rights.ts';

export type RecallForBriefing = (query: BriefingQuery) => Promise<BriefedMemory[]>;

const HITS_MAX = 12;
const SHOWN_MAX = 8;
const NAMED_MAX = 4;
/** As a share of the best one. A memory below it is hardly about the goal. */
const SCORE_SHARE_MIN = 0.2;

export function makeRecallForBriefing(deps: {
  recall: Recall;
  finder: Pick<Finder, 'listReadableScopes'>;
}): RecallForBriefing {
  const { recall, finder } = deps;
  return async ({ query, scopes, max_tokens, owner, agent, ...run }) => {
    const actor: Actor = {
      principal: `agent:${agent}`,
      person: owner ?? undefined,
      run: { ...run, agent },
    };
    const readable = await finder.listReadableScopes(actor, scopes);
    if (readable.length === 0) return [];
    // A run does not wait for a model before its first call.
    const asked = { scopes: readable, query, limit: HITS_MAX, wordsOnly: true };
    const { memories } = await recall(actor, asked);
    return selectForBriefing(memories, max_tokens);
  };
}

/** In the order of their ids, so that equal briefings have equal beginnings. */
export function selectForBriefing(
  found: readonly RecalledMemory[],
  tokensMax: number,
): BriefedMemory[] {
  const scoreMin = SCORE_SHARE_MIN * Math.max(0, ...found.map(({ score }) => score));
  const isMarked = ({ labels }: RecalledMemory) => filterMarks(labels).length > 0;
  const clean = found
    .filter((memory) => !isMarked(memory) && memory.score >= scoreMin)
    .slice(0, SHOWN_MAX);
  const named = found.filter(isMarked).slice(0, NAMED_MAX);
  return [
    ...cutToTokens(clean, tokensMax).map((memory) => toBriefed(memory, memory.text)),
    ...named.map((memory) => toBriefed(memory, null)),
  ].sort((a, b) => (a.id < b.id ? -1 : 1));
}

const toBriefed = (memory: RecalledMemory, text: string | null): BriefedMemory => ({
  id: memory.id as MemoryId,
  version: memory.version,
  class: memory.class,
  scope: memory.scope,
  labels: memory.labels,
  at: memory.occurred_at ?? memory.recorded_at,
  text,
});
