// Recalls the memories that a query is about, from the scopes that the caller may read, as they
// were at a time. Every recall is an event.
import type { Clock } from '../../../platform/clock.ts';
import type { NewId } from '../../../platform/ids.ts';
import type { Outbox } from '../../../platform/outbox.ts';
import type { Database } from '../../../platform/sql/database.ts';
import type { RecalledMemory } from '../../../wire/memoryd/records.ts';
import { describePrincipal } from '../events.ts';
import { type Hit, search } from '../index/index.ts';
import { cutToTokens } from '../rules/tokens.ts';
import { toRecalled } from '../rules/view.ts';
import { type FoundVersion, filterVisible, findByNumbers } from '../store/read.ts';
import type { EmbeddedQuestion, EmbedQuestion } from '../vectors/question.ts';
import type { Finder } from './finder.ts';
import type { Actor, Rights } from './rights.ts';
import type { Texts } from './texts.ts';

export type RecallQuery = {
  /** Undefined: all that the caller may read. */
  scopes?: readonly string[] | undefined;
  query: string;
  limit: number;
  asOfMs?: number | undefined;
  maxTokens?: number | undefined;
  explain?: boolean | undefined;
  /** Only from the scopes that this agent may read. */
  agent?: string | undefined;
  /** No vector is made: nobody waits for a model. */
  wordsOnly?: boolean | undefined;
};

export type Recalled = {
  memories: RecalledMemory[];
  /** Why vectors were not used, if there are any. */
  words_only?: string;
  /** A stand-in made the vectors. */
  rehearsal?: true;
};
export type Recall = (actor: Actor, query: RecallQuery) => Promise<Recalled>;

/** Ids in an event: its values have up to 1,024 characters. */
const EVENT_IDS_MAX = 30;
/** Looked for beyond the limit, because equal texts are answered once. */
const SPARE_HITS = 10;

export function makeRecall(deps: {
  db: Database;
  outbox: Pick<Outbox, 'add' | 'wakeSoon'>;
  rights: Rights;
  finder: Finder;
  texts: Texts;
  clock: Clock;
  newId: NewId;
  embedQuestion: EmbedQuestion;
}): Recall {
  const { db, rights, finder, texts, clock, embedQuestion } = deps;
  const recordRecall = makeRecordRecall(deps);

  /** A named scope that the caller may not read is denied, also when it has no memories. */
  const findScopes = async (actor: Actor, { scopes, agent }: RecallQuery): Promise<string[]> => {
    for (const scope of scopes ?? []) {
      const decision = await rights.decide(actor, 'memory.read', scope);
      if (decision.answer !== 'allow')
        throw await rights.deny(actor, 'memory.read', scope, decision);
    }
    const readable = await finder.listReadableScopes(actor, scopes);
    if (agent === undefined) return readable;
    const both: string[] = [];
    for (const scope of readable)
      if (await rights.canRead({ principal: `agent:${agent}` }, scope)) both.push(scope);
    return both;
  };

  const find = (
    scopes: readonly string[],
    { query, limit, asOfMs }: RecallQuery,
    { vector }: EmbeddedQuestion,
  ) =>
    db.read(async (sql) => {
      const nowMs = asOfMs ?? clock.nowMs();
      const hits = await search(sql, {
        scopes,
        query,
        limit: limit + SPARE_HITS,
        nowMs,
        vector,
        isVisible: (numbers) => filterVisible(sql, numbers, nowMs),
      });
      const found = await findByNumbers(
        sql,
        hits.map(({ number }) => number),
      );
      const rows = new Map(found.map((row): [number, FoundVersion] => [Number(row.number), row]));
      return hits.flatMap((hit) => {
        const row = rows.get(hit.number);
        return row === undefined ? [] : [{ hit, row }];
      });
    });

  const load = async (
    found: readonly { hit: Hit; row: FoundVersion }[],
    { limit, maxTokens, explain = false }: RecallQuery,
  ): Promise<RecalledMemory[]> => {
    const recalled: RecalledMemory[] = [];
    const seen = new Set<string>();
    for (const { hit, row } of found) {
      const text = await texts.load(row);
      const key = `${row.about} ${text}`;
      if (text === null || seen.has(key)) continue;
      seen.add(key);
      const { score, words, reasons } = hit;
      const explained = explain ? { score, words, reasons } : { score };
      recalled.push(toRecalled(row, { row, text }, explained));
    }
    return cutToTokens(recalled, maxTokens).slice(0, limit);
  };

  return async (actor, query) => {
    const scopes = await findScopes(actor, query);
    const isAsked = scopes.length > 0 && query.wordsOnly !== true;
    const question = isAsked ? await embedQuestion(actor, query.query) : {};
    const found = scopes.length === 0 ? [] : await find(scopes, query, question);
    const memories = await load(found, query);
    await recordRecall(actor, memories);
    return { memories, ...describeQuestion(question) };
  };
}

function describeQuestion(question: EmbeddedQuestion): Omit<Recalled, 'memories'> {
  if (question.vector !== undefined) return question.isRehearsal ? { rehearsal: true } : {};
  return question.wordsOnly === undefined ? {} : { words_only: question.wordsOnly };
}

/** Writes the event that somebody read these memories. */
export type RecordRecall = (actor: Actor, found: readonly { id: string }[]) => Promise<void>;

export function makeRecordRecall({
  db,
  outbox,
  newId,
}: {
  db: Pick<Database, 'write'>;
  outbox: Pick<Outbox, 'add' | 'wakeSoon'>;
  newId: NewId;
}): RecordRecall {
  return async ({ principal, run }, found) => {
    await db.write((sql) =>
      outbox.add(sql, {
        id: newId<string>('recall'),
        event: 'memory.recalled',
        ...describePrincipal(principal),
        ...(run === undefined
          ? {}
          : {
              run_id: run.run_id,
              task_id: run.task_id,
              root_task_id: run.root_task_id,
              ...(run.call_id === undefined ? {} : { call_id: run.call_id }),
            }),
        data: {
          found: found.length,
          memories: found
            .slice(0, EVENT_IDS_MAX)
            .map(({ id }) => id)
            .join(' '),
        },
      }),
    );
    outbox.wakeSoon();
  };
}
