// Tests in which order an apply, a discard and an undo happen, what a repeat does, and what is
// refused. sandboxd, toold and approvald are scripted.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { hashChanges } from '../../../platform/change-hash.ts';
import { manualClock } from '../../../platform/clock.ts';
import { deriveId, makeIdMaker } from '../../../platform/ids.ts';
import { silentLog } from '../../../platform/log.ts';
import type { PolicyDecision, Request } from '../../../policy/request.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import type { ApprovalId } from '../../../wire/primitives.ts';
import type { LayerChangeView } from '../../../wire/sandboxd/layers.ts';
import { DATABASES, world } from '../store/testing.ts';
import { toCallIds } from './apply-approval.ts';
import { type Changes, makeChanges } from './changes.ts';
import { makeLayerActions } from './layer-actions.ts';
import { makeTreeChangesReader } from './tree-changes.ts';

const side = (size: number): LayerChangeView['before'] => ({
  type: 'file',
  mode: 0o644,
  size_bytes: size,
  sha256: 'a'.repeat(64),
  link_target: null,
});
const changeOf = (path: string, more: Partial<LayerChangeView> = {}): LayerChangeView => ({
  path,
  kind: 'modified',
  before: side(1),
  after: side(2),
  refused: [],
  conflict: null,
  merged: false,
  ...more,
});
const ALLOW: PolicyDecision = { answer: 'allow', rules: ['base:people'], reason: '', version: 1 };
const ASK: PolicyDecision = { ...ALLOW, answer: 'ask', rules: ['site:a'], reason: 'look first' };
const DENY: PolicyDecision = { ...ALLOW, answer: 'deny', rules: ['site:b'], reason: 'frozen' };
const APPROVAL = deriveId<ApprovalId>('approval', 'one');
const ANN = 'person:ann';

async function start() {
  const { store, events, task } = await world(DATABASES.SQLite!);
  const root = await task({
    workspace: '/srv/app',
    workspaceMode: 'layer',
    labels: ['person', 'outside'],
  });
  const child = await task({ parent: root, labels: ['person', 'secret'] });
  const state = {
    changes: [changeOf('src/a'), changeOf('src/b'), changeOf('z')],
    decision: ALLOW,
    redeemed: 'pending' as 'pending' | 'approved' | Fault,
    fails: undefined as Fault | undefined,
  };
  /** Everything that was done, in order. */
  const steps: string[] = [];
  const asked: Request[] = [];
  const sandboxd = {
    layerChanges: async ({ query }: { query: { after?: string; limit: number } }) => {
      const from = state.changes.findIndex(({ path }) => path === query.after) + 1;
      const changes = state.changes.slice(from, from + Math.min(query.limit, 2));
      const next = from + changes.length < state.changes.length ? changes.at(-1)!.path : null;
      const applied = [{ apply_id: 'apply_last', at: '', undone: false }];
      return { layer: { path: '/srv/app', opened_at: '', applied }, changes, next };
    },
    layerTexts: async () => ({ texts: [] }),
    async applyLayer({
      body,
    }: {
      body: { apply_id: string; expect?: string; paths?: string[]; overwrite?: boolean };
    }) {
      const inLog = events.some(({ id }) => id === `${body.apply_id}.attempted`);
      const how = body.overwrite === true ? ' over theirs' : '';
      steps.push(`apply ${body.paths ?? 'all'}${how}${inLog ? '' : ', not in the log'}`);
      if (state.fails !== undefined) throw state.fails;
      const done = { applied: ['x'], merged: [], commits: [], commits_left: [] };
      return { apply_id: body.apply_id, change_sha256: body.expect!, ...done };
    },
    async discardLayer() {
      steps.push('discard');
      return { discarded: 3 };
    },
    async undoApply({ body }: { body: { apply_id?: string } }) {
      steps.push(`undo ${body.apply_id}`);
      return { apply_id: body.apply_id!, restored: ['x'], is_in_layer: true, kept_at: null };
    },
  };
  const toold = {
    async markPlace({ body }: { body: { target: string; labels: string[] } }) {
      steps.push(`mark ${body.target} ${body.labels.join(' ')}`);
      return { labels: body.labels };
    },
  };
  const approvals = {
    async request() {
      steps.push('ask');
      return APPROVAL;
    },
    async redeem() {
      steps.push('redeem');
      if (typeof state.redeemed === 'string') return state.redeemed;
      throw state.redeemed;
    },
  };
  const reader = makeTreeChangesReader({
    store,
    sandboxd: sandboxd as never,
    async decide(request) {
      asked.push(request);
      return state.decision;
    },
  });
  const open = (): Changes =>
    makeChanges({
      store,
      sandboxd: sandboxd as never,
      reader,
      actions: makeLayerActions({
        store,
        sandboxd: sandboxd as never,
        toold: toold as never,
        reader,
        newId: makeIdMaker(manualClock(1)),
        failpoint: () => undefined,
      }),
      approvals,
      log: silentLog,
    });
  const settled = async (id: string) => {
    for (let i = 0; i < 200; i++) {
      if ((await store.layerAction(id))?.ended_ms != null) return;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    assert.fail(`${id} has not ended`);
  };
  const kinds = async () => {
    await store.outbox.drain(5_000);
    return events.flatMap(({ event }) =>
      /^(task\.(ch|app|dis|un)|policy)/.test(event) ? [event] : [],
    );
  };
  return { store, events, task, root, child, state, steps, asked, open, settled, kinds };
}

const MARK = 'mark /srv/app outside secret';

describe('an apply', () => {
  it('marks the directory before it changes, and both events name the changes by hash', async () => {
    const { root, child, state, steps, asked, events, open, kinds } = await start();
    const done = await open().apply(child.id, {}, ANN, undefined);
    assert.deepEqual(steps, [MARK, 'apply all']);
    assert.deepEqual([done.status, done.root_task_id, done.applied], ['applied', root.id, ['x']]);
    assert.equal(done.change_sha256, hashChanges(state.changes));
    assert.deepEqual(await kinds(), ['task.changes.attempted', 'task.applied']);
    const { principal, data } = events.find(({ event }) => event === 'task.applied')!;
    assert.equal(principal, ANN);
    const counts = { added: 0, modified: 3, deleted: 0, replaced: 0, mode: 0 };
    const { apply_id, change_sha256 } = done;
    assert.deepEqual(data, {
      apply_id,
      change_sha256,
      ...counts,
      allowed: '',
      files: 1,
      merged: 0,
      commits: 0,
    });
    assert.ok(!JSON.stringify(events).includes('src/a'), 'no path is in an event');
    assert.deepEqual(asked[0]?.resource, { type: 'Path', id: '/srv/app' });
    const { labels, modified, kinds: allowed } = asked[0]!.context;
    assert.deepEqual([labels, modified, allowed], [['outside', 'secret'], 3, []]);
  });

  it('of some paths is about those', async () => {
    const { root, state, steps, open } = await start();
    const { counts, change_sha256 } = await open().apply(
      root.id,
      { paths: ['src'] },
      ANN,
      undefined,
    );
    assert.equal(counts.modified, 2);
    assert.equal(change_sha256, hashChanges(state.changes.slice(0, 2)));
    assert.equal(steps.at(-1), 'apply src');
  });

  it('is done once for one key, and a repeat after a crash finishes it', async () => {
    const { root, state, steps, open, kinds } = await start();
    const once = { scope: 'a', key: 'b', requestHash: 'c' };
    state.fails = fault('unavailable', 'sandboxd is away');
    await assert.rejects(open().apply(root.id, {}, ANN, once), { code: 'unavailable' });
    state.fails = undefined;
    // sandboxd compares the hash of what was seen.
    state.changes = [changeOf('other')];
    const again = await open().apply(root.id, {}, ANN, once);
    assert.deepEqual(await open().apply(root.id, {}, ANN, once), again);
    assert.equal(steps.filter((step) => step.startsWith('apply')).length, 2);
    assert.deepEqual(await kinds(), ['task.changes.attempted', 'task.applied']);
    await assert.rejects(open().apply(root.id, {}, ANN, { ...once, requestHash: 'd' }), {
      code: 'idempotency_mismatch',
    });
  });

  it('that a dead process began is finished at the next start', async () => {
    const { root, state, store, open, settled, kinds } = await start();
    state.fails = fault('unavailable', 'sandboxd is away');
    await assert.rejects(open().apply(root.id, {}, ANN, undefined));
    state.fails = undefined;
    const [row] = await store.listOpenLayerActions();
    await open().begin();
    await settled(row!.id);
    assert.deepEqual(await kinds(), ['task.changes.attempted', 'task.applied']);
  });

  it('is refused as a whole for a kind, a conflict, another hash or an unknown path', async () => {
    const { root, state, steps, open, kinds } = await start();
    const rejects = async (request: object, code: string, details?: object) => {
      const work = open().apply(root.id, request, ANN, undefined);
      await assert.rejects(work, details === undefined ? { code } : { code, details });
    };
    await rejects({ paths: ['nowhere'] }, 'not_found');
    await rejects({ expect: '0'.repeat(64) }, 'conflict');
    const hook = changeOf('.git/hooks/x', { refused: ['git_hooks', 'executable'] });
    state.changes = [hook, changeOf('a')];
    const refused = [{ path: hook.path, kinds: ['executable'] }];
    await rejects({ allow: ['git_hooks'] }, 'denied', { refused });
    state.changes = [changeOf('a', { conflict: 'changed' })];
    await rejects({}, 'conflict', { conflicts: [{ path: 'a', reason: 'changed' }] });
    state.changes = [];
    await rejects({}, 'not_found');
    assert.deepEqual([steps, await kinds()], [[], []]);
    // Control: with the kinds allowed by name, it is done.
    state.changes = [hook];
    await open().apply(root.id, { allow: hook.refused }, ANN, undefined);
    assert.equal(steps.at(-1), 'apply all');
  });

  it('overwrites conflicts of named paths only, and says so in the log', async () => {
    const { root, state, steps, open, events } = await start();
    state.changes = [changeOf('a', { conflict: 'overlaps' }), changeOf('b')];
    const apply = (request: object) => open().apply(root.id, request, ANN, undefined);
    await assert.rejects(apply({ overwrite: true }), { code: 'bad_request' });
    await assert.rejects(apply({ paths: ['a'] }), { code: 'conflict' });
    await apply({ paths: ['a'], overwrite: true });
    assert.equal(steps.at(-1), 'apply a over theirs');
    assert.equal(events.at(-1)?.data?.overwrite, true);
  });

  it('that policy denies is an event, and nothing else', async () => {
    const { root, state, steps, open, events, kinds } = await start();
    state.decision = DENY;
    const work = open().apply(root.id, {}, ANN, undefined);
    await assert.rejects(work, { code: 'denied', details: { rules: ['site:b'] } });
    assert.deepEqual([steps, await kinds()], [[], ['policy.denied']]);
    assert.equal(events.at(-1)?.status, 'workspace.apply');
  });

  it('that sandboxd refuses ends with an event that says so', async () => {
    const { root, state, open, events, kinds } = await start();
    state.fails = fault('conflict', 'changed meanwhile', { details: { conflicts: [] } });
    await assert.rejects(open().apply(root.id, {}, ANN, undefined), { code: 'conflict' });
    assert.deepEqual(await kinds(), ['task.changes.attempted', 'task.changes.refused']);
    assert.equal(events.at(-1)?.data?.error, 'conflict');
  });
});

describe('an apply that needs approval', () => {
  const ask = async () => {
    const scene = await start();
    scene.state.decision = ASK;
    const waiting = await scene.open().apply(scene.root.id, {}, ANN, undefined);
    assert.deepEqual([waiting.status, waiting.approval_id], ['waiting', APPROVAL]);
    assert.deepEqual(scene.steps, ['ask']);
    const { run_id } = toCallIds(waiting.apply_id);
    return { ...scene, waiting, run_id };
  };

  it('is done once a person has approved it, and is decided again before', async () => {
    const { open, state, steps, waiting, run_id, settled, kinds, events } = await ask();
    assert.equal((await open().findRun(run_id))?.status, 'parked');
    state.redeemed = 'approved';
    assert.equal(await open().approvalEnded(run_id), true);
    await settled(waiting.apply_id);
    assert.deepEqual(steps, ['ask', 'redeem', MARK, 'apply all']);
    assert.deepEqual(await kinds(), ['task.changes.attempted', 'task.applied']);
    assert.equal(events.at(-1)?.data?.approval_id, APPROVAL);
    assert.equal((await open().findRun(run_id))?.status, 'ended');
  });

  it('is not done when it was rejected, or policy denies it meanwhile', async () => {
    for (const change of [
      (state: { redeemed: unknown }) => {
        state.redeemed = fault('denied', 'rejected');
      },
      (state: { decision: PolicyDecision }) => {
        state.decision = DENY;
      },
    ]) {
      const { open, state, steps, waiting, run_id, settled, events, store } = await ask();
      change(state as never);
      await open().approvalEnded(run_id);
      await settled(waiting.apply_id);
      assert.ok(!steps.some((step) => step.startsWith('apply')), steps.join());
      await store.outbox.drain(5_000);
      assert.equal(events.at(-1)?.event, 'task.changes.refused');
    }
  });

  it('asked for again is the same one; one that was answered while agentd was down is found', async () => {
    const { open, root, state, steps, waiting, settled } = await ask();
    assert.deepEqual(await open().apply(root.id, {}, ANN, undefined), waiting);
    await open().begin();
    state.redeemed = 'approved';
    await open().begin();
    await settled(waiting.apply_id);
    assert.equal(steps.at(-1), 'apply all');
    assert.equal(steps.filter((step) => step === 'ask').length, 1);
  });

  it('an approval of a run is none of an apply', async () => {
    const { open } = await start();
    assert.equal(await open().approvalEnded(deriveId('run', 'x')), false);
    assert.equal(await open().findRun(deriveId('run', 'x')), undefined);
  });
});

describe('discard and undo', () => {
  it('are in the log before they are done', async () => {
    const { root, steps, open, kinds, asked } = await start();
    const discarded = await open().discard(root.id, ANN);
    assert.deepEqual(discarded, { root_task_id: root.id, discarded: 3 });
    const undone = await open().undo(root.id, undefined, ANN);
    assert.deepEqual([undone.apply_id, undone.restored], ['apply_last', ['x']]);
    assert.deepEqual(steps, ['discard', 'undo apply_last']);
    const attempted = 'task.changes.attempted';
    assert.deepEqual(await kinds(), [attempted, 'task.discarded', attempted, 'task.undone']);
    assert.equal(asked[0]?.context.undo, true);
  });

  it('policy can forbid an undo, too', async () => {
    const { root, state, steps, open } = await start();
    state.decision = DENY;
    await assert.rejects(open().undo(root.id, undefined, ANN), { code: 'denied' });
    assert.deepEqual(steps, []);
  });
});

it('a task without a layer has no changes, and the fault says why', async () => {
  const { task, open } = await start();
  const own = await task();
  const live = await task({ workspace: '/srv/app', workspaceMode: 'live' });
  for (const [{ id }, message] of [
    [own, /has no layer: it has a directory of its own/],
    [live, /has no layer: it works in \/srv\/app itself \(live\)/],
  ] as const) {
    const changes = open();
    for (const work of [
      changes.list(id, { limit: 1 }),
      changes.readTexts(id, { paths: ['a'], bytes_max: 1 }),
      changes.apply(id, {}, ANN, undefined),
      changes.discard(id, ANN),
      changes.undo(id, undefined, ANN),
    ])
      await assert.rejects(work, { code: 'bad_request', message });
  }
});

it('the list names why a kind is refused', async () => {
  const { child, state, open } = await start();
  state.changes = [changeOf('a', { refused: ['git_hooks'] })];
  const { refusals, labels, path } = await open().list(child.id, { limit: 10 });
  assert.deepEqual(refusals.git_hooks?.handling, 'refused');
  assert.deepEqual([labels, path], [['outside', 'secret'], '/srv/app']);
});
