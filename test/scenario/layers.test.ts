// A task tree on a layer: its agents see a person's directory and change it, and the directory
// stays as it is. As root, where the tree's boxes are a user of their own, and as an ordinary user.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { BOX_NOT_OPEN } from '../../src/wire/sandboxd.ts';
import { LAYER_MODES, type LayerWorld, startLayerWorld } from '../support/layers.ts';
import { assertHostClean } from '../support/leftovers.ts';
import { eventually } from '../support/runtime.ts';

for (const mode of LAYER_MODES) {
  describe(`layers of task trees, as ${mode}`, { timeout: 240_000 }, () => {
    let world: LayerWorld;
    before(async () => {
      world = await startLayerWorld(mode);
    });
    after(() => world?.stop());

    it('agents change what they see, and the directory stays as it is', async () => {
      const { repo } = world.directory('plain', { 'a.txt': 'one\n', 'src/b.txt': 'two\n' });
      const before_ = world.fingerprint(repo);
      const box = await world.open('plain', repo);
      const seen = await box.run(
        'cat a.txt src/b.txt; echo new > c; rm a.txt; echo 3 >> src/b.txt',
      );
      assert.equal(seen, 'one\ntwo\n');
      assert.equal(await box.run('cat c src/b.txt; ls'), 'new\ntwo\n3\nc\nsrc\n');
      assert.equal(world.fingerprint(repo), before_);
      await box.close();
      const again = await world.open('plain', repo);
      assert.equal(await again.run('cat c src/b.txt'), 'new\ntwo\n3\n', 'it was kept');
      await again.close();
      assert.equal(world.fingerprint(repo), before_);
    });

    it('all agents of the tree share it, also at once, and file tools see it', async () => {
      const { repo } = world.directory('shared', { a: 'a\n' });
      const one = await world.open('shared', repo, { agent: 'coder' });
      const two = await world.open('shared', repo, { agent: 'planner' });
      await one.run('echo from-one > f && mkdir -m 700 d && echo x > d/x && chmod 600 f');
      assert.equal(await two.run('cat f d/x && echo y >> d/x && rm f'), 'from-one\nx\n');
      const read = await one.file({ op: 'read', path: '/workspace/d/x' });
      assert.equal(read.content, 'x\ny\n');
      await two.file({ op: 'write', path: '/workspace/w', content: 'w' });
      assert.equal(await one.run('ls'), 'a\nd\nw\n');
      const other = await world.open('shared-2', repo);
      assert.equal(await other.run('ls'), 'a\n', 'another tree has its own');
      for (const box of [one, two, other]) await box.close();
      assert.deepEqual(readdirSync(repo), ['a']);
    });

    it('boxes of the tree are one user, who owns their files, and no other tree’s', async () => {
      const { repo } = world.directory('owner', { a: 'a\n' }, 0o600);
      const box = await world.open('owner', repo);
      const [uid, gid] = (await box.run('echo $(id -u) $(id -g)')).trim().split(' ').map(Number);
      assert.equal(await box.run('stat -c %u:%g . a'), `${uid}:${gid}\n${uid}:${gid}\n`);
      assert.equal(await box.run('cat a; echo b > ~/b; stat -c %u ~'), `a\n${uid}\n`);
      if (mode === 'root') assert.deepEqual([uid, gid], [box.view.gid, box.view.gid]);
      const other = await world.open('owner-2', repo);
      if (mode === 'root') assert.notEqual(other.view.uid, uid);
      for (const one of [box, other]) await one.close();
    });

    it('what the person changes is there when the next box opens', async () => {
      const { repo } = world.directory('anew', { a: '1\n', b: '1\n' });
      const box = await world.open('anew', repo);
      await box.run('echo mine > b');
      await box.close();
      writeFileSync(join(repo, 'c'), 'from a person\n');
      writeFileSync(join(repo, 'a'), '2\n');
      const next = await world.open('anew', repo);
      assert.equal(await next.run('cat a b c'), '2\nmine\nfrom a person\n');
      await next.close();
    });

    it('what the person changes is there before the next command, if none is running', async () => {
      const { repo } = world.directory('refreshed', { 'd/a': '1\n' });
      const box = await world.open('refreshed', repo);
      await box.run('echo mine > m; cat d/a');
      writeFileSync(join(repo, 'd', 'b'), 'new\n');
      rmSync(join(repo, 'd', 'a'));
      const stale = { code: 'not_found', details: { reason: BOX_NOT_OPEN } };
      await new Promise((resolve) => setTimeout(resolve, 1_100));
      await assert.rejects(box.run('ls d'), stale);
      const next = await world.open('refreshed', repo);
      const sleeping = next.run('sleep 2; ls d');
      await new Promise((resolve) => setTimeout(resolve, 1_100));
      writeFileSync(join(repo, 'd', 'c'), 'c\n');
      assert.match(await next.run('cat m; ls d'), /^mine\nb\n/, 'another command runs');
      assert.match(await sleeping, /^b\n/);
      await next.close();
    });

    it('a denied path is closed in a layer, wherever it is reached from', async () => {
      const { repo } = world.directory('denied', { 'secret/key': 'k\n', a: 'a\n' });
      const rules = { read: [], write: ['/workspace'], deny: ['/workspace/secret'] };
      const open = await world.open('denied', repo);
      assert.equal(await open.run('cat secret/key'), 'k\n', 'without the rule it is open');
      await open.close();
      const box = await world.open('denied', repo, { rules });
      assert.equal(
        await box.run('ls secret; cat secret/key 2>/dev/null || echo closed'),
        'closed\n',
      );
      assert.equal(await box.run('mv secret s 2>/dev/null || echo stays'), 'stays\n');
      assert.match(await box.run('(echo x > secret/key) 2>&1 || true'), /Read-only|denied/);
      await box.close();
      assert.equal(readFileSync(join(repo, 'secret/key'), 'utf8'), 'k\n');
    });

    it('git settings may be written in a layer: nothing of it runs on the host', async () => {
      const { repo } = world.directory('git', {
        '.git/config': '[core]\n',
        '.git/HEAD': 'ref: x\n',
      });
      const box = await world.open('git', repo);
      await box.run(
        'mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit && echo x >> .git/config',
      );
      await box.close();
      assert.equal(existsSync(join(repo, '.git/hooks')), false);
      assert.equal(readFileSync(join(repo, '.git/config'), 'utf8'), '[core]\n');
    });

    it('refuses what would bypass the layer, or mix it with the directory itself', async () => {
      const { repo } = world.directory('mixed', { 'docs/a': 'a\n' });
      const parts = { read: ['/workspace'], write: ['/workspace/docs'], deny: [] };
      await assert.rejects(world.open('mixed', repo, { rules: parts }), {
        code: 'level_unavailable',
        message: /only parts of \/workspace/,
      });
      await assert.rejects(world.runOnce('mixed', repo, 'L1', 'true'), {
        code: 'level_unavailable',
        message: /bypass the layer/,
      });
      assert.equal(await world.runOnce('mixed', repo, 'L2', 'echo x > new; ls'), 'docs\nnew\n');
      assert.deepEqual(readdirSync(repo), ['docs']);
      const live = { workspace_mode: 'live' as const };
      await assert.rejects(world.open('mixed', repo, live), { code: 'conflict' });
      const elsewhere = world.directory('elsewhere', {}).repo;
      await assert.rejects(world.open('mixed', elsewhere), { code: 'conflict' });
      await assert.rejects(world.open('etc', '/etc'), { code: 'denied' });
    });

    it('is no layer over another directory that came to the same path', async () => {
      const { repo } = world.directory('moved', { a: 'a\n' });
      const box = await world.open('moved', repo);
      await box.run('echo 1 > a');
      await box.close();
      renameSync(repo, `${repo}.old`);
      world.directory('moved', { a: 'other\n' });
      await assert.rejects(world.open('moved', repo), { code: 'conflict', message: /is not the/ });
      const params = { id: world.treeId('moved') };
      const body = { apply_id: 'moved', allow: [] };
      await assert.rejects(world.agentd.applyLayer({ params, body }), { code: 'conflict' });
      assert.equal(readFileSync(join(repo, 'a'), 'utf8'), 'other\n');
      rmSync(repo, { recursive: true });
      renameSync(`${repo}.old`, repo);
      await world.agentd.applyLayer({ params, body });
      assert.equal(readFileSync(join(repo, 'a'), 'utf8'), '1\n');
    });

    it('its quota counts what was written to the layer, not the directory', async () => {
      const { repo } = world.directory('quota', {});
      writeFileSync(join(repo, 'large'), Buffer.alloc(8 * 1_048_576, 1));
      const resources = { disk_bytes: 4 * 1_048_576 };
      const rules = { read: [], write: ['/workspace'], deny: [], resources };
      const box = await world.open('quota', repo, { rules });
      assert.equal(await box.run('echo x > small && cat small'), 'x\n');
      await assert.rejects(
        box.run('head -c 6000000 /dev/urandom > much; sync; sleep 20'),
        /disk|25/,
      );
      await box.close();
    });

    it('a tree that was pruned leaves no files, and its layer is gone', async () => {
      const { repo } = world.directory('pruned', { a: 'a\n' });
      const box = await world.open('pruned', repo);
      await box.run('echo x > x');
      const dir = join(world.runtime.stateDir, 'workspaces', world.treeId('pruned'));
      assert.ok(existsSync(join(dir, 'layers/1/upper')));
      const prune = (kind: 'workspaces' | 'homes') =>
        world.agentd.pruneTreeFiles({ params: { id: world.treeId('pruned') }, query: { kind } });
      assert.equal((await prune('workspaces')).left, 1, 'a box is open');
      await box.close();
      await eventually('its files are removed', async () =>
        (await prune('workspaces')).left === 0 ? true : undefined,
      );
      await prune('homes');
      assert.equal(existsSync(dir), false);
      assert.deepEqual(readdirSync(repo), ['a']);
    });

    it('a warden that dies takes boxes and layer along; the next box has the changes', async () => {
      const { repo } = world.directory('killed', { a: 'a\n' });
      const box = await world.open('killed', repo);
      await box.run('echo kept > k; sync');
      world.killWarden();
      await eventually('the box is gone', () =>
        box.run('true').then(
          () => undefined,
          () => true,
        ),
      );
      const next = await eventually('the next box', () =>
        world.open('killed', repo).catch(() => undefined),
      );
      assert.equal(await next.run('cat k'), 'kept\n');
      await next.close();
    });

    it('nothing is left on the host after the stop', async () => {
      await world.runtime.stop();
      await assertHostClean(world.runtime);
    });
  });
}
