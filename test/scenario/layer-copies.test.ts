// Layers where no overlay can be mounted, as in a container: agents work on a copy, and people see,
// apply and undo its changes as those of any other. As root and as an ordinary user, in a whole
// runtime whose state, or whose people's directories, are on an overlay; control: the same on the
// disk is no copy.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it as test } from 'node:test';
import { type LayeredTasks, listFiles, startLayeredTasks } from '../support/layered-tasks.ts';
import { LAYER_MODES } from '../support/layers.ts';
import type { OnOverlay } from '../support/overlay.ts';
import { taskEnded } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';

const IS_ROOT = process.getuid?.() === 0;
const skip = IS_ROOT ? false : 'needs root, to mount';
const MEBIBYTE = 1_048_576;
const CHANGED = 'a dir dir/c file file/new gone gone/b link run'.split(' ');

/** Root cannot map owners on an overlay: there the directory alone is reason enough. */
const GROUNDS: readonly { mode: (typeof LAYER_MODES)[number]; on: OnOverlay; why: RegExp }[] = [
  ...LAYER_MODES.map((mode) => ({
    mode,
    on: { stateOn: 'overlay' } as const,
    why: /is on an overlay/,
  })),
  { mode: 'root', on: { peopleOn: 'overlay' }, why: /cannot be mapped/ },
  { mode: 'root', on: { stateOn: 'overlay', peopleOn: 'overlay' }, why: /cannot be mapped/ },
];

for (const { mode, on, why } of GROUNDS) {
  const where = Object.keys(on).join(', ');
  describe(`layers that are copies, as ${mode}, on an overlay: ${where}`, {
    skip,
    timeout: 400_000,
  }, () => {
    let world: LayeredTasks;
    let made = 0;
    before(async () => {
      const sandboxd = { layer_copy_bytes_max: MEBIBYTE };
      if (IS_ROOT) world = await startLayeredTasks(mode, undefined, { ...on, sandboxd });
    });
    after(() => world?.stop());
    const it = (what: string, check: () => Promise<void>) =>
      test(what, (t) => (world.missing === undefined ? check() : t.skip(world.missing)));
    const done = (...words: string[]) => world.done(...words);
    const make = (files: Record<string, string>) => world.makeDirectory(`d${made++}`, files);
    const copiesOf = (id: string): unknown => {
      const db = new DatabaseSync(join(world.runtime().stateDir, 'sandboxd.sqlite'));
      try {
        return db.prepare('SELECT copies FROM layers WHERE root_task_id = ?').get(id)?.copies;
      } finally {
        db.close();
      }
    };
    const paths = async (id: string): Promise<string[]> => {
      const text = await done('task', 'diff', id, '--name-only');
      return text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    };

    /** Everything is the person's, with her group. */
    const assertOwned = (dir: string): void => {
      if (world.owner === undefined) return;
      for (const path of ['.', ...readdirSync(dir, { recursive: true, encoding: 'utf8' })]) {
        const { uid, gid } = lstatSync(join(dir, path));
        assert.deepEqual([uid, gid], [world.owner, world.owner], path);
      }
    };

    it('every kind of change is listed, applied and taken back', async () => {
      const files = {
        a: 'a\n',
        run: 'x\n',
        'gone/b': 'b\n',
        file: 'f\n',
        'dir/c': 'c\n',
        'same/d': 'd\n',
      };
      const dir = make(files);
      symlinkSync('a', join(dir, 'link'));
      if (world.owner !== undefined) lchownSync(join(dir, 'link'), world.owner, world.owner);
      const commands =
        'echo 2 >> a; chmod 755 run; rm -r gone; rm file; mkdir file; echo n > file/new; ' +
        'rm -r dir; echo now > dir; ln -sf run link; touch same/d';
      const { id } = await world.work(dir, commands);
      assert.notEqual(copiesOf(id), null, 'it is a copy');
      assert.deepEqual(listFiles(dir), { ...files, link: 'a\n' }, 'nothing has changed yet');
      assert.deepEqual((await paths(id)).sort(), CHANGED);
      assert.match(await done('task', 'diff', id), /# Deleted:\n# {3}dir\/c\n# {3}gone\/\n/);
      await done('task', 'apply', id);
      const after = { a: 'a\n2\n', dir: 'now\n', 'file/new': 'n\n', run: 'x x\n', 'same/d': 'd\n' };
      assert.deepEqual(listFiles(dir), { ...after, link: 'x x\n' });
      assertOwned(dir);
      await done('task', 'undo', id);
      assert.deepEqual(listFiles(dir), { ...files, link: 'a\n' });
      assertOwned(dir);
      assert.equal((await paths(id)).length, 9, 'the changes are back');
    });

    it('what a person changes meanwhile is hers: no change, merged, or a conflict', async () => {
      const text = '1\n2\n3\n4\n5\n6\n7\n';
      const dir = make({
        both: text,
        same: text,
        hers: 'old\n',
        removed: 'r\n',
        'd/x': 'x\n',
        edited: 'e\n',
      });
      const edit =
        "sed -i 's/^1$/one/' both; sed -i 's/^4$/agent/' same; echo 2 >> edited; echo n > new";
      const { id } = await world.work(dir, edit);
      writeFileSync(join(dir, 'both'), text.replace('7', 'seven'));
      writeFileSync(join(dir, 'hers'), 'new\n');
      writeFileSync(join(dir, 'added'), 'by her\n');
      writeFileSync(join(dir, 'new'), 'her own\n');
      for (const name of ['removed', 'd', 'edited']) rmSync(join(dir, name), { recursive: true });
      writeFileSync(join(dir, 'same'), text.replace('4', 'person'));
      world.give(dir);
      assert.deepEqual((await paths(id)).sort(), ['both', 'edited', 'new', 'same']);
      const { code, stderr } = await world.run('task', 'apply', id);
      assert.equal(code, 1, stderr);
      for (const reason of [/edited .*removed/, /new .*made it, too/, /same .*same lines/])
        assert.match(stderr, reason);
      await done('task', 'apply', id, 'both');
      assert.equal(
        readFileSync(join(dir, 'both'), 'utf8'),
        text.replace('1', 'one').replace('7', 'seven'),
      );
      const hers = { added: 'by her\n', hers: 'new\n', new: 'her own\n' };
      const { both: _, same: __, ...rest } = listFiles(dir);
      assert.deepEqual(rest, hers);
    });

    it('a file that came back with its old times is a conflict all the same', async () => {
      const dir = make({ a: 'first\n' });
      const { atime, mtime } = statSync(join(dir, 'a'));
      const { id } = await world.work(dir, 'echo agent > a');
      writeFileSync(join(dir, 'b'), 'other\n');
      utimesSync(join(dir, 'b'), atime, mtime);
      renameSync(join(dir, 'b'), join(dir, 'a'));
      world.give(dir);
      assert.match((await world.run('task', 'apply', id)).stderr, /^conflict +a +/m);
      assert.equal(readFileSync(join(dir, 'a'), 'utf8'), 'other\n');
    });

    it('links are copied, not followed, and what cannot be copied is left alone', async () => {
      const outside = make({ secret: 'secret\n' });
      const dir = make({ a: 'a\n' });
      symlinkSync(join(outside, 'secret'), join(dir, 'out'));
      symlinkSync(outside, join(dir, 'away'));
      execFileSync('mkfifo', [join(dir, 'pipe')]);
      mkdirSync(join(dir, 'closed'), { mode: 0o700 });
      writeFileSync(join(dir, 'closed', 'b'), 'b\n');
      const { id } = await world.work(dir, 'cat out away/secret closed/b; echo 2 >> a; rm -f out');
      const held = join(world.runtime().stateDir, 'workspaces', id, 'layers', '1', 'upper');
      assert.deepEqual(readdirSync(held).sort(), ['a', 'away']);
      assert.deepEqual((await paths(id)).sort(), ['a', 'out']);
      await done('task', 'apply', id, 'a');
      assert.deepEqual(readdirSync(dir).sort(), ['a', 'away', 'closed', 'out', 'pipe']);
      assert.equal(readFileSync(join(outside, 'secret'), 'utf8'), 'secret\n');
    });

    it('a directory that is too large is refused with what to do, and leaves nothing', async () => {
      const dir = make({ big: 'x'.repeat(2 * MEBIBYTE) });
      const { id } = await world.work(dir, 'ls');
      const { task } = await world.runtime().agentd.getTask({ params: { id } });
      const text = JSON.stringify(task.result);
      assert.match(text, /has more than 0.0 GiB and 200000 files, and would have to be copied/);
      assert.match(text, /sandboxd.layer_copy_bytes_max/);
      const held = join(world.runtime().stateDir, 'workspaces', id, 'layers', '1', 'upper');
      assert.deepEqual(existsSync(held) ? readdirSync(held) : [], []);
      const small = make({ small: 'x' });
      await world.work(small, 'echo 2 > small');
    });

    it('a directory mode, and a file of mode 0, come and go', async () => {
      const dir = make({ 'd/a': 'a\n', locked: 'l\n' });
      chmodSync(join(dir, 'locked'), 0o444);
      chmodSync(join(dir, 'd'), 0o555);
      const { id } = await world.work(dir, 'chmod 755 d; echo 2 > d/b');
      assert.deepEqual((await paths(id)).sort(), ['d', 'd/b']);
      await done('task', 'apply', id);
      assert.equal(statSync(join(dir, 'd')).mode & 0o777, 0o755);
      await done('task', 'undo', id);
      assert.equal(statSync(join(dir, 'd')).mode & 0o777, 0o555);
    });

    it('discarding removes the copy, and the next one is made when it is needed', async () => {
      const dir = make({ a: 'a\n' });
      const { id } = await world.work(dir, 'echo 2 >> a');
      await done('task', 'discard', id, '--yes');
      assert.deepEqual(await paths(id), []);
      const held = join(world.runtime().stateDir, 'workspaces', id);
      assert.deepEqual(
        [readdirSync(join(held, 'copies')), readdirSync(join(held, 'layers'))],
        [[], ['2']],
      );
      assert.deepEqual(JSON.parse(String(copiesOf(id)))['2'], undefined, 'nothing needs it yet');
    });

    it('a probe says which it is for a directory, why, and leaves nothing', async () => {
      const { sandboxd, stateDir } = world.runtime();
      const probe = (path: string) => sandboxd.probeLayer({ query: { path } });
      const { mechanism, reason } = await probe(make({}));
      assert.deepEqual([mechanism, why.test(reason!)], ['copy', true], reason!);
      const refused = await probe('/usr/share');
      assert.deepEqual([refused.mechanism, refused.reason !== null], ['none', true]);
      const left = readdirSync(join(stateDir, 'workspaces')).filter((name) => name.startsWith('.'));
      assert.deepEqual(left, []);
    });

    it('a program of a person works on one', async () => {
      const dir = make({ a: 'a\n', closed: 'c\n' });
      chmodSync(join(dir, 'closed'), 0o600);
      const program = ['--', 'sh', '-c', 'cat closed; echo 2 >> a; echo n > new'];
      const ran = await world.run('box', 'run', '--workspace', dir, '--layer', ...program);
      assert.deepEqual([ran.code, ran.stdout], [0, 'c\n'], ran.stderr);
      assert.deepEqual(listFiles(dir), { a: 'a\n', closed: 'c\n' }, 'nothing has changed yet');
      const { tasks } = await world.runtime().agentd.listTasks({ query: { limit: 1 } });
      const { id } = tasks[0]!;
      assert.notEqual(copiesOf(id), null, 'it is a copy');
      assert.deepEqual((await paths(id)).sort(), ['a', 'new']);
      await done('task', 'apply', id);
      assert.deepEqual(listFiles(dir), { a: 'a\n2\n', closed: 'c\n', new: 'n\n' });
      assertOwned(dir);
      await done('task', 'undo', id);
      assert.deepEqual(listFiles(dir), { a: 'a\n', closed: 'c\n' });
    });

    it('a subtask has no layer of its own there, and is told why', async () => {
      const dir = make({ a: 'a\n' });
      const goal = `Give work away in ${dir}`;
      const child = { agent: 'helper', goal: 'Help', workspace: 'own' };
      world.model.on('Help', finishes('helped'));
      world.model.on(goal, says(call('task.delegate', child)), ({ results }) =>
        finishes(results.join('\n')),
      );
      const body = { goal, agent: 'coder', workspace: dir, workspace_mode: 'layer' as const };
      const { task } = await world.runtime().agentd.createTask({ body });
      const ended = await taskEnded(world.runtime(), task.id);
      assert.match(JSON.stringify(ended.result), /works on a copy of .*, which cannot be sealed/);
    });
  });
}

describe('control: layers of a state on the disk', { skip, timeout: 200_000 }, () => {
  test('are overlays', async () => {
    const world = await startLayeredTasks('root');
    try {
      const dir = world.makeDirectory('d', { a: 'a\n' });
      const { id } = await world.work(dir, 'echo 2 >> a');
      const held = join(world.runtime().stateDir, 'workspaces', id);
      assert.deepEqual(await world.runtime().sandboxd.probeLayer({ query: { path: dir } }), {
        mechanism: 'overlay',
        reason: null,
      });
      assert.deepEqual(readdirSync(join(held, 'layers', '1', 'upper')), ['a']);
      assert.equal(existsSync(join(held, 'copies')), false);
    } finally {
      await world.stop();
    }
  });
});
