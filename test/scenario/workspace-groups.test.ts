// The group of a task tree is assigned again only when no file has it: as root, where each tree has
// its own, and as an ordinary user, where all files have the user's.
import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { deriveId } from '../../src/platform/ids.ts';
import { type Client, makeClient, socketLink } from '../../src/platform/link.ts';
import type { BoxId, CallId, RunId, TaskId } from '../../src/wire/primitives.ts';
import { type Collected, sandboxdRoutes } from '../../src/wire/sandboxd.ts';
import { freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';
import { TEAM } from '../support/scripted-world.ts';

const NOBODY = 65_534;
const IS_ROOT = process.getuid?.() === 0;
const MODES = IS_ROOT ? (['root', 'user'] as const) : (['user'] as const);
const GIDS = { gid_first: 300_000, gid_last: 300_002 };

for (const mode of MODES) {
  describe(`groups of task trees, as ${mode}`, { timeout: 180_000 }, () => {
    const base = freshDir();
    const repo = join(base, 'shared', 'repo');
    // A box has its own /tmp. Agents have other users there.
    const written = mkdtempSync('/var/tmp/agentd-t-');
    chmodSync(written, 0o1777);
    let runtime: TestRuntime;
    let toold: Client<typeof sandboxdRoutes>;
    let agentd: Client<typeof sandboxdRoutes>;
    let made = 0;
    before(async () => {
      mkdirSync(repo, { recursive: true });
      const sandboxd = { ...GIDS, workspace_roots: [repo], write_roots: [written] };
      runtime = await startRuntime({
        base,
        agents: TEAM,
        config: JSON.stringify({ sandboxd }),
        ...(mode === 'user' && IS_ROOT ? { uid: NOBODY } : {}),
      });
      const connect = (peer: string) => {
        const socketPath = socketPathFor(runtime.runtimeDir, 'sandboxd', peer as 'peer-toold');
        return makeClient(sandboxdRoutes, socketLink({ socketPath }));
      };
      [toold, agentd] = [connect('peer-toold'), connect('peer-agentd')];
    });
    after(async () => {
      await runtime.remove();
      rmSync(written, { recursive: true });
    });

    const treeId = (tree: string) => deriveId<TaskId>('task', mode, tree);
    /** Runs a script in a box of the tree, and returns the group of its new files. */
    const work = async (tree: string, script: string, more: object = {}, write: string[] = []) => {
      const id = deriveId<BoxId>('box', mode, made++);
      const body = {
        run_id: deriveId<RunId>('run', mode, tree),
        fence: 1,
        agent: 'coder',
        task_id: treeId(tree),
        root_task_id: treeId(tree),
        level: 'L2' as const,
        rules: { read: [], write: ['/workspace', '/home/coder', ...write], deny: [] },
        network: { egress_socket: null },
        ...more,
      };
      const { gid } = await toold.openBox({ params: { id }, body });
      const call_id = deriveId<CallId>('call', mode, made++);
      const command = { call_id, argv: ['/bin/sh', '-c', script], collect: true };
      const end = (await toold.execBox({ params: { id }, body: command })) as Collected;
      assert.equal(end.exit_code, 0, Buffer.from(end.stderr_base64, 'base64').toString());
      return { gid, close: () => toold.closeBox({ params: { id } }) };
    };
    const release = (tree: string) => agentd.releaseWorkspace({ params: { id: treeId(tree) } });
    const removeDirs = (tree: string) => {
      for (const name of ['workspaces', 'homes'])
        rmSync(join(runtime.stateDir, name, treeId(tree)), { recursive: true, force: true });
    };
    const gidsUsed = async () => (await runtime.sandboxd.identity({})).ranges.gids.used;
    const freed = { freed: true, reason: null };

    it('is kept while a box is open or its directories exist, and then freed', async () => {
      const box = await work('own', 'echo a > /workspace/a; echo b > ~/b');
      assert.equal(await gidsUsed(), 1);
      assert.match((await release('own')).reason ?? '', /one of its boxes is open/);
      await box.close();
      assert.match((await release('own')).reason ?? '', /\/workspaces\/task_\w+ exists/);
      rmSync(join(runtime.stateDir, 'workspaces', treeId('own')), { recursive: true });
      assert.match((await release('own')).reason ?? '', /\/homes\/task_\w+ exists/);
      assert.equal(await gidsUsed(), 1);
      removeDirs('own');
      assert.deepEqual(await release('own'), freed);
      assert.deepEqual(await release('own'), freed, 'again has no effect');
      assert.equal(await gidsUsed(), 0);
    });

    it('is kept while a directory that was used in place has it', async () => {
      const box = await work('place', 'mkdir -m 700 d && echo a > d/a', { workspace_path: repo });
      await box.close();
      removeDirs('place');
      if (mode === 'root') {
        assert.equal(statSync(repo).gid, box.gid);
        assert.match((await release('place')).reason ?? '', /repo has files of its group 30000\d/);
        for (const name of ['.', ...readdirSync(repo, { recursive: true, encoding: 'utf8' })])
          if (!name.endsWith('d/a')) chownSync(join(repo, name), 0, 0);
        assert.equal((await release('place')).freed, false, 'one file is left');
        chownSync(join(repo, 'd', 'a'), 0, 0);
      }
      assert.deepEqual(await release('place'), freed);
    });

    it('is kept while a declared path that it could write has it', async () => {
      const script = `echo a > ${written}/a`;
      const box = await work('declared', script, {}, [written]);
      await box.close();
      removeDirs('declared');
      if (mode === 'root') {
        assert.match(
          (await release('declared')).reason ?? '',
          /agentd-t-\w+ has files of its group/,
        );
        rmSync(join(written, 'a'));
      }
      assert.deepEqual(await release('declared'), freed);
    });

    it('is assigned again when the range is spent, never while another tree has it', async () => {
      const trees = ['one', 'two', 'three'];
      const gids: number[] = [];
      for (const tree of trees) {
        const box = await work(tree, 'echo a > /workspace/a');
        gids.push(box.gid);
        await box.close();
      }
      assert.equal(await gidsUsed(), 3);
      if (mode === 'root') assert.equal(new Set(gids).size, 3);
      await assert.rejects(work('four', 'true'), { code: 'limit', message: /no group/ });
      removeDirs('two');
      assert.deepEqual(await release('two'), freed);
      const four = await work('four', 'stat -c %g /workspace');
      await four.close();
      assert.equal(four.gid, gids[1]);
      await assert.rejects(work('five', 'true'), { code: 'limit' });
    });
  });
}
