// Runs boxfs in a box of a tree's user that has nothing but these directories: no network, and no
// program of an agent.
import type { Clock } from '../../platform/clock.ts';
import type { NewId } from '../../platform/ids.ts';
import type { Log } from '../../platform/log.ts';
import type { BoxId } from '../../wire/primitives.ts';
import { type BoxfsClient, type BoxfsRoot, boxfsArgs, openBoxfs } from './adapters/boxfs-client.ts';
import type { Bind } from './adapters/plan.ts';
import type { Warden } from './adapters/warden.ts';
import { BOXFS, toDuplex } from './box-files.ts';
import { boxLimits } from './box-limits.ts';
import type { SandboxdConfig } from './config.ts';
import type { HostUser } from './identities.ts';

export type WithBoxfs = <T>(
  user: HostUser,
  shown: readonly Bind[],
  work: (boxfs: BoxfsClient) => Promise<T>,
) => Promise<T>;

const RULES = { read: [], write: [], deny: [] };

export function makeWithBoxfs(options: {
  config: SandboxdConfig;
  warden: Pick<Warden, 'open'>;
  /** The programs of agentd. */
  tools: readonly Bind[];
  newId: NewId;
  clock: Clock;
  log: Log;
}): WithBoxfs {
  const { config, warden, clock, log } = options;
  return async (user, shown, work) => {
    const limits = boxLimits(config, RULES);
    const box = await warden.open({
      id: options.newId<BoxId>('box'),
      level: 2,
      profile: 'tool',
      ...user,
      user: 'agent-layer',
      binds: [...options.tools, ...shown],
      ownerRights: true,
      limits,
    });
    try {
      const roots = shown.map(toRoot);
      const args = [BOXFS, ...boxfsArgs(roots)];
      const command = await box.exec({ args, env: {}, cwd: '/', limits });
      const boxfs = await openBoxfs({ stream: toDuplex(command, log), roots, clock });
      return await work(boxfs).finally(() => boxfs.close());
    } finally {
      await box.close();
    }
  };
}

const isWritable = ({ kind, readonly }: Bind): boolean =>
  kind === 'rw' || (kind === 'layer' && readonly !== true);
const toRoot = (bind: Bind): BoxfsRoot => ({ path: bind.dst, writable: isWritable(bind) });
