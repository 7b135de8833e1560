// A person and the layer of a task: list what agents changed, apply it, undo that, discard it. With
// the real warden, as root, where files must land as the person's, and as an ordinary user.
import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { hashChanges } from '../../src/platform/change-hash.ts';
import type { Fault } from '../../src/wire/errors.ts';
import { conflictsOf, makeTrees } from '../support/layer-trees.ts';
import { LAYER_MODES, type LayerWorld, startLayerWorld } from '../support/layers.ts';

const textOf = (...path: string[]): string => readFileSync(join(...path), 'utf8');
const isThere = (...path: string[]): boolean => existsSync(join(...path));

for (const mode of LAYER_MODES) {
  describe(`changes of a layer, as ${mode}`, { timeout: 400_000 }, () => {
    let world: LayerWorld;
    before(async () => {
      world = await startLayerWorld(mode);
    });
    after(() => world?.stop());

    const changed: ReturnType<typeof makeTrees> = (...given) => makeTrees(world)(...given);

    it('lists them with both sides, in pages, and shows their texts', async () => {
      const tree = await changed(
        'listed',
        { 'a.txt': 'old\n', 'b.txt': 'b\n', 'd/c': 'c\n' },
        'echo new > a.txt; rm b.txt; mkdir e; echo e > e/f; ln -s a.txt l; chmod 755 d/c',
      );
      assert.deepEqual(await tree.kinds(), [
        'modified a.txt',
        'deleted b.txt',
        'mode d/c',
        'added e',
        'added e/f',
        'added l',
      ]);
      const all = await tree.list();
      assert.deepEqual([all[0]!.before!.size_bytes, all[0]!.after!.size_bytes], [4, 4]);
      assert.equal(all[5]!.after!.link_target, 'a.txt', JSON.stringify(all[5]));
      assert.ok(
        all.every(({ conflict }) => conflict === null),
        JSON.stringify(all),
      );
      const { params } = tree;
      const paged: string[] = [];
      for (let after_: string | null | undefined; after_ !== null; ) {
        const query = { limit: 2, ...(after_ === undefined ? {} : { after: after_ }) };
        const page = await world.agentd.layerChanges({ params, query });
        paged.push(...page.changes.map(({ path }) => path));
        after_ = page.next;
      }
      assert.deepEqual(paged, ['a.txt', 'b.txt', 'd/c', 'e', 'e/f', 'l']);
      const body = { paths: ['a.txt', 'b.txt', 'e/f', 'none'], bytes_max: 3 };
      const { texts } = await world.agentd.layerTexts({ params, body });
      const plain = (text: string | null) => text && Buffer.from(text, 'base64').toString();
      assert.deepEqual(
        texts.map((text) => [plain(text.before_base64), plain(text.after_base64), text.is_cut]),
        [
          ['old', 'new', true],
          ['b\n', null, false],
          [null, 'e\n', false],
          [null, null, false],
        ],
      );
    });

    it('applies all of them, as the person, and the layer is empty again', async () => {
      const tree = await changed(
        'applied',
        { 'a.txt': 'old\n', 'b.txt': 'b\n', 'd/c': 'c\n', x: 'file\n', 'y/z': 'in a directory\n' },
        'echo new > a.txt; rm b.txt; mkdir -p e/g; echo e > e/g/f; ln -s a.txt l; chmod 750 d/c;' +
          'rm x; mkdir x; echo in > x/in; rm -r y; echo y > y',
      );
      const { uid, gid } = statSync(tree.repo);
      const apply_id = 'apply-once';
      const expect = hashChanges(await tree.list());
      const done = await tree.apply({ apply_id, expect });
      assert.equal(done.change_sha256, expect);
      const paths = 'a.txt b.txt d/c e e/g e/g/f l x x/in y y/z';
      assert.equal(done.applied.join(' '), paths);
      const { repo } = tree;
      assert.deepEqual(
        ['a.txt', 'e/g/f', 'x/in', 'y'].map((path) => textOf(repo, path)),
        ['new\n', 'e\n', 'in\n', 'y\n'],
      );
      assert.equal(isThere(repo, 'b.txt'), false);
      assert.equal(readlinkSync(join(repo, 'l')), 'a.txt');
      assert.equal(statSync(join(repo, 'd/c')).mode & 0o777, 0o750);
      for (const name of readdirSync(repo, { recursive: true, encoding: 'utf8' })) {
        const found = lstatSync(join(repo, name));
        assert.deepEqual([found.uid, found.gid], [uid, gid], `${name} is the person’s`);
      }
      assert.deepEqual(await tree.list(), []);
      assert.deepEqual(await tree.apply({ apply_id, expect }), done, 'repeated: from the record');
      const own = join(world.runtime.stateDir, 'workspaces', tree.params.id);
      assert.deepEqual(readdirSync(join(own, 'layers')), ['1', '2'], 'kept for an undo');
      assert.equal(await tree.run('cat a.txt; echo more >> a.txt'), 'new\n');
      assert.deepEqual(await tree.kinds(), ['modified a.txt']);
      const { layer } = await world.agentd.layerChanges({ params: tree.params, query: {} });
      assert.deepEqual(
        layer?.applied.map((one) => [one.apply_id, one.undone]),
        [[apply_id, false]],
      );
    });

    it('applies some paths, and keeps the others in the layer', async () => {
      const tree = await changed(
        'some',
        { a: 'a\n', b: 'b\n' },
        'echo 1 > a; echo 1 > b; mkdir -p n/m; echo 1 > n/m/x; echo 1 > n/y',
      );
      const { repo } = tree;
      const done = await tree.apply({ paths: ['a', 'n/m'] });
      assert.deepEqual(done.applied, ['a', 'n', 'n/m', 'n/m/x'], 'with the directory above');
      assert.deepEqual([textOf(repo, 'a'), textOf(repo, 'b')], ['1\n', 'b\n']);
      assert.equal(isThere(repo, 'n/y'), false);
      assert.deepEqual(await tree.kinds(), ['modified b', 'added n/y']);
      await tree.run('echo 2 > a');
      assert.deepEqual(
        (await tree.list()).map(({ path, conflict }) => [path, conflict]),
        [
          ['a', null],
          ['b', null],
          ['n/y', null],
        ],
        'a change after the apply is none of a person',
      );
      await tree.apply();
      assert.deepEqual([textOf(repo, 'a'), textOf(repo, 'b')], ['2\n', '1\n']);
    });

    it('a person’s later edit of an applied path is a conflict, and is not reverted', async () => {
      const tree = await changed('later', { a: 'a\n', b: 'b\n' }, 'echo 1 > a; echo 1 > b');
      await tree.apply({ paths: ['a'] });
      writeFileSync(join(tree.repo, 'a'), 'by a person\n');
      const found = await tree.list();
      assert.deepEqual(
        found.map(({ path, conflict }) => [path, conflict]),
        [
          ['a', 'changed'],
          ['b', null],
        ],
      );
      assert.deepEqual(await conflictsOf(tree.apply()), [{ path: 'a', reason: 'changed' }]);
      assert.deepEqual(
        [textOf(tree.repo, 'a'), textOf(tree.repo, 'b')],
        ['by a person\n', 'b\n'],
        'nothing was applied',
      );
      await tree.apply({ paths: ['b'] });
      assert.equal(textOf(tree.repo, 'b'), '1\n');
    });

    it('conflicts with what a person changed meanwhile, and then applies nothing', async () => {
      const files = { a: 'a\n', b: 'b\n', 'd/x': 'x\n', e: 'e\n' };
      const tree = await changed(
        'conflict',
        files,
        'for f in a b e; do echo 1 > $f; done; rm -r d',
      );
      writeFileSync(join(tree.repo, 'a'), 'by a person\n');
      writeFileSync(join(tree.repo, 'd/new'), 'by a person\n');
      assert.deepEqual(await conflictsOf(tree.apply()), [
        { path: 'a', reason: 'overlaps' },
        { path: 'd/new', reason: 'changed' },
      ]);
      assert.deepEqual(
        ['a', 'b', 'd/x', 'd/new', 'e'].map((path) => textOf(tree.repo, path)),
        ['by a person\n', 'b\n', 'x\n', 'by a person\n', 'e\n'],
      );
      await tree.apply({ paths: ['b', 'e'] });
      assert.deepEqual([textOf(tree.repo, 'b'), textOf(tree.repo, 'e')], ['1\n', '1\n']);
    });

    it('applies only what a person has seen', async () => {
      const tree = await changed('seen', { a: 'a\n' }, 'echo 1 > a');
      const expect = hashChanges(await tree.list());
      await tree.run('echo 2 > a');
      await assert.rejects(tree.apply({ expect }), { code: 'conflict', message: /not those/ });
      assert.equal(textOf(tree.repo, 'a'), 'a\n');
      await tree.apply({ expect: hashChanges(await tree.list()) });
      assert.equal(textOf(tree.repo, 'a'), '2\n');
    });

    it('undoes an apply, unless a person has changed a file since', async () => {
      const script = 'echo 1 > a; rm b; mkdir n; echo n > n/x; chmod 600 c; rm -r d; ln -s a l';
      const files = { a: 'a\n', b: 'b\n', c: 'c\n', 'd/e/f': 'f\n' };
      const tree = await changed('undone', files, script);
      const { repo } = tree;
      const print = () =>
        readdirSync(repo, { recursive: true, encoding: 'utf8' })
          .sort()
          .map((name) => {
            const found = lstatSync(join(repo, name));
            const text = found.isFile() ? textOf(repo, name) : '';
            return `${name} ${found.mode} ${found.uid}:${found.gid} ${text}`;
          });
      const before_ = print();
      await assert.rejects(tree.undo(), { code: 'not_found' });
      const { apply_id } = await tree.apply();
      assert.notDeepEqual(print(), before_);
      writeFileSync(join(repo, 'a'), 'since\n');
      assert.deepEqual(await conflictsOf(tree.undo()), [{ path: 'a', reason: 'changed' }]);
      assert.equal(textOf(repo, 'n/x'), 'n\n', 'nothing was undone');
      writeFileSync(join(repo, 'a'), '1\n');
      const done = await tree.undo();
      assert.equal(done.apply_id, apply_id);
      assert.deepEqual(print(), before_);
      assert.deepEqual(await tree.undo(apply_id), done, 'repeated: from the record');
      await assert.rejects(tree.undo(), { code: 'not_found' });
    });

    it('discards what was not applied, and the agent sees the directory again', async () => {
      const tree = await changed('discarded', { a: 'a\n' }, 'echo 1 > a; echo 1 > b');
      assert.deepEqual(await tree.discard(), { discarded: 2 });
      assert.deepEqual(await tree.list(), []);
      assert.equal(await tree.run('cat a; ls'), 'a\na\n');
      assert.equal(textOf(tree.repo, 'a'), 'a\n');
      assert.deepEqual(await tree.discard(), { discarded: 0 });
    });

    it('waits for a running command, and holds new ones until it is done', async () => {
      const tree = await changed('running', { a: 'a\n' }, 'echo 1 > a');
      const box = await world.open('running', tree.repo);
      const running = box.run('sleep 1; echo 2 > a');
      await new Promise((resolve) => setTimeout(resolve, 200));

      await tree.apply();
      assert.equal(await running, '');
      assert.equal(textOf(tree.repo, 'a'), '2\n', 'with what the command wrote');
      await assert.rejects(box.run('true'), { code: 'not_found' }, 'its box was closed');
      const next = await world.open('running', tree.repo);
      const long = next.run('sleep 30').catch((error: unknown) => error);
      await new Promise((resolve) => setTimeout(resolve, 200));
      await assert.rejects(tree.discard(), { code: 'overloaded', message: /is running/ });
      await next.close();
      await long;
    });

    it('applies a renamed directory, and files in exchanged ones', async () => {
      const files: Record<string, string> = {};
      for (let n = 0; n < 20; n++) files[`one/${n}`] = `1-${n}\n`;
      for (let n = 0; n < 20; n++) files[`two/${n}`] = `2-${n}\n`;
      const tree = await changed(
        'renamed',
        files,
        'mv one three; mv two one; mv three two; echo more >> two/0; mv one/1 one/x',
      );
      await tree.apply();
      const { repo } = tree;
      assert.deepEqual(
        [
          textOf(repo, 'two/0'),
          textOf(repo, 'two/5'),
          textOf(repo, 'one/5'),
          textOf(repo, 'one/x'),
        ],
        ['1-0\nmore\n', '1-5\n', '2-5\n', '2-1\n'],
      );
      assert.equal(isThere(repo, 'one/1'), false);
      assert.equal(isThere(repo, 'three'), false);
      await tree.undo();
      assert.deepEqual([textOf(repo, 'one/5'), textOf(repo, 'two/5')], ['1-5\n', '2-5\n']);
      assert.equal(textOf(repo, 'one/1'), '1-1\n');
    });

    it('follows no link, neither of the agent nor of the person', async () => {
      const outside = join(world.base, `outside-${mode}`);
      mkdirSync(outside);
      chmodSync(outside, 0o777);
      writeFileSync(join(outside, 'f'), 'outside\n');
      chmodSync(join(outside, 'f'), 0o666);
      const tree = await changed(
        'links',
        { 'd/f': 'f\n', a: 'a\n' },
        `rm -r d; ln -s ${outside} d; rm a; ln -s ${outside}/f a`,
      );
      const refused = await tree.apply().catch((error: unknown) => error as Fault);
      assert.equal((refused as Fault).code, 'denied');
      assert.deepEqual((refused as Fault).details?.refused, [
        { path: 'a', kinds: ['link_out'] },
        { path: 'd', kinds: ['link_out'] },
      ]);
      assert.equal(textOf(tree.repo, 'a'), 'a\n');
      await tree.apply({ allow: ['link_out'] });
      assert.equal(readlinkSync(join(tree.repo, 'd')), outside);
      assert.equal(textOf(outside, 'f'), 'outside\n');
      const other = await changed('links-2', { 'd/f': 'f\n' }, 'echo 1 > d/f; echo 1 > d/g');
      rmSync(join(other.repo, 'd'), { recursive: true });
      symlinkSync(outside, join(other.repo, 'd'));
      await conflictsOf(other.apply());
      assert.equal(textOf(outside, 'f'), 'outside\n');
      assert.equal(isThere(outside, 'g'), false);
    });

    it('refuses what would run later, by kind, unless a person allows it', async () => {
      const tree = await changed(
        'kinds',
        { a: 'a\n', '.git/HEAD': 'ref: refs/heads/main\n', '.git/config': '[core]\n' },
        'mkdir .git/hooks; echo evil > .git/hooks/post-checkout; echo x > .git/index; echo 1 > a;' +
          'echo "[core] fsmonitor = evil" > .git/config; mkdir -p p/__pycache__ n/.git;' +
          'echo c > p/__pycache__/x.pyc; echo x > n/.git/config;',
      );
      const { repo } = tree;
      const kindsOf = new Map((await tree.list()).map(({ path, refused }) => [path, refused]));
      assert.deepEqual(kindsOf.get('a'), []);
      assert.deepEqual(kindsOf.get('.git/config'), ['git_config']);
      assert.deepEqual(kindsOf.get('.git/hooks/post-checkout'), ['git_hooks']);
      assert.deepEqual(kindsOf.get('.git/index'), ['git_files']);
      assert.deepEqual(kindsOf.get('p/__pycache__/x.pyc'), ['bytecode']);
      assert.ok(kindsOf.get('n/.git')!.includes('nested_repository'));
      const refused = (await tree.apply().catch((error: unknown) => error)) as Fault;
      assert.equal(refused.code, 'denied');
      assert.equal(textOf(repo, 'a'), 'a\n', 'nothing was applied');
      const some = await tree.apply({ paths: ['a', '.git/index', 'p'] });
      assert.deepEqual(some.applied, ['a', 'p'], 'git’s own files and caches are left out');
      assert.equal(isThere(repo, '.git/index'), false);
      const config = await tree.apply({ paths: ['.git/config'], allow: ['git_config'] });
      assert.deepEqual(config.applied, ['.git/config']);
      await assert.rejects(tree.apply({ paths: ['n/.git/config'], allow: ['git_config'] }), {
        code: 'denied',
        message: /n\/\.git /,
      });
      assert.equal(isThere(repo, 'n'), false);
      await tree.apply({ paths: ['.git/hooks'], allow: ['git_hooks'] });
      assert.equal(textOf(repo, '.git/hooks/post-checkout'), 'evil\n');
    });

    it('applies 1,000 files at once', async () => {
      const tree = await changed(
        'many',
        { 'd/0': 'old\n' },
        'for n in $(seq 1000); do mkdir -p d/$((n % 30)).d; echo $n > d/$((n % 30)).d/$n; done',
      );
      const began = performance.now();
      const { applied } = await tree.apply();
      const tookMs = performance.now() - began;
      assert.equal(applied.length, 1_030);
      assert.equal(textOf(tree.repo, 'd/5.d/995'), '995\n');
      assert.ok(tookMs < 60_000, `${tookMs} ms`);
      assert.equal((await tree.undo()).restored.length, 1_030);
      assert.deepEqual(readdirSync(join(tree.repo, 'd')), ['0']);
    });
  });
}
