// Test helper: starts each test of a file with its own toold.
import { afterEach, beforeEach } from 'node:test';
import { hostToold, makeWorld, type TooldTestHost, type TooldWorld } from './host.ts';

/** Set for the current test. */
export let world: TooldWorld;
export let host: TooldTestHost;

export function setUpEachTest(): void {
  beforeEach(async () => {
    world = makeWorld();
    host = await hostToold(world);
  });
  afterEach(async () => {
    await host.stop();
    world.remove();
  });
}

/** Restarts toold on the same state directory, optionally with other settings. */
export async function restart(options: Parameters<typeof hostToold>[1] = {}): Promise<void> {
  await host.stop();
  host = await hostToold(world, options);
}
