// Site rules about applying the changes of a task to a directory, through a whole runtime: allowed,
// asked and approved or rejected, denied.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it as test } from 'node:test';
import { makeReviewer } from '../../src/daemons/approvald/testing/reviewer.ts';
import type { ApprovalId } from '../../src/wire/primitives.ts';
import { type LayeredTasks, startLayeredTasks } from '../support/layered-tasks.ts';
import { LAYER_MODES } from '../support/layers.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually } from '../support/runtime.ts';

const RULES = (people: string) => `@ask("it is shared with others")
forbid (principal is Person, action == Action::"workspace.apply", resource in Path::"${people}/shared");
@why("it is frozen")
forbid (principal is Person, action == Action::"workspace.apply", resource in Path::"${people}/frozen");
`;

describe('site rules about workspace.apply', { timeout: 200_000 }, () => {
  let world: LayeredTasks;
  let made = 0;
  before(async () => {
    world = await startLayeredTasks(LAYER_MODES[0], (people) => ({ '10-apply': RULES(people) }));
  });
  after(() => world?.stop());
  const it = (what: string, check: () => Promise<void>) =>
    test(what, (t) => (world.missing === undefined ? check() : t.skip(world.missing)));

  /** A directory that a task has changed in its layer. */
  const change = async (place: string) => {
    const dir = world.makeDirectory(`${place}/d${made++}`, { 'a.txt': 'person\n' });
    const { id } = await world.work(dir, 'echo agent > a.txt');
    return { id, read: () => readFileSync(join(dir, 'a.txt'), 'utf8') };
  };
  const ask = async () => {
    const { id, read } = await change('shared');
    const { code, stdout } = await world.run('task', 'apply', id, '--json');
    const { apply } = JSON.parse(stdout) as { apply: { approval_id: ApprovalId; status: string } };
    assert.deepEqual([code, apply.status, read()], [4, 'waiting', 'person\n']);
    return { id, read, params: { id: apply.approval_id } };
  };
  const eventOf = (id: string, kind: string) =>
    eventually(`${kind} in the log`, async () =>
      (await allEvents(world.runtime())).find(
        ({ event, root_task_id }) => event === kind && root_task_id === id,
      ),
    );
  const reviewer = () => makeReviewer(world.runtime().approvald);

  it('workspace.apply allow: it is applied at once', async () => {
    const { id, read } = await change('free');
    await world.done('task', 'apply', id);
    assert.equal(read(), 'agent\n');
    const { policy, allowed } = await eventOf(id, 'task.applied');
    assert.deepEqual([policy, allowed], ['base:people', undefined]);
  });

  it('workspace.apply ask: a person sees every change, and it is applied once approved', async () => {
    const { id, read, params } = await ask();
    const { approval } = await reviewer().getApproval({ params });
    assert.match(
      approval.diff!,
      /^modified {2}"a\.txt"\n +file 0644, 7 bytes, sha256 [0-9a-f]{64} -> /,
    );
    assert.match(approval.reason, /shared with others/);
    const again = await world.run('task', 'apply', id);
    assert.equal(again.code, 4);
    assert.ok(again.stdout.includes(params.id), 'the same approval');
    await reviewer().approve({ params, body: {} });
    const { policy, data } = await eventOf(id, 'task.applied');
    assert.equal(read(), 'agent\n');
    assert.deepEqual([policy, data?.approval_id], ['site:10-apply.cedar:1', params.id]);
  });

  it('workspace.apply ask: what a person rejected is not applied', async () => {
    const { id, read, params } = await ask();
    await reviewer().reject({ params, body: { reason: 'not now' } });
    assert.equal((await eventOf(id, 'task.changes.refused')).data?.error, 'denied');
    assert.equal(read(), 'person\n');
    assert.match(await world.done('task', 'diff', id), /^\+agent$/m);
  });

  it('workspace.apply deny: it is refused, and the event names the rule', async () => {
    const { id, read } = await change('frozen');
    const { code, stderr } = await world.run('task', 'apply', id);
    assert.deepEqual([code, /it is frozen/.test(stderr)], [3, true], stderr);
    const { policy, status } = await eventOf(id, 'policy.denied');
    assert.deepEqual([policy, status], ['site:10-apply.cedar:2', 'workspace.apply']);
    assert.equal(read(), 'person\n');
  });
});
