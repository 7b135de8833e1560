// memoryd's section of agentd.yaml: how large a memory may be, how long it
// is kept, and what makes its vector.
import * as z from 'zod';

const YEARS_100_S = 3_153_600_000;

export const memorydConfig = z.strictObject({
  /** The largest text of one memory. */
  text_bytes_max: z.int().min(1_024).max(12_000_000).default(12_000_000),
  /**
   * How long memories are kept, by class (`episodic`), by scope and what is below it
   * (`agent:coder`), or by both (`episodic agent:coder`). The most specific one applies.
   */
  expires_s_for: z.record(z.string().max(256), z.int().min(1).max(YEARS_100_S)).default({}),
  /** The model that makes vectors of memories; without one, recall goes by words alone. */
  embedding_model: z.string().min(1).max(128).optional(),
});
export type MemorydConfig = z.output<typeof memorydConfig>;
