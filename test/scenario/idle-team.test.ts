// A team with nothing to do: no model call, no run, no event in the log, and no more timers than
// one agent has. The clock is injected, so ten minutes pass in a moment.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { allEvents } from '../support/reconcile.ts';
import { eventually } from '../support/runtime.ts';
import {
  doTask,
  manifestOf,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

const AGENTS = 20;
const SECONDS = 600;
const nameOf = (n: number): string => `keeper-${n}`;
const team = (count: number) =>
  Object.fromEntries(
    Array.from({ length: count }, (_, n) => [nameOf(n), manifestOf(nameOf(n))] as const),
  );

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** Resolves once the log has been quiet for a moment. */
async function settle(world: ScriptedWorld): Promise<number> {
  let size = -1;
  return eventually('the log to be quiet', async () => {
    const was = size;
    size = (await allEvents(world)).length;
    await new Promise((resolve) => setTimeout(resolve, 300));
    return was === size ? size : undefined;
  });
}

/** Lets the time pass second by second, and counts the timers that fire. */
async function idle(world: ScriptedWorld): Promise<number> {
  let fired = 0;
  const { at } = world.clock;
  world.clock.at = (atMs, fn) =>
    at(atMs, () => {
      fired++;
      fn();
    });
  for (let second = 0; second < SECONDS; second++) {
    world.clock.advance(1_000);
    for (let i = 0; i < 5; i++) await turn();
  }
  world.clock.at = at;
  return fired;
}

async function idleFor(count: number) {
  const world = await startScriptedWorld({ agents: team(count) });
  try {
    // The first and the last agent have worked, so that everything is loaded.
    for (const n of new Set([0, count - 1])) await doTask(world, 'Work', { agent: nameOf(n) });
    const events = await settle(world);
    const calls = world.model.scenes.length;
    const fired = await idle(world);
    const after = await settle(world);
    const { runs } = await world.agentd.listRuns({ query: {} });
    const figures = {
      calls: world.model.scenes.length - calls,
      events: after - events,
      openRuns: runs.filter(({ ended_at }) => ended_at === null).length,
      fired,
    };
    // The control: what there is to do is still done, and counted.
    await doTask(world, 'Work again', { agent: nameOf(count - 1) });
    assert.ok(world.model.scenes.length > calls + figures.calls);
    return figures;
  } finally {
    await world.stop();
  }
}

describe('an idle team', () => {
  it('[K86] of 20 agents makes no model call in ten minutes, starts nothing and records nothing', async () => {
    const { calls, events, openRuns } = await idleFor(AGENTS);
    assert.deepEqual({ calls, events, openRuns }, { calls: 0, events: 0, openRuns: 0 });
  });

  it('[K86] of 20 agents wakes up no more often than one agent does', async () => {
    const [one, many] = [await idleFor(1), await idleFor(AGENTS)];
    // One timer of each agent would be twenty more.
    assert.ok(
      many.fired < one.fired + AGENTS / 2,
      `${many.fired} timers of 20 agents, ${one.fired} of one`,
    );
  });
});
