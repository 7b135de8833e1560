// For tests: a world of its own, with approvald in it, for each test of a file.
import { afterEach, beforeEach } from 'node:test';
import { type ApprovaldTestHost, type ApprovaldWorld, hostApprovald, makeWorld } from './host.ts';

/** Those of the test that runs now. */
export let world: ApprovaldWorld;
export let host: ApprovaldTestHost;

export function freshForEach(): void {
  beforeEach(async () => {
    world = makeWorld();
    host = await hostApprovald(world);
  });
  afterEach(async () => {
    await host.stop();
    world.remove();
  });
}

/** The next approvald takes over the state directory, with other settings if there are any. */
export async function restart(
  config: Parameters<typeof hostApprovald>[1] = {},
  meanwhile: () => void = () => {},
): Promise<void> {
  await host.stop();
  meanwhile();
  host = await hostApprovald(world, config);
}
