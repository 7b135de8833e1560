// Recall: finds candidates word by word, then ranks them with what surrounds them in their
// conversation, who said it, when, and how important it is.
import type { Sql } from '../../../platform/sql/database.ts';
import type { ScopeRow } from './add.ts';
import { best } from './best.ts';
import { matchEach, matchNewest, readRelated, readTerms, type WeighedTerm } from './candidates.ts';
import { recordsWith } from './parts.ts';
import { proximityOf } from './proximity.ts';
import { type Question, readQuestion } from './question.ts';
import { addScores, type Ranked, rank, WEIGHTS, type Weights } from './rank.ts';
import { loadSurroundings, type Surroundings } from './surroundings.ts';

export type Hit = Ranked;

export type SearchOptions = {
  scopes: readonly string[];
  query: string;
  limit: number;
  nowMs: number;
  /** How many records that match best word by word are looked at closely, per scope. */
  maxCandidates?: number;
  /** Keeps others out of the hits, and out of what surrounds a hit. */
  /** Others than usual, to measure what each is worth. */
  weights?: Partial<Weights>;
  isVisible?: (numbers: readonly number[]) => Promise<ReadonlySet<number>>;
};

const CANDIDATES = 100;
const CANDIDATES_MAX = 5_000;
const MORE = 5;
/** How many times the limit is looked at for copies and proximity. */
const SPARE = 3;

/** The best records first. Scores of one scope do not depend on what another contains. */
export async function search(reader: Sql, options: SearchOptions): Promise<Hit[]> {
  const found: Found[] = [];
  for (const scope of new Set(options.scopes)) {
    const row = await reader.one<ScopeRow>(
      'SELECT id, next, records, terms FROM memory_index_scopes WHERE scope = ?',
      scope,
    );
    if (row !== undefined) found.push(...(await searchScope(reader, row, options)));
  }
  found.sort((a, b) => b.score - a.score || b.number - a.number);
  return withoutCopies(found).slice(0, options.limit);
}

async function searchScope(sql: Sql, scope: ScopeRow, options: SearchOptions): Promise<Found[]> {
  const { query, nowMs, limit } = options;
  const weights = { ...WEIGHTS, ...options.weights };
  const isSpeaker = async (term: string) => (await recordsWith(sql, scope.id, term)) > 0;
  const question = await readQuestion(query, nowMs, isSpeaker);
  const terms = await readTerms(sql, scope, question.terms.keys());
  const others = await readRelated(sql, scope, question, terms);
  const speakers = await readTerms(sql, scope, question.speakers);
  const isKnown = terms.length + others.length > 0;
  const own = isKnown ? matchEach(scope, terms) : matchNewest(scope, question, speakers);
  const related = matchEach(scope, others);
  const scores = addScores(own, related, weights);
  const surroundings = await findSurroundings(sql, scope, scores, options);
  const ranked = rank({ question, nowMs, own, related, terms, speakers, surroundings, weights });
  const near = { question, terms, weight: weights.proximity };
  return rankByProximity(sql, ranked.slice(0, SPARE * limit), near);
}

/** Looks at more candidates if too few of them are visible. */
async function findSurroundings(
  sql: Sql,
  scope: ScopeRow,
  scores: Float32Array,
  { maxCandidates = CANDIDATES, isVisible, limit }: SearchOptions,
): Promise<Surroundings> {
  for (let count = maxCandidates; ; count *= MORE) {
    const ordinals = best(scores, count);
    const surroundings = await loadSurroundings(sql, scope, ordinals);
    if (isVisible !== undefined) await surroundings.hideOthers(isVisible);
    const isEnough = surroundings.candidates.size >= SPARE * limit;
    if (isEnough || ordinals.length < count || count > CANDIDATES_MAX) return surroundings;
  }
}

type Found = Hit & { said: string };

/** Prefers records in which words that follow each other in the question are close together. */
async function rankByProximity(
  sql: Sql,
  ranked: readonly Hit[],
  {
    question,
    terms,
    weight,
  }: { question: Question; terms: readonly WeighedTerm[]; weight: number },
): Promise<Found[]> {
  const found: Found[] = [];
  for (const hit of ranked) {
    const row = await sql.one<{ terms: string }>(
      'SELECT terms FROM memory_index_records WHERE number = ?',
      hit.number,
    );
    const said = row!.terms;
    const proximity = 1 + weight * proximityOf(said.split(' '), question, terms);
    const reasons = proximity === 1 ? hit.reasons : { ...hit.reasons, proximity };
    found.push({ ...hit, score: hit.score * proximity, reasons, said });
  }
  return found;
}

/** Keeps the best of the records that say the same. */
function withoutCopies(found: readonly Found[]): Hit[] {
  const kept = new Map<string, Hit>();
  for (const { said, ...hit } of found) if (!kept.has(said)) kept.set(said, hit);
  return [...kept.values()];
}
