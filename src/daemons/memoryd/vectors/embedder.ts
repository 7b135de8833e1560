// The embedder, which makes vectors of texts, as memoryd sees it; and the one there is: a model,
// through modeld.
import type { Client } from '../../../platform/link.ts';
import { fault } from '../../../wire/errors.ts';
import type { MemoryId } from '../../../wire/memoryd/records.ts';
import type { modeldRoutes } from '../../../wire/modeld.ts';
import type { Label, Principal, RunId } from '../../../wire/primitives.ts';

/** Texts with the same labels, and the same payer. */
export type VectorOrder = {
  texts: readonly { text: string; memory?: { id: MemoryId; version: number } }[];
  labels: readonly Label[];
  principal: string;
  runId?: RunId | undefined;
};

export type MadeVectors = {
  /** Vectors of different models do not compare. */
  model: string;
  /** A stand-in made them. */
  isRehearsal: boolean;
  /** One for each text, of length 1. */
  vectors: Float32Array[];
};

export type Embedder = {
  /** As it is configured. */
  readonly name: string;
  embed(
    order: VectorOrder,
    options: { deadlineMs: number; signal?: AbortSignal },
  ): Promise<MadeVectors>;
};

export function makeModelEmbedder(
  name: string,
  modeld: Pick<Client<typeof modeldRoutes>, 'embedMemories'>,
): Embedder {
  return {
    name,
    async embed({ texts, labels, principal, runId }, options) {
      const made = await modeld.embedMemories(
        {
          body: {
            model: name,
            input: texts.map(({ text, memory }) =>
              memory === undefined ? { text } : { text, memory },
            ),
            labels: [...labels],
            principal: principal as Principal,
            ...(runId === undefined ? {} : { run_id: runId }),
          },
        },
        options,
      );
      const vectors = made.embeddings.map(toUnit).filter((vector) => vector !== undefined);
      if (vectors.length !== texts.length)
        throw fault('provider_refused', `${made.model} made no vector of some texts`);
      return { model: made.model, isRehearsal: made.rehearsal, vectors };
    },
  };
}

/** Undefined for one without a direction. */
function toUnit(numbers: readonly number[]): Float32Array | undefined {
  const length = Math.hypot(...numbers);
  if (!Number.isFinite(length) || length === 0) return undefined;
  return Float32Array.from(numbers, (number) => number / length);
}
