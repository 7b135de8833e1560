// SIGKILL of sandboxd, the warden, toold, the runner and egressd at each point of a call that
// changes something from inside a box or sends a request. After each: the task ends, the change was
// made exactly once, no box is left behind, and journal and audit agree. FUZZ=long kills each
// process at each failpoint of each tool.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type EffectName, type Effects, startEffects } from '../support/effects.ts';
import { assertHostClean, assertNothingLeft } from '../support/leftovers.ts';
import { assertReconciled } from '../support/reconcile.ts';
import { eventually } from '../support/runtime.ts';

const inToold = [
  'toold.before-intent',
  'toold.after-intent',
  'toold.after-attempt-durable',
  'toold.after-effect',
  'toold.after-outcome',
];
const opening = ['sandboxd.before-open', 'sandboxd.after-open'];
const running = ['sandboxd.before-exec', 'sandboxd.after-exec', 'sandboxd.after-command'];
const files = ['sandboxd.before-file', 'sandboxd.after-file'];
const sending = ['egressd.after-allowed', 'egressd.after-fetch-intent', 'egressd.after-fetch'];

/** The failpoints that each call passes. */
const FAILPOINTS: Record<EffectName, readonly string[]> = {
  shell: [...inToold, ...opening, ...running],
  edit: [...inToold, ...opening, ...files],
  commit: [...inToold, ...opening, ...files, ...running],
  'box-tool': [...inToold, ...opening, ...running],
  'host-tool': [...inToold, ...running],
  write: [...inToold, ...opening, ...files],
  post: [...inToold, ...sending],
};
const NAMES = Object.keys(FAILPOINTS) as EffectName[];
const isLong = process.env.FUZZ === 'long';

type Case = { effect: EffectName; failpoint: string; who: string };
const ownerOf = (failpoint: string): string => failpoint.split('.')[0]!;

/** Without FUZZ=long: one tool at every failpoint, the others where they differ from it. */
function isWanted({ effect, failpoint, who }: Case): boolean {
  if (isLong) return true;
  if (effect === 'shell') return who !== 'runners' || running.includes(failpoint);
  if (who !== ownerOf(failpoint)) return false;
  return failpoint === 'toold.after-effect' || ![...inToold, ...opening].includes(failpoint);
}

function casesOf(effect: EffectName): Case[] {
  const others = effect === 'post' ? ['egressd'] : ['sandboxd', 'warden'];
  const victims = [...others, 'toold', 'runners'];
  return FAILPOINTS[effect]
    .flatMap((failpoint) => victims.map((who) => ({ effect, failpoint, who })))
    .filter(isWanted);
}

/** One process holds all daemons, so any failpoint kills them all. */
const EMBEDDED: readonly [EffectName, string][] = isLong
  ? NAMES.flatMap((name) => FAILPOINTS[name].map((failpoint) => [name, failpoint] as const))
  : [
      ['shell', 'toold.after-intent'],
      ['shell', 'sandboxd.after-open'],
      ['shell', 'sandboxd.after-exec'],
      ['commit', 'sandboxd.after-command'],
      ['edit', 'sandboxd.after-file'],
      ['post', 'egressd.after-fetch'],
    ];

/** Asserts that the task ends, its change was made once, and nothing is left of what was killed. */
async function assertDoneOnce(world: Effects, effect: EffectName, key: string): Promise<void> {
  const { task } = await world.work(effect, key);
  const shown = JSON.stringify(task);
  assert.ok(world.hasCrashed(), `the failpoint was reached: ${shown}`);
  assert.equal(task.status, 'completed', shown);
  const times = world.effects[effect].times(key);
  assert.equal(times, 1, shown);
  await assertNothingLeft(world.runtime);
}

async function assertNothingRemains(world: Effects): Promise<void> {
  await eventually('journals and log to agree', () => assertReconciled(world.runtime));
  const { runtime } = world;
  await runtime.stop();
  await assertHostClean(runtime);
}

describe('killed during a call in a box, in split mode', () => {
  let world: Effects;
  let n = 0;
  before(async () => {
    world = await startEffects('split');
  });
  after(() => world?.stop());

  for (const { effect, failpoint, who } of NAMES.flatMap(casesOf))
    it(`${effect}, at ${failpoint}: ${who}`, () => {
      world.armCrash(failpoint, { who: who === ownerOf(failpoint) ? undefined : who });
      return assertDoneOnce(world, effect, `k${n++}`);
    });

  it('curl in a box, at egressd.after-allowed: egressd; the next request arrives', async () => {
    const curl = (more: string) => ({
      tool: 'shell.exec',
      arguments: { command: `curl -sS ${more}` },
    });
    world.armCrash('egressd.after-allowed');
    const sends = curl(`--data x ${world.url('curl-1')}`);
    // A lost connection may have delivered outside text, so the run is marked from then on.
    const { task } = await world.workOn('curl', [sends, curl(world.url('curl-2'))]);
    assert.ok(world.hasCrashed());
    const [first, second] = (task.result ?? '').split('\n');
    assert.notEqual(JSON.parse(first ?? '').exit_code, 0, 'the agent sees that it failed');
    assert.equal(JSON.parse(second ?? '').stdout, 'done', task.result ?? '');
    const arrived = world.seen.filter((line) => line.includes('/curl'));
    assert.deepEqual(arrived, ['GET /curl-2']);
    assert.ok(task.labels.includes('outside'));
    await assertNothingLeft(world.runtime);
  });

  it('journal and audit agree, and nothing is left after the stop', () =>
    assertNothingRemains(world));
});

describe('the whole runtime killed during a call in a box, in embedded mode', () => {
  let world: Effects;
  let n = 0;
  before(async () => {
    world = await startEffects('embedded');
  });
  after(() => world?.stop());

  for (const [effect, failpoint] of EMBEDDED)
    it(`${effect}, at ${failpoint}`, () => {
      world.armCrash(failpoint);
      return assertDoneOnce(world, effect, `k${n++}`);
    });

  it('journal and audit agree, and nothing is left after the stop', () =>
    assertNothingRemains(world));
});
