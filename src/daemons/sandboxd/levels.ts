// Probes this host: each level by running a program in it, each feature by the warden's report. A
// missing one is reported with its cause and a fix.
import { existsSync } from 'node:fs';
import { fault } from '../../wire/errors.ts';
import type { FeaturesView, Probe, SandboxLevel } from '../../wire/sandboxd.ts';
import { systemBinds } from './adapters/host-paths.ts';
import type { PlanLimits, WardenPlan } from './adapters/plan.ts';
import type { Warden } from './adapters/warden.ts';
import type { SandboxdConfig } from './config.ts';
import type { Identities } from './identities.ts';

export const NOT_BUILT: Partial<Record<SandboxLevel, string>> = {
  L0: 'L0 is for the daemons themselves, not for boxes',
  L3: 'L3 needs a user-space kernel (gVisor) or a microVM, which this version does not start',
  L4: 'L4 is L3 with approval and egress, and this version does not start L3',
};

export function assertLevel(level: SandboxLevel): asserts level is 'L1' | 'L2' {
  const why = NOT_BUILT[level];
  if (why === undefined) return;
  throw fault('level_unavailable', why, { hint: 'Use L2.' });
}

const PROBE_LIMITS: PlanLimits = {
  wallMs: 5_000,
  cpuMs: 5_000,
  memoryBytes: 256 * 1024 * 1024,
  pids: 16,
  outputBytes: 65_536,
  nofile: 64,
  fsizeBytes: 1_048_576,
  graceMs: 0,
  cpuMilli: 0,
};

/** Limits that a cgroup enforces for a whole box, and the warden's substitute without one. */
const CGROUP_LIMITS: Record<string, { held: string; instead: string }> = {
  memory: {
    held: 'a limit of memory for the whole box',
    instead: 'the warden adds it up ten times a second and ends a box that is over',
  },
  pids: {
    held: 'a limit of processes for the whole box',
    instead: 'the warden counts them ten times a second and ends a box that is over',
  },
  cpu: {
    held: 'the processor time of the whole box',
    instead: 'the warden adds up that of its processes ten times a second',
  },
  tree: {
    held: 'the end of all its processes at once',
    instead: 'the warden ends them by their process namespace, in L1 one by one',
  },
};
const QUOTA = 'how much of the processors a box may have (resources.cpu)';

/** Suggests how to get a delegated cgroup scope, or root. */
const suggestCgroupFix = (): string =>
  existsSync('/run/systemd/system')
    ? 'agentctl down; systemd-run --user --scope -p Delegate=yes agentctl up'
    : 'start the runtime as root, or where systemd gives users scopes of their own';

export type Levels = {
  view(): Promise<FeaturesView>;
  /** Throws when this host does not support the runners' level. */
  assertRunners(): Promise<void>;
};

function probeUsers({ mode, refused }: Pick<Identities, 'mode' | 'refused'>): Probe {
  const name = 'users';
  if (mode === 'single') {
    const detail = 'every agent runs as this user; the kernel keeps them apart by namespaces only';
    return { name, works: false, detail, fix: 'start the runtime as root' };
  }
  const faults = refused();
  if (faults.length === 0)
    return { name, works: true, detail: 'every agent has a Linux user of its own', fix: null };
  const detail = faults.map(({ message }) => message).join('; ');
  return { name, works: false, detail, fix: faults[0]!.hint };
}

export function makeLevels(options: {
  config: SandboxdConfig;
  warden: Pick<Warden, 'features' | 'start'>;
  identities: Pick<Identities, 'mode' | 'nobody' | 'refused'>;
}): Levels {
  const { config, warden, identities } = options;
  const binds = systemBinds(config.system_paths);
  const program = '/usr/bin/true';

  const probeLevel = async (level: 1 | 2, seen: Map<string, string>): Promise<Probe> => {
    const name = `L${level}`;
    try {
      const plan: WardenPlan = {
        id: 'doctor',
        level,
        profile: 'tool',
        ...identities.nobody,
        args: [program],
        cwd: '/',
        binds: level === 2 ? binds : binds.filter(({ kind }) => kind === 'ro'),
        limits: PROBE_LIMITS,
      };
      const command = await warden.start(plan);
      command.stdinEnd();
      command.discard();
      const exit = await command.ended;
      if (exit === 'gone') throw fault('unavailable', 'the warden died');
      if (exit.exitCode !== 0)
        throw fault('sandbox_refused', `${program} ended with ${exit.signal}`);
      return { name, works: true, detail: `${program} ran in it`, fix: null };
    } catch (error) {
      const { code, message, hint } = error as { code?: string; message: string; hint?: string };
      const works = seen.get(`level${level}`) === 'yes';
      if (code === 'halted')
        return { name, works, detail: 'not probed: everything is halted', fix: null };
      const fix = works ? undefined : seen.get('fix');
      return { name, works: false, detail: message, fix: fix || hint || null };
    }
  };

  return {
    async view() {
      const seen = await warden.features();
      const get = (name: string) => seen.get(name) ?? '';
      const fix = get('fix') === '' ? null : get('fix');
      const mode = get('mode') === 'root' ? 'root' : 'user';
      const held = Object.entries(CGROUP_LIMITS).map(([name, what]): Probe => {
        const { held: does, instead } = what;
        const works = get(name) !== 'none';
        return works
          ? { name, works, detail: `cgroup ${get(name)} holds ${does}`, fix: null }
          : {
              name,
              works,
              detail: `no cgroup holds ${does}: ${instead}`,
              fix: suggestCgroupFix(),
            };
      });
      return {
        warden: { version: Number(get('version')), mode },
        identity: identities.mode,
        levels: [
          await probeLevel(1, seen),
          await probeLevel(2, seen),
          ...(['L3', 'L4'] as const).map(
            (name): Probe => ({ name, works: false, detail: NOT_BUILT[name]!, fix: null }),
          ),
        ],
        features: [
          {
            name: 'landlock',
            works: Number(get('landlock')) > 0,
            detail: `Landlock ABI ${get('landlock')}`,
            fix: Number(get('landlock')) > 0 ? null : 'boot with lsm=landlock,… (kernel 5.13 on)',
          },
          {
            name: 'namespaces',
            works: get('namespaces') === 'yes',
            detail:
              get('missing') === '' ? 'user, mount, pid, net, ipc, uts, cgroup' : get('missing'),
            fix,
          },
          ...held,
          get('quota') === 'none'
            ? {
                name: 'quota',
                works: false,
                detail: `no cgroup holds ${QUOTA}: it may have all of them`,
                fix: 'start the runtime as root, or where the cpu controller is delegated',
              }
            : {
                name: 'quota',
                works: true,
                detail: `cgroup ${get('quota')} holds ${QUOTA}`,
                fix: null,
              },
          probeUsers(identities),
          probeLayers(get('layers')),
        ],
      };
    },
    async assertRunners() {
      const seen = await warden.features();
      if (seen.get('level2') === 'yes') return;
      const why = seen.get('missing') || `Landlock is missing (ABI ${seen.get('landlock')})`;
      const command = seen.get('fix') || 'agentctl doctor';
      throw fault(
        'level_unavailable',
        `this host does not support L2 sandboxes, which runners need: ${why}`,
        { hint: command },
      );
    },
  };
}

/** `found`: the warden's, which mounts one at its start; where a layer is wanted it may differ. */
function probeLayers(found: string): Probe {
  const name = 'layers';
  if (found === 'root' || found === 'user')
    return {
      name,
      works: true,
      detail: 'overlays over directories of people; copies where none can be mounted',
      fix: null,
    };
  const [, isCopy, reason = 'an older warden'] = /^(copy|no): (.*)$/.exec(found) ?? [];
  if (isCopy === 'copy')
    return { name, works: true, detail: `copies of directories of people: ${reason}`, fix: null };
  return {
    name,
    works: false,
    detail: reason,
    fix: 'keep the state directory on ext4, xfs, btrfs or tmpfs; or use --live',
  };
}

/** L1 uses the host's own tree: there is no box to keep open, and no /workspace. */
export function assertBoxLevel(level: SandboxLevel): asserts level is 'L2' {
  assertLevel(level);
  if (level === 'L2') return;
  throw fault('level_unavailable', `${level} has no open boxes, only single commands`, {
    hint: 'Ask for L2.',
  });
}
