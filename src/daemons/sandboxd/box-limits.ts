// What a box and a command in it may take, and the environment that every command has. Values in,
// values out.
import type { BoxRules, CommandLimits } from '../../wire/sandboxd.ts';
import { TOOL_BIN } from './adapters/host-places.ts';
import type { PlanLimits } from './adapters/plan.ts';
import type { SandboxdConfig } from './config.ts';

const YEAR_MS = 365 * 86_400_000;
const OUTPUT_MAX = 2 ** 40;
const NOFILE = 4_096;

/** The kernel looks for nothing: a plain name is looked for where the box's PATH says, by env. */
export function resolveProgram(argv: readonly string[]): string[] {
  return argv[0]!.startsWith('/') ? [...argv] : ['/usr/bin/env', '--', ...argv];
}

export function baseEnv(agent: string, home: string): Record<string, string> {
  return {
    PATH: `/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:${TOOL_BIN}`,
    HOME: home,
    USER: `agent-${agent}`,
    LOGNAME: `agent-${agent}`,
    LANG: 'C.UTF-8',
    TMPDIR: '/tmp',
    TERM: 'dumb',
  };
}

/** Of all its files together; 0: no limit. */
export function diskLimit(config: SandboxdConfig, rules: BoxRules): number {
  const asked = rules.resources?.disk_bytes ?? 0;
  const most = config.box_disk_bytes;
  return asked === 0 || most === 0 ? Math.max(asked, most) : Math.min(asked, most);
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

/** Never more than the box's. */
export function commandLimits(
  config: SandboxdConfig,
  asked: CommandLimits,
  box: PlanLimits,
): PlanLimits {
  return {
    wallMs: Math.min(asked.wall_ms ?? config.command_wall_ms, box.wallMs),
    cpuMs: Math.min(asked.cpu_ms ?? config.command_cpu_ms, box.cpuMs),
    memoryBytes: Math.min(asked.memory_bytes ?? box.memoryBytes, box.memoryBytes),
    pids: Math.min(asked.pids ?? box.pids, box.pids),
    outputBytes: Math.min(asked.output_bytes ?? config.command_output_bytes, box.outputBytes),
    nofile: box.nofile,
    fsizeBytes: box.fsizeBytes,
    graceMs: 0,
    cpuMilli: 0,
  };
}
