// Recall: finds candidates word by word, then ranks them with what surrounds them in their
// conversation, who said it, when, and how important it is.
import type { Sql } from '../../../platform/sql/database.ts';
import type { ScopeRow } from './add.ts';
import { best } from './best.ts';
import { matchEach, matchNewest, readRelated, readTerms, type WeighedTerm } from './candidates.ts';
import { matchMeaning, type QuestionVector, worthOfMeaning } from './meaning.ts';
import { recordsWith } from './parts.ts';
import { proximityOf } from './proximity.ts';
import { type Question, readQuestion } from './question.ts';
import { addScores, MEANING_WEIGHT, type Ranked, rank, WEIGHTS, type Weights } from './rank.ts';
import { loadSurroundings, type Surroundings } from './surroundings.ts';

export type Hit = Ranked;

export type SearchOptions = {
  scopes: readonly string[];
  query: string;
  limit: number;
  nowMs: number;
  /** How many records that match best word by word are looked at closely, per scope. */
  maxCandidates?: number;
  /** The query's. Without one it is searched by words only. */
  vector?: QuestionVector | undefined;
  /** Others than usual, to measure what each is worth. */
  weights?: Partial<Weights>;
  /** Keeps others out of the hits, and out of what surrounds a hit. */
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
    const row = await reader.one<NamedScope>(
      'SELECT id, scope, next, records, terms FROM memory_index_scopes WHERE scope = ?',
      scope,
    );
    if (row !== undefined) found.push(...(await searchScope(reader, row, options)));
  }
  found.sort((a, b) => b.score - a.score || b.number - a.number);
  return withoutCopies(found).slice(0, options.limit);
}

type NamedScope = ScopeRow & { scope: string };

async function searchScope(sql: Sql, scope: NamedScope, options: SearchOptions): Promise<Found[]> {
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
  const meaning = await weighMeaning(sql, scope, terms, options.vector);
  const matched = { own, related, meaning };
  const scores = addScores(matched, weights);
  const surroundings = await findSurroundings(sql, scope, scores, options);
  const ranked = rank({ ...matched, question, nowMs, terms, speakers, surroundings, weights });
  const near = { question, terms, weight: weights.proximity };
  return rankByProximity(sql, ranked.slice(0, SPARE * limit), near);
}

async function weighMeaning(
  sql: Sql,
  scope: NamedScope,
  terms: readonly WeighedTerm[],
  vector: QuestionVector | undefined,
): Promise<Float32Array | undefined> {
  if (vector === undefined) return undefined;
  const weight = MEANING_WEIGHT * worthOfMeaning(scope, terms);
  return (await matchMeaning(sql, scope, vector)).map((share) => weight * share);
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
