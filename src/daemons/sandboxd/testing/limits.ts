// Test helper: box limits that no test reaches.
import type { PlanLimits } from '../adapters/plan.ts';

export const LIMITS: PlanLimits = {
  wallMs: 20_000,
  cpuMs: 20_000,
  memoryBytes: 512 * 1024 * 1024,
  pids: 64,
  outputBytes: 4 * 1024 * 1024,
  nofile: 256,
  fsizeBytes: 64 * 1024 * 1024,
  graceMs: 0,
  cpuMilli: 0,
};
