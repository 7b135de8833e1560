// Tests which agents get a spare runner, when it is started, and when it is ended.
import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { silentLog } from '../../platform/log.ts';
import type { BoxId } from '../../wire/primitives.ts';
import type { CommandExit, SandboxCommand } from './adapters/warden.ts';
import { makeSpareRunners, type StartedRunner } from './spare-runners.ts';

const nextTick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function fakeRunner(agent: string): StartedRunner {
  const ended = Promise.withResolvers<CommandExit>();
  const command = { kill: () => ended.resolve('gone'), ended: ended.promise };
  return {
    id: `box_${agent}` as BoxId,
    dirName: `spare_${agent}`,
    identity: { uid: 1, gid: 1, user: agent },
    command: command as unknown as SandboxCommand,
  };
}

describe('spare runners', () => {
  let started: string[];
  let gone: string[];
  let runners: Map<string, StartedRunner>;
  beforeEach(() => {
    started = [];
    gone = [];
    runners = new Map();
  });
  const make = (countMax: number, start?: (agent: string) => Promise<StartedRunner>) =>
    makeSpareRunners({
      countMax,
      idleMs: 5_000,
      start:
        start ??
        (async (agent) => {
          started.push(agent);
          const runner = fakeRunner(agent);
          runners.set(agent, runner);
          return runner;
        }),
      onGone: ({ dirName }) => void gone.push(dirName),
      log: silentLog,
    });

  it('an agent gets one when no run has started for a while, and a run takes it once', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const spares = make(2);
    spares.noteUse('coder');
    t.mock.timers.tick(150);
    spares.noteUse('coder');
    t.mock.timers.tick(150);
    await nextTick();
    assert.deepEqual(started, [], 'a run started 150 ms ago');
    t.mock.timers.tick(50);
    await nextTick();
    assert.deepEqual(started, ['coder']);
    assert.equal(spares.take('planner'), undefined, 'never a spare of another agent');
    assert.equal(spares.take('coder'), runners.get('coder'));
    assert.equal(spares.take('coder'), undefined);
    t.mock.timers.tick(10_000);
    await nextTick();
    assert.deepEqual(gone, [], 'a runner that a run took is not ended for being idle');
  });

  it('there are never more than allowed; the most recently used agents have them', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const spares = make(2);
    for (const agent of ['planner', 'coder', 'researcher']) spares.noteUse(agent);
    t.mock.timers.tick(200);
    await nextTick();
    assert.deepEqual(started, ['researcher', 'coder']);
    spares.noteUse('planner');
    t.mock.timers.tick(200);
    await nextTick();
    assert.equal(spares.count(), 2);
    assert.deepEqual(gone, ['spare_researcher']);
    assert.equal(spares.take('researcher'), undefined);
    const none = make(0);
    none.noteUse('coder');
    t.mock.timers.tick(10_000);
    await nextTick();
    assert.equal(none.count(), 0);
  });

  it('an idle one is ended, and one that died is not used', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const spares = make(2);
    spares.noteUse('coder');
    t.mock.timers.tick(200);
    await nextTick();
    t.mock.timers.tick(5_000);
    await nextTick();
    assert.deepEqual(gone, ['spare_coder']);
    spares.noteUse('planner');
    t.mock.timers.tick(200);
    await nextTick();
    runners.get('planner')!.command.kill();
    await nextTick();
    assert.equal(spares.take('planner'), undefined);
    assert.deepEqual(gone, ['spare_coder', 'spare_planner']);
  });

  it('all are ended, also one that is just starting; a failed start is no error', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const starting = Promise.withResolvers<StartedRunner>();
    const spares = make(2, async (agent) => {
      if (agent === 'broken') throw new Error('refused');
      return starting.promise;
    });
    spares.noteUse('coder');
    spares.noteUse('broken');
    t.mock.timers.tick(200);
    await nextTick();
    const ended = spares.endAll();
    starting.resolve(fakeRunner('coder'));
    await ended;
    assert.deepEqual(gone, ['spare_coder']);
    assert.equal(spares.count(), 0);
  });
});
