// An agent's commits come over with an apply: refs and the index move behind the files, git is
// clean, an undo takes all of it back, also when sandboxd is killed in between; and nothing that
// the layer's repository names runs where the person's directory is. As root and as a user.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Fault } from '../../src/wire/errors.ts';
import { GIT_ENV } from '../support/git-env.ts';
import { killRequested } from '../support/kills.ts';
import { LAYER_GROUNDS, type LayerWorld, startLayerWorld } from '../support/layers.ts';
import { eventually } from '../support/runtime.ts';

const AS = 'git -c user.name=a -c user.email=a@b';
const COMMIT = `echo 2 > a; mkdir n; echo n > n/x; git add -A; ${AS} commit -qm one; echo 3 > a; ${AS} commit -qam two`;

for (const { mode, where, on } of LAYER_GROUNDS)
  describe(`commits of a layer, as ${where}`, { timeout: 300_000 }, () => {
    let world: LayerWorld;
    let crashFile: string;
    let made = 0;
    before(async () => {
      world = await startLayerWorld(mode, { mode: 'split', faults: true, ...on });
      crashFile = join(world.runtime.stateDir, 'crash-at');
      setInterval(() => killRequested(world.runtime), 5).unref();
    });
    after(() => world?.stop());

    const again = <T>(work: () => Promise<T>): Promise<T> =>
      eventually('sandboxd again', () => work().catch(() => undefined), 60_000);

    const start = async (script: string) => {
      const name = `t${made++}`;
      const { repo } = world.directory(name, { a: '1\n' });
      const git = (...args: string[]): string =>
        execFileSync('git', ['-c', 'safe.directory=*', ...args], {
          cwd: repo,
          encoding: 'utf8',
          env: { ...GIT_ENV, GIT_OPTIONAL_LOCKS: '0' },
        }).trim();
      git('init', '-q', '-b', 'main');
      git('add', '-A');
      git('commit', '-qm', 'first');
      world.directory(name, {});
      const box = await again(() => world.open(name, repo));
      await box.run(script);
      await box.close();
      const params = { id: world.treeId(name) };
      const body = { apply_id: `apply-${name}`, allow: [] };
      return {
        repo,
        git,
        head: git('rev-parse', 'HEAD'),
        /** Owners and groups of everything in it, its repository included. */
        owners(): string[] {
          const found = execFileSync('find', [repo, '-printf', '%U:%G\n'], { encoding: 'utf8' });
          return [...new Set(found.trim().split('\n'))];
        },
        status: () => git('status', '--porcelain'),
        list: () => world.agentd.layerChanges({ params, query: {} }),
        apply: (more: object = {}) =>
          world.agentd.applyLayer({ params, body: { ...body, ...more } }),
        undo: () => world.agentd.undoApply({ params, body: { apply_id: body.apply_id } }),
      };
    };

    it('come over with the files, go with an undo, and come again', async () => {
      const tree = await start(COMMIT);
      const person = tree.owners();
      const { commits } = await tree.apply();
      assert.deepEqual([tree.owners(), person.length], [person, 1], 'all of it is the person’s');
      assert.deepEqual(
        commits.map(({ ref, from, count }) => [ref, from, count]),
        [['refs/heads/main', tree.head, 2]],
      );
      assert.equal(tree.git('rev-parse', 'main'), commits[0]!.to);
      assert.equal(tree.status(), '');
      tree.git('fsck', '--strict');
      assert.deepEqual((await tree.list()).changes, [], 'nothing is left in the layer');
      const undone = await tree.undo();
      assert.deepEqual([tree.git('rev-parse', 'HEAD'), tree.status()], [tree.head, '']);
      assert.deepEqual([tree.owners(), undone.is_in_layer], [person, true]);
      const { changes } = await tree.list();
      assert.ok(changes.some(({ path }) => path === 'a'));
      assert.ok(changes.every(({ conflict }) => conflict === null));
      const next = await tree.apply({ apply_id: `again-${made}` });
      assert.deepEqual([next.commits, tree.status()], [commits, '']);
    });

    it('of a new branch are counted from those that the person has', async () => {
      const tree = await start(`git checkout -qb topic; ${COMMIT}`);
      const { commits } = await tree.apply();
      assert.deepEqual(
        commits.map(({ ref, from, count }) => [ref, from, count]),
        [['refs/heads/topic', null, 2]],
      );
      assert.equal(tree.git('rev-parse', 'topic'), commits[0]!.to);
      assert.equal(tree.git('rev-parse', 'HEAD'), tree.head);
    });

    it('of a repository that agents have made wait for one that the person makes', async () => {
      const name = `t${made++}`;
      const { repo } = world.directory(name, { a: '1\n' });
      const box = await world.open(name, repo);
      await box.run(
        `git init -q -b main; ${COMMIT}; echo '#!/bin/sh' > .git/hooks/post-checkout; ` +
          'chmod 755 .git/hooks/post-checkout; git config core.fsmonitor evil',
      );
      await box.close();
      const params = { id: world.treeId(name) };
      const apply = (apply_id: string) =>
        world.agentd.applyLayer({ params, body: { apply_id: `${name}-${apply_id}`, allow: [] } });
      const first = await apply('first');
      assert.deepEqual(first.applied, ['a', 'n', 'n/x']);
      assert.deepEqual(
        [first.commits, first.commits_left],
        [[], [{ ref: 'refs/heads/main', count: 2 }]],
      );
      assert.equal(existsSync(join(repo, '.git')), false);
      const { changes } = await world.agentd.layerChanges({ params, query: {} });
      assert.ok(changes.length > 5);
      assert.ok(changes.every(({ refused }) => refused.join() === 'own_repository'));

      const env = { ...GIT_ENV, GIT_OPTIONAL_LOCKS: '0' };
      const git = (...args: string[]): string =>
        execFileSync('git', ['-c', 'safe.directory=*', ...args], {
          cwd: repo,
          encoding: 'utf8',
          env,
        }).trim();
      git('init', '-q', '-b', 'main');
      world.directory(name, {});
      const second = await apply('second');
      assert.deepEqual([second.applied, second.commits_left], [[], []]);
      assert.deepEqual(
        second.commits.map(({ ref, from, count }) => [ref, from, count]),
        [['refs/heads/main', null, 2]],
      );
      assert.equal(git('rev-parse', 'HEAD'), second.commits[0]!.to);
      assert.equal(git('status', '--porcelain'), '');
      git('fsck', '--strict');
      assert.equal(existsSync(join(repo, '.git/hooks/post-checkout')), false);
      assert.doesNotMatch(readFileSync(join(repo, '.git/config'), 'utf8'), /fsmonitor/);
      const left = await world.agentd.layerChanges({ params, query: {} });
      assert.deepEqual(left.changes, []);
    });

    it('a ref of the person in the way is a fault, and nothing is applied', async () => {
      const tree = await start(COMMIT);
      tree.git('commit', '-q', '--allow-empty', '-m', 'by a person');
      const refused = (await tree.apply().catch((error: unknown) => error)) as Fault;
      assert.equal(refused.code, 'denied');
      assert.deepEqual(refused.details?.refused, [
        { path: 'refs/heads/main', kinds: ['git_refs'] },
      ]);
      assert.equal(readFileSync(join(tree.repo, 'a'), 'utf8'), '1\n');
      writeFileSync(join(tree.repo, 'staged'), 's\n');
      const other = await start(COMMIT);
      writeFileSync(join(other.repo, 'staged'), 's\n');
      other.git('add', 'staged');
      const conflict = (await other.apply().catch((error: unknown) => error)) as Fault;
      assert.deepEqual(conflict.details?.conflicts, [
        { path: 'refs/heads/main', reason: 'staged_changes' },
      ]);
      assert.equal(readFileSync(join(other.repo, 'a'), 'utf8'), '1\n');
    });

    for (const failpoint of ['sandboxd.after-apply-written', 'sandboxd.after-apply-commits'])
      it(`${failpoint}: finished at the next start`, async () => {
        const tree = await start(COMMIT);
        writeFileSync(crashFile, failpoint);
        await assert.rejects(tree.apply());
        assert.equal(existsSync(crashFile), false, `${failpoint} was reached`);
        const { commits } = await again(tree.apply);
        assert.equal(tree.git('rev-parse', 'main'), commits[0]!.to);
        assert.equal(tree.status(), '');
        assert.equal(tree.owners().length, 1);
        writeFileSync(crashFile, 'sandboxd.after-undo-commits');
        await assert.rejects(tree.undo());
        assert.equal((await again(tree.undo)).is_in_layer, true);
        assert.deepEqual([tree.git('rev-parse', 'HEAD'), tree.status()], [tree.head, '']);
      });

    it('programs that the layer’s repository names do not reach the directory', async () => {
      const evil = '#!/bin/sh\\ntouch /target/evil /workspace/evil /tmp/evil; exit 0\\n';
      const plant =
        `printf '${evil}' > .git/evil; chmod 755 .git/evil; for h in reference-transaction ` +
        'post-index-change; do cp .git/evil .git/hooks/$h; done; for k in core.fsmonitor ' +
        'uploadpack.packObjectsHook core.sshCommand core.pager; do git config $k "$PWD/.git/evil"; ' +
        'done; git config alias.for-each-ref "!$PWD/.git/evil"; rm -f evil /tmp/evil';
      const control = `${plant}; git status >/dev/null 2>&1; ls evil && rm evil`;
      const tree = await start(`${COMMIT}; ${control}`);
      const allow = ['git_config', 'git_hooks'];
      const refused = (await tree.apply().catch((error: unknown) => error)) as Fault;
      assert.equal(refused.code, 'denied', 'hooks and settings are named');
      assert.equal(tree.git('rev-parse', 'HEAD'), tree.head);
      const { commits, applied } = await tree.apply({ allow });
      assert.equal(commits.length, 1);
      const names = readdirSync(tree.repo);
      assert.ok(!names.includes('evil'), `${names.join(' ')}: ${applied.join(' ')}`);
    });
  });
