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

type RuntimePlace = Pick<TestRuntime, 'runtimeDir'>;

type Leftover = {
  /** A control: looking in the wrong directory would find nothing as well. */
  hasWarden: boolean;
  processes: string[];
  cgroups: number;
  mounts: string[];
  sockets: string[];
};
const NOTHING: Leftover = { hasWarden: true, processes: [], cgroups: 0, mounts: [], sockets: [] };

function leftOf({ runtimeDir }: RuntimePlace): Leftover {
  const warden = wardenPaths(runtimeDir).dir;
  const all = new Map(
    [...processesIn(warden), ...processesOf(warden)].map(({ pid, name }) => [pid, name]),
  );
  // A zombie holds nothing.
  const of = (wanted: (name: string) => boolean) =>
    [...all].filter(([pid, name]) => wanted(name) && !isExiting(pid));
  const spares = of((name) => name === 'box-spare');
  const { boxes } = cgroupsAt(warden);
  return {
    hasWarden: of((name) => name === 'warden').length > 0,
    processes: of((name) => !OWN.has(name)).map(([pid, name]) => `${pid} ${name}`),
    // A spare box has one; without cgroups there is nothing to count.
    cgroups: boxes.length === 0 ? 0 : boxes.length - spares.length,
    mounts: mountsOf(runtimeDir, process.pid),
    sockets: DAEMONS.flatMap((name) =>
      readdirSync(join(runtimeDir, name))
        .filter((entry) => /^(run|spare)_/.test(entry))
        .map((entry) => `${name}/${entry}`),
    ),
  };
}

/** Asserts that a running, idle runtime has left nothing, spare runners included. */
export async function assertNothingLeft(runtime: RuntimePlace): Promise<void> {
  let left: Leftover | undefined;
  const isClean = () => {
    left = leftOf(runtime);
    return JSON.stringify(left) === JSON.stringify(NOTHING);
  };
  // The kernel reaps asynchronously.
  await eventually('nothing to be left', async () => (isClean() ? true : undefined), 30_000).catch(
    () => assert.deepEqual(left, NOTHING),
  );
}

/** Asserts that an ended runtime has left nothing. */
export async function assertHostClean({ runtimeDir }: RuntimePlace): Promise<void> {
  const warden = wardenPaths(runtimeDir).dir;
  const list = () => ({
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
    async () => (JSON.stringify(list()) === JSON.stringify(none) ? true : undefined),
    30_000,
  ).catch(() => assert.deepEqual(list(), none));
}
