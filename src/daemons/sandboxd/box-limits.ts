// Computes the limits of a box and of its commands.
import type { BoxRules, CommandLimits } from '../../wire/sandboxd.ts';
import type { PlanLimits } from './adapters/plan.ts';
import type { SandboxdConfig } from './config.ts';

const YEAR_MS = 365 * 86_400_000;
const OUTPUT_MAX = 2 ** 40;
const NOFILE = 4_096;

/** Limit of all files of a box together; 0: no limit. */
export function diskLimit(config: SandboxdConfig, rules: BoxRules): number {
  const requested = rules.resources?.disk_bytes ?? 0;
  const max = config.box_disk_bytes;
  return requested === 0 || max === 0 ? Math.max(requested, max) : Math.min(requested, max);
}

export function boxLimits(config: SandboxdConfig, rules: BoxRules): PlanLimits {
  const { memory_bytes, pids, cpu_ms, cpu } = rules.resources ?? {};
  return {
    wallMs: YEAR_MS,
    cpuMs: cpu_ms ?? YEAR_MS,
    memoryBytes: Math.min(memory_bytes ?? Number.POSITIVE_INFINITY, config.box_memory_bytes),
    pids: Math.min(pids ?? Number.POSITIVE_INFINITY, config.box_pids),
    outputBytes: OUTPUT_MAX,
    nofile: NOFILE,
    fsizeBytes: config.file_bytes_max,
    graceMs: 0,
    cpuMilli: cpu === undefined ? 0 : Math.max(1, Math.round(cpu * 1_000)),
  };
}

export function commandLimits(
  config: SandboxdConfig,
  requested: CommandLimits,
  box: PlanLimits,
): PlanLimits {
  return {
    wallMs: Math.min(requested.wall_ms ?? config.command_wall_ms, box.wallMs),
    cpuMs: Math.min(requested.cpu_ms ?? config.command_cpu_ms, box.cpuMs),
    memoryBytes: Math.min(requested.memory_bytes ?? box.memoryBytes, box.memoryBytes),
    pids: Math.min(requested.pids ?? box.pids, box.pids),
    outputBytes: Math.min(requested.output_bytes ?? config.command_output_bytes, box.outputBytes),
    nofile: box.nofile,
    fsizeBytes: box.fsizeBytes,
    graceMs: 0,
    cpuMilli: 0,
  };
}
