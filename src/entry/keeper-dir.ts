// The directory of root's that outlives every runtime: people's grants, by state directory. It is
// inside no state directory, because those belong to the daemons, who could replace what is there.
import { mkdirSync, realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { sha256Hex } from '../platform/json.ts';
import { assertTrustedDir } from '../platform/trusted-path.ts';

const KEEPER_DIR = '/var/lib/agentd-keeper';

/** Returns the directory; throws if it cannot be made, or if others than root could change it. */
export function prepareKeeperDir(env: Readonly<Record<string, string | undefined>>): string {
  const dir = env.AGENTD_KEEPER_DIR ?? KEEPER_DIR;
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const real = realpathSync(dir);
  assertTrustedDir(real, []);
  return real;
}

/** Another directory that gets the path of this state later does not get its grants. */
export function prepareGrantsDir(keeperDir: string, stateDir: string): string {
  const { dev, ino } = statSync(stateDir, { bigint: true });
  const name = sha256Hex(`${stateDir}\n${dev} ${ino}`).slice(0, 16);
  const dir = join(keeperDir, 'grants', name);
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  assertTrustedDir(dir, []);
  return dir;
}
