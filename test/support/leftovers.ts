// Lists what an idle runtime must not leave on the host: processes of boxes, cgroups, mounts,
// sockets of runs.
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { wardenPaths } from '../../src/daemons/sandboxd/bounds.ts';
import { DAEMONS } from '../../src/wire/daemons.ts';
import {
  cgroupsAt,
  isExiting,
  mountsOf,
  processesIn,
  processesOf,
} from '../escape/support/host.ts';
import { eventually, type TestRuntime } from './runtime.ts';

const OWN = new Set(['warden', 'warden-janitor', 'box-spare']);

type Left = {
  /** Who looks in the wrong place finds nothing, and nothing is what is hoped for. */
  hasWarden: boolean;
  processes: string[];
  cgroups: number;
  mounts: string[];
  sockets: string[];
};
const NOTHING: Left = { hasWarden: true, processes: [], cgroups: 0, mounts: [], sockets: [] };

function leftOf({ runtimeDir }: TestRuntime): Left {
  const warden = wardenPaths(runtimeDir).dir;
  const all = new Map(
    [...processesIn(warden), ...processesOf(warden)].map((one) => [one.pid, one.name]),
  );
  // One that is dead, and waits for its parent to say so, has nothing any more.
  const of = (wanted: (name: string) => boolean) =>
    [...all].filter(([pid, name]) => wanted(name) && !isExiting(pid));
  const spares = of((name) => name === 'box-spare');
  const { boxes } = cgroupsAt(warden);
  return {
    hasWarden: of((name) => name === 'warden').length > 0,
    processes: of((name) => !OWN.has(name)).map(([pid, name]) => `${pid} ${name}`),
    // A box that waits to be used has one; where there are none at all, there is none to be left.
    cgroups: boxes.length === 0 ? 0 : boxes.length - spares.length,
    mounts: mountsOf(runtimeDir, process.pid),
    sockets: DAEMONS.flatMap((name) =>
      readdirSync(join(runtimeDir, name))
        .filter((entry) => entry.startsWith('run_'))
        .map((entry) => `${name}/${entry}`),
    ),
  };
}

/** While it runs, and nothing is in hand. */
export async function nothingLeft(runtime: TestRuntime): Promise<void> {
  let left: Left | undefined;
  const isClean = () => {
    left = leftOf(runtime);
    return JSON.stringify(left) === JSON.stringify(NOTHING);
  };
  // The dead take a moment to go.
  await eventually('nothing to be left', async () => (isClean() ? true : undefined), 30_000).catch(
    () => assert.deepEqual(left, NOTHING),
  );
}

/** After it has ended. */
export async function nothingAtAll({ runtimeDir }: TestRuntime): Promise<void> {
  const warden = wardenPaths(runtimeDir).dir;
  const look = () => ({
    processes: [...processesIn(warden), ...processesOf(runtimeDir)].filter(
      ({ pid }) => !isExiting(pid),
    ),
    cgroups: cgroupsAt(warden).own,
    mounts: mountsOf(runtimeDir, process.pid),
    isThere: existsSync(runtimeDir) || existsSync(warden),
  });
  const none = { processes: [], cgroups: [], mounts: [], isThere: false };
  await eventually(
    'nothing to be left',
    async () => (JSON.stringify(look()) === JSON.stringify(none) ? true : undefined),
    30_000,
  ).catch(() => assert.deepEqual(look(), none));
}
