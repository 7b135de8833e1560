// Recall: finds candidates word by word, then ranks them with what surrounds them in their
// conversation, who said it, when, and how important it is.
import type { Sql } from '../../../platform/sql/database.ts';
import type { ScopeRow } from './add.ts';
import { best, matchEach, matchNewest, readTerms } from './candidates.ts';
import { recordsWith } from './parts.ts';
import { readQuestion } from './question.ts';
import { type Ranked, rank } from './rank.ts';
import { loadSurroundings } from './surroundings.ts';

export type Hit = Omit<Ranked, 'ordinal'>;

export type SearchOptions = {
  scopes: readonly string[];
  query: string;
  limit: number;
  nowMs: number;
  /** How many records that match best word by word are looked at closely, per scope. */
  maxCandidates?: number;
  /** Keeps others out of the hits, and out of what surrounds a hit. */
  isVisible?: (numbers: readonly number[]) => Promise<ReadonlySet<number>>;
};

const CANDIDATES = 200;

/** The best records first. Scores of one scope do not depend on what another contains. */
export async function search(reader: Sql, options: SearchOptions): Promise<Hit[]> {
  const hits: Hit[] = [];
  for (const scope of new Set(options.scopes)) {
    const row = await reader.one<ScopeRow>(
      'SELECT id, next, records, terms FROM memory_index_scopes WHERE scope = ?',
      scope,
    );
    if (row !== undefined) hits.push(...(await searchScope(reader, row, options)));
  }
  hits.sort((a, b) => b.score - a.score || b.number - a.number);
  return withoutCopies(reader, hits, options.limit);
}

/** Keeps the best of the records that say the same. */
async function withoutCopies(sql: Sql, hits: readonly Hit[], limit: number): Promise<Hit[]> {
  const kept: Hit[] = [];
  const said = new Set<string>();
  for (const hit of hits) {
    if (kept.length === limit) break;
    const row = await sql.one<{ terms: string }>(
      'SELECT terms FROM memory_index_records WHERE number = ?',
      hit.number,
    );
    if (row === undefined || said.has(row.terms)) continue;
    said.add(row.terms);
    kept.push(hit);
  }
  return kept;
}

async function searchScope(sql: Sql, scope: ScopeRow, options: SearchOptions): Promise<Hit[]> {
  const { query, nowMs, maxCandidates = CANDIDATES, isVisible } = options;
  const isSpeaker = async (term: string) => (await recordsWith(sql, scope.id, term)) > 0;
  const question = await readQuestion(query, nowMs, isSpeaker);
  const terms = await readTerms(sql, scope, question.terms.keys());
  const speakers = await readTerms(sql, scope, question.speakers);
  const own = terms.length > 0 ? matchEach(scope, terms) : matchNewest(scope, question, speakers);
  const surroundings = await loadSurroundings(sql, scope, best(own, maxCandidates));
  if (isVisible !== undefined) await surroundings.hideOthers(isVisible);
  return rank({ question, nowMs, own, terms, speakers, surroundings });
}
