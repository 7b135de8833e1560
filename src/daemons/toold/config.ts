// toold's section of agentd.yaml: every field has a safe default, a unit and a limit.
import * as z from 'zod';

export const tooldConfig = z.strictObject({
  /** A larger result is stored as an artifact, and the model gets a preview and the reference. */
  result_size_bytes_max: z.int().min(1_024).max(4_000_000).default(262_144),
  /** This many equal calls in a row trip the breaker. */
  breaker_repeats_max: z.int().min(2).max(1_000).default(6),
  /** This many calls in a row without a new outcome trip it too. */
  breaker_stale_calls_max: z.int().min(2).max(10_000).default(40),
  calls_in_flight_per_run_max: z.int().min(1).max(1_024).default(64),
  /** The commands that tests.run may run, by name; an agent that names none gets `default`. */
  tests: z
    .record(z.string().min(1).max(64), z.array(z.string().max(4_096)).min(1).max(64))
    .default({}),
  /** The directory of tools declared in YAML; absent: tools in the state directory. */
  tools_dir: z.string().min(1).max(4_096).optional(),
  /**
   * A declared tool with this many violations within the window in one task tree is suspended
   * there; with twice as many across trees, for all. 0: never.
   */
  violations_max: z.int().min(0).max(1_000).default(5),
  violations_within_s: z.int().min(1).max(2_592_000).default(3_600),
  /** Total bytes that one run may send and receive through egressd. */
  egress_bytes_max: z.int().min(0).default(1_073_741_824),
  /** How long shutdown waits for calls in flight before it aborts them. */
  drain_wait_ms: z.int().min(0).max(60_000).default(5_000),
  /** Tools with a counted effect, for fault tests only. */
  test_tools: z.boolean().default(false),
  /** The file that test.count_effect appends to; absent: test-effects in the state directory. */
  test_effect_file: z.string().min(1).max(4_096).optional(),
});
export type TooldConfig = z.output<typeof tooldConfig>;
