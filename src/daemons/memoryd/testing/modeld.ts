// Test helper: a modeld whose model knows some synonyms, so that texts without a common word can
// mean the same.
import type { RunningDaemon } from '../../../platform/daemon.ts';
import { makeDispatch } from '../../../platform/dispatch.ts';
import { silentLog } from '../../../platform/log.ts';
import { makeMetrics } from '../../../platform/metrics.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import { type EmbedMemories, modeldRoutes } from '../../../wire/modeld.ts';

export type FakeModel = {
  name: string;
  orders: EmbedMemories[];
  /** Thrown instead of an answer. */
  refuse(order: EmbedMemories): Fault | undefined;
  /** Awaited before the answer. */
  answers: Promise<void>;
};

export const makeFakeModel = (): FakeModel => ({
  name: 'synonyms-1',
  orders: [],
  refuse: () => undefined,
  answers: Promise.resolve(),
});

/** One dimension for each; the last is for what has none of these words. */
const TOPICS = [/azalea|rhododendron/i, /kestrel|windhover/i, /rain|drizzle/i];

function embed(text: string): number[] {
  const found = TOPICS.map((topic) => (topic.test(text) ? 3 : 0));
  return [...found, found.some((n) => n > 0) ? 0 : 3];
}

export function fakeModeld(model: FakeModel): RunningDaemon {
  const nothing = async () => {};
  const { embedMemories } = modeldRoutes;
  const usage = {
    input_tokens: 1,
    output_tokens: 0,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    reasoning_tokens: 0,
  };
  const dispatch = makeDispatch({
    routes: { embedMemories },
    handlers: {
      async embedMemories({ body, signal }) {
        model.orders.push(body);
        const left = new Promise<void>((_, reject) =>
          signal.addEventListener('abort', () => reject(fault('canceled', 'memoryd has left'))),
        );
        await Promise.race([model.answers, left]);
        const refused = model.refuse(body);
        if (refused !== undefined) throw refused;
        return {
          call_id: `call_${'0'.repeat(26)}` as never,
          model: model.name,
          provider: 'fake',
          rehearsal: false,
          embeddings: body.input.map(({ text }) => embed(text)),
          usage,
          cost_microusd: 1,
          recorded: false,
        };
      },
    },
    log: silentLog,
    metrics: makeMetrics('modeld'),
  });
  return { name: 'modeld', dispatch, begin: nothing, drain: nothing, stop: nothing };
}
