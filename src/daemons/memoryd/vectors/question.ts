// Makes the vector of a question, or says why it is searched by words only.
import { Fault } from '../../../wire/errors.ts';
import type { Label } from '../../../wire/primitives.ts';
import type { QuestionVector } from '../index/index.ts';
import type { Actor } from '../service/rights.ts';
import type { Embedder } from './embedder.ts';

/** A person or a run waits for it. */
const WAIT_MS = 1_000;
const CHARS_MAX = 6_000;

export type EmbeddedQuestion =
  | { vector: QuestionVector; isRehearsal: boolean }
  /** No embedder, if there is no reason. */
  | { vector?: undefined; wordsOnly?: string };

export type EmbedQuestion = (actor: Actor, query: string) => Promise<EmbeddedQuestion>;

export function makeEmbedQuestion(embedder: Embedder | undefined): EmbedQuestion {
  return async ({ principal, run }, query) => {
    if (embedder === undefined) return {};
    const author: Label = run === undefined ? 'person' : 'agent';
    const order = {
      texts: [{ text: query.slice(0, CHARS_MAX) }],
      // Who reads marked text asks about it.
      labels: [...new Set([author, ...(run?.labels ?? [])])],
      principal,
      runId: run?.run_id,
    };
    try {
      const { model, vectors, isRehearsal } = await embedder.embed(order, { deadlineMs: WAIT_MS });
      return { vector: { model, vector: vectors[0]! }, isRehearsal };
    } catch (error) {
      return { wordsOnly: error instanceof Fault ? error.message : 'its vector cannot be made' };
    }
  };
}
