// Retention of files: the workspace and the homes of an ended task tree are removed, as root and as
// an ordinary user, by age or with the tree; never those of a live or held one, nor a directory of
// the operator.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { makeClient, socketLink } from '../../src/platform/link.ts';
import type { StartPrune } from '../../src/wire/agentd.ts';
import { sandboxdRoutes } from '../../src/wire/sandboxd.ts';
import { findKind, prune, writeInBox } from '../support/prune.ts';
import { assertReconciled } from '../support/reconcile.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';
import { refusedWith, TEAM } from '../support/scripted-world.ts';

const NOBODY = 65_534;
const IS_ROOT = process.getuid?.() === 0;
const MODES = IS_ROOT ? (['root', 'user'] as const) : (['user'] as const);
/** Also what only the agent can enter. */
const SCRIPT = 'mkdir d && echo a > d/a && chmod 0 d && ln -s /etc e && echo b > ~/b';

for (const mode of MODES)
  describe(`retention of files, as ${mode}`, { timeout: 240_000 }, () => {
    const base = freshDir();
    const repo = join(base, 'shared', 'repo');
    let runtime: TestRuntime;
    before(async () => {
      mkdirSync(repo, { recursive: true });
      runtime = await startRuntime({
        base,
        agents: TEAM,
        config: JSON.stringify({ sandboxd: { workspace_roots: [repo] } }),
        ...(mode === 'user' && IS_ROOT ? { uid: NOBODY } : {}),
      });
    });
    after(() => runtime.remove());

    const endedTask = async (): Promise<string> => {
      const { agentd } = runtime;
      const { task } = await agentd.createTask({ body: { goal: 'Hold still', agent: 'coder' } });
      await agentd.cancelTask({ params: { id: task.id }, body: {} });
      // A box of its runner may take a moment to close, and keeps the files.
      await eventually('no box', async () => {
        const { boxes } = await runtime.sandboxd.listBoxes({ query: { open: 'true' } });
        return boxes.some(({ task_id }) => task_id === task.id) ? undefined : true;
      });
      return task.id;
    };
    const pruneTree = async (id: string, kind: 'workspaces' | 'homes' | 'tasks', more = {}) => {
      const body = { root_task_ids: [id], kinds: [kind], ...more } as StartPrune;
      return findKind(await prune(runtime, body), kind);
    };
    const list = (kind: 'workspaces' | 'homes') =>
      readdirSync(join(runtime.stateDir, kind)).filter((name) => name.includes('task_'));
    const viewTask = async (id: string) =>
      (await runtime.agentd.getTask({ params: { id: id as never } })).task;
    const gidsUsed = async () => (await runtime.sandboxd.identity({})).ranges.gids.used;

    it('each kind goes by itself, the task stays and says so, and the group is free', async () => {
      const id = await endedTask();
      const before = await gidsUsed();
      await writeInBox(runtime, id, SCRIPT);
      assert.equal(await gidsUsed(), before + 1);
      const dry = await pruneTree(id, 'workspaces', { dry_run: true });
      assert.deepEqual([dry.pruned, list('workspaces')], [1, [id]]);
      const { pruned, bytes } = await pruneTree(id, 'workspaces');
      assert.ok(pruned === 1 && bytes >= 4_096);
      assert.deepEqual([list('workspaces'), list('homes')], [[], [id]]);
      assert.deepEqual(Object.keys((await viewTask(id)).pruned ?? {}), ['workspaces']);
      assert.equal((await pruneTree(id, 'workspaces')).pruned, 0, 'again has no effect');
      assert.equal((await pruneTree(id, 'homes')).pruned, 1);
      assert.deepEqual(list('homes'), []);
      assert.deepEqual(Object.keys((await viewTask(id)).pruned ?? {}), ['workspaces', 'homes']);
      assert.equal(await gidsUsed(), before);
    });

    it('both go with the tree', async () => {
      const id = await endedTask();
      const before = await gidsUsed();
      await writeInBox(runtime, id, SCRIPT);
      assert.equal((await pruneTree(id, 'tasks')).pruned, 1);
      assert.deepEqual([list('workspaces'), list('homes')], [[], []]);
      assert.equal(await gidsUsed(), before);
      await refusedWith('pruned', viewTask(id));
    });

    it('a held tree, a live one and one with an open box keep theirs', async () => {
      const id = await endedTask();
      const params = { id: id as never };
      await runtime.agentd.keepTask({ params, body: { kept: true } });
      const box = await writeInBox(runtime, id, SCRIPT, { keepOpen: true });
      const reasons = async () => {
        const { pruned, kept } = await pruneTree(id, 'workspaces');
        return [pruned, ...kept.map(({ reason }) => reason)];
      };
      assert.deepEqual(await reasons(), [0, 'held']);
      await runtime.agentd.keepTask({ params, body: { kept: false } });
      assert.deepEqual(await reasons(), [0, 'failed']);
      assert.deepEqual(list('workspaces'), [id]);
      await box.close();
      assert.deepEqual(await reasons(), [1], 'control');
      await pruneTree(id, 'tasks');
    });

    it('a directory of the operator stays, whatever is pruned', async () => {
      const id = await endedTask();
      await writeInBox(runtime, id, 'echo a > kept', { workspace_path: repo });
      await pruneTree(id, 'workspaces');
      await pruneTree(id, 'tasks');
      assert.ok(existsSync(join(repo, 'kept')));
      assert.deepEqual(list('homes'), []);
    });

    it('what is there is measured by agent, and no longer counts when it is gone', async () => {
      const id = await endedTask();
      await writeInBox(runtime, id, 'head -c 300000 /dev/zero > a; echo b > ~/b');
      const socketPath = socketPathFor(runtime.runtimeDir, 'sandboxd', 'peer-agentd');
      const sandboxd = makeClient(sandboxdRoutes, socketLink({ socketPath }));
      const bytesOf = async (kind: string) => {
        const { sizes } = await sandboxd.fileSizes({});
        return sizes.find((size) => size.kind === kind && size.agent === 'coder')?.bytes ?? 0;
      };
      await eventually('a measurement', async () =>
        (await bytesOf('workspaces')) > 290_000 && (await bytesOf('homes')) > 0 ? true : undefined,
      );
      const report = await prune(runtime, { kinds: ['workspaces', 'homes'], older_than_s: 0 });
      for (const kind of ['workspaces', 'homes'] as const) {
        assert.ok(findKind(report, kind).pruned >= 1);
        assert.equal(await bytesOf(kind), 0);
        assert.deepEqual(list(kind), []);
      }
      await eventually('journal = log', () => assertReconciled(runtime));
    });
  });
