// Test helper: starts each test of a file with its own approvald.
import { afterEach, beforeEach } from 'node:test';
import { type ApprovaldTestHost, type ApprovaldWorld, hostApprovald, makeWorld } from './host.ts';

/** Set for the current test. */
export let world: ApprovaldWorld;
export let host: ApprovaldTestHost;

export function setUpEachTest(): void {
  beforeEach(async () => {
    world = makeWorld();
    host = await hostApprovald(world);
  });
  afterEach(async () => {
    await host.stop();
    world.remove();
  });
}

/** Restarts approvald on the same state directory, optionally with other settings. */
export async function restart(
  config: Parameters<typeof hostApprovald>[1] = {},
  meanwhile: () => void = () => {},
): Promise<void> {
  await host.stop();
  meanwhile();
  host = await hostApprovald(world, config);
}
