// Finds out how agents would work on a directory without changing it, by trying: on an overlay, on
// a copy, or not at all.
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { isFault } from '../../platform/daemon.ts';
import type { LayerMechanism } from '../../wire/sandboxd/layers.ts';
import type { Warden } from './adapters/warden.ts';
import type { HostUser } from './identities.ts';
import type { WithBoxfs } from './layer-boxfs.ts';
import { isOverlayRefusal } from './layer-copies.ts';

export type LayerProbe = (path: string) => Promise<LayerMechanism>;

export function makeLayerProbe(options: {
  /** Without links. */
  stateDir: string;
  warden: Pick<Warden, 'layer' | 'chown' | 'deleteTree'>;
  withBoxfs: WithBoxfs;
  /** Any user that boxes of a tree may have. */
  user: HostUser;
  ownUsers: boolean;
}): LayerProbe {
  const { warden, user } = options;
  let made = 0;

  const tryMount = async (path: string, dir: string): Promise<LayerMechanism> => {
    for (const part of ['work', 'upper']) {
      mkdirSync(join(dir, part), { recursive: true, mode: 0o700 });
      if (options.ownUsers) await warden.chown({ path: join(dir, part), ...user });
    }
    try {
      const layer = await warden.layer({ ...user, lower: path, sealed: [], dir });
      await layer.close();
      return { mechanism: 'overlay', reason: null };
    } catch (error) {
      if (!isOverlayRefusal(error)) throw error;
      // It is read through the same mount with mapped owners.
      const shown = [{ kind: 'ro', src: path, dst: '/target', owned: true }] as const;
      await options.withBoxfs(user, shown, async () => undefined);
      return { mechanism: 'copy', reason: toReason(error) };
    }
  };

  return async (path) => {
    const dir = join(options.stateDir, 'workspaces', `.pruned-probe${++made}-layers-0`);
    try {
      return await tryMount(path, dir);
    } catch (error) {
      if (!isFault(error)) throw error;
      return { mechanism: 'none', reason: toReason(error) };
    } finally {
      await warden.deleteTree(dir).catch(() => rmSync(dir, { recursive: true, force: true }));
    }
  };
}

const toReason = ({ message }: { message: string }): string =>
  message.replace(/^the warden refused: /, '');
