// Test helper: starts each test of a file with its own memoryd.
import { afterEach, beforeEach } from 'node:test';
import type { MemoryView } from '../../../wire/memoryd/records.ts';
import { hostMemoryd, type MemoryHost, type MemoryWorld, makeWorld } from './host.ts';

/** Set for the current test. */
export let world: MemoryWorld;
export let host: MemoryHost;

export function setUpEachTest(): void {
  beforeEach(async () => {
    world = makeWorld();
    host = await hostMemoryd(world);
  });
  afterEach(async () => {
    await host.stop();
    world.remove();
  });
}

/** Restarts memoryd on the same state directory. */
export async function restart(meanwhile: () => void = () => {}): Promise<void> {
  await host.stop();
  meanwhile();
  host = await hostMemoryd(world);
}

export async function publish(rules: string): Promise<void> {
  world.publish(rules);
  await restart();
}

export async function findTexts(
  query: string,
  more: object = {},
  client = host.alice,
): Promise<string[]> {
  const { memories } = await client.recall({ body: { query, ...more } });
  return memories.map(({ text }) => text).toSorted();
}

export const getMemory = async (id: MemoryView['id'], client = host.alice): Promise<MemoryView> =>
  (await client.getMemory({ params: { id } })).memory;

export const hasCode = (code: string) => (error: unknown) =>
  (error as { code?: string }).code === code;
