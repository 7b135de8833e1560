// An agent works on a person's git repository in a layer: the directory stays as it is until the
// person applies the changes with agentctl, and can be taken back. As root and as an ordinary user,
// through a whole runtime.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it as test } from 'node:test';
import { fingerprint } from '../escape/support/layers.ts';
import { GIT_ENV } from '../support/git-env.ts';
import { type LayeredTasks, listFiles, startLayeredTasks } from '../support/layered-tasks.ts';
import { LAYER_MODES } from '../support/layers.ts';
import { passEnded } from '../support/prune.ts';
import { allEvents } from '../support/reconcile.ts';
import { taskEnded } from '../support/runtime.ts';

const FILES = { 'a.txt': 'one\n', 'gone.txt': 'gone\n', 'src/main.c': 'int main;\n', run: 'ls\n' };
const EDIT = [
  'echo two >> a.txt',
  'rm gone.txt',
  'mkdir docs',
  'printf "no newline" > docs/new',
  'chmod 755 run',
].join(' && ');
const COMMIT = `${EDIT} && git add -A && git -c user.name=a -c user.email=a@b commit -qm changed`;

for (const mode of LAYER_MODES) {
  describe(`a directory of a person, as ${mode}`, { timeout: 400_000 }, () => {
    let world: LayeredTasks;
    let made = 0;
    before(async () => {
      world = await startLayeredTasks(mode);
    });
    after(() => world?.stop());
    const it = (what: string, check: () => Promise<void>) =>
      test(what, (t) => (world.missing === undefined ? check() : t.skip(world.missing)));

    const git = (repo: string, ...argv: string[]): string =>
      execFileSync('git', ['-c', 'safe.directory=*', ...argv], {
        cwd: repo,
        encoding: 'utf8',
        // A status that refreshed the index would change the directory.
        env: { ...GIT_ENV, GIT_OPTIONAL_LOCKS: '0' },
      });
    const makeDirectory = (isRepository: boolean): string => {
      const dir = world.makeDirectory(`d${made++}`, FILES);
      if (!isRepository) return dir;
      git(dir, 'init', '-q', '-b', 'main');
      git(dir, 'add', '-A');
      git(dir, 'commit', '-qm', 'first');
      world.give(dir);
      return dir;
    };
    const done = (...words: string[]) => world.done(...words);
    const CHANGED = {
      'a.txt': 'one\ntwo\n',
      'docs/new': 'no newline',
      run: 'x ls\n',
      'src/main.c': 'int main;\n',
    };

    it('a repository is unchanged until the apply, which brings the commit, and undo takes back', async () => {
      const repo = makeDirectory(true);
      const [print, head] = [fingerprint(repo), git(repo, 'rev-parse', 'HEAD')];
      const { id, goal } = await world.work(repo, COMMIT);
      const [scene] = world.model.scenesFor(goal);
      assert.match(scene!.messages[0]!.content!, /Your changes stay in a layer until a person/);
      assert.equal(fingerprint(repo), print, 'nothing of it has changed');
      assert.match(await done('task', 'show', id), /changes wait: agentctl task diff task_/);
      const diff = await done('task', 'diff', id, 'a.txt', 'gone.txt');
      assert.match(diff, /^# Deleted:\n# {3}gone\.txt$/m);
      assert.match(diff, /^--- a\/a\.txt\n\+\+\+ b\/a\.txt\n@@ -1 \+1,2 @@\n one\n\+two$/m);
      assert.equal(fingerprint(repo), print, 'looking changes nothing either');
      const text = await done('task', 'apply', id, '--json');
      const { commits } = (JSON.parse(text) as { apply: { commits: object[] } }).apply;
      assert.deepEqual(listFiles(repo), CHANGED);
      // The agent's commit is in the layer; without it the changes are not committed.
      const isMoved = commits.length > 0;
      const status = ' M a.txt\n D gone.txt\n M run\n?? docs/\n';
      assert.equal(git(repo, 'status', '--porcelain'), isMoved ? '' : status);
      const subject = git(repo, 'log', '-1', '--format=%s').trim();
      assert.equal(subject, isMoved ? 'changed' : 'first');
      git(repo, 'fsck', '--strict');
      const { owner } = world;
      if (owner !== undefined) assert.equal(statSync(join(repo, 'docs/new')).uid, owner);
      assert.ok(!(await done('task', 'show', id)).includes('task diff'), 'nothing waits any more');
      await done('task', 'undo', id);
      assert.deepEqual(listFiles(repo), { ...FILES });
      assert.equal(git(repo, 'rev-parse', 'HEAD'), head);
      assert.equal(git(repo, 'status', '--porcelain'), '');
    });

    it('what git would run is refused, and applied when its kind is allowed by name', async () => {
      const repo = makeDirectory(true);
      const hook = '.git/hooks/pre-commit';
      const { id } = await world.work(repo, `echo evil > ${hook}; chmod 755 ${hook}; ${EDIT}`);
      const { code, stderr } = await world.run('task', 'apply', id);
      assert.equal(code, 3, stderr);
      assert.match(stderr, /^refused {3}\.git\/hooks\/pre-commit {2}git_hooks: Git runs them/m);
      assert.match(stderr, new RegExp(`agentctl task apply ${id} --allow git_hooks$`, 'm'));
      assert.match(
        await done('task', 'diff', id),
        /^# {3}\.git\/hooks\/pre-commit {2}git_hooks: /m,
      );
      assert.deepEqual([listFiles(repo), existsSync(join(repo, hook))], [FILES, false]);
      await done('task', 'apply', id, '--allow', 'git_hooks');
      assert.deepEqual([listFiles(repo), existsSync(join(repo, hook))], [CHANGED, true]);
    });

    it('git apply makes of a copy what the apply makes of the directory', async () => {
      const dir = makeDirectory(false);
      const copy = join(world.base, `copy${made++}`);
      cpSync(dir, copy, { recursive: true });
      const { id } = await world.work(dir, EDIT);
      const patch = await done('task', 'diff', id);
      execFileSync('git', ['apply', '-'], { cwd: copy, env: GIT_ENV, input: patch });
      await done('task', 'apply', id);
      assert.deepEqual(listFiles(copy), listFiles(dir));
      assert.deepEqual(listFiles(dir), CHANGED);
    });

    it('some paths can be applied, and the rest discarded', async () => {
      const dir = makeDirectory(false);
      const { id } = await world.work(dir, EDIT);
      await done('task', 'apply', id, 'docs', join(dir, 'run'));
      const part = { ...FILES, run: 'x ls\n', 'docs/new': 'no newline' };
      assert.deepEqual(listFiles(dir), part);
      const refused = await world.run('task', 'discard', id);
      assert.equal(refused.code, 2, 'it asks only on a terminal');
      await done('task', 'discard', id, '--yes');
      assert.equal(await done('task', 'diff', id), '');
      assert.deepEqual(listFiles(dir), part);
      assert.equal((await world.run('task', 'apply', id)).code, 5, 'nothing is left to apply');
    });

    it("a person's own edit meanwhile is a conflict, and nothing is applied", async () => {
      const dir = makeDirectory(false);
      const { id } = await world.work(dir, EDIT);
      writeFileSync(join(dir, 'a.txt'), 'by the person\n');
      const { code, stderr } = await world.run('task', 'apply', id);
      assert.equal(code, 1);
      assert.match(stderr, /^conflict {2}a\.txt {2}you and the task have changed the same lines/m);
      assert.match(stderr, new RegExp(`agentctl task apply ${id} a.txt --overwrite$`, 'm'));
      assert.deepEqual(listFiles(dir), { ...FILES, 'a.txt': 'by the person\n' });
      assert.match(
        await done('task', 'diff', id),
        /^# In conflict, so not applied.*:\n# {3}a\.txt/m,
      );
      await done('task', 'apply', id, 'docs', 'run', 'gone.txt');
      assert.deepEqual(listFiles(dir), { ...CHANGED, 'a.txt': 'by the person\n' });
    });

    it('her edit of other lines is merged, and the diff shows what is written', async () => {
      const dir = world.makeDirectory('merged', { 'a.txt': 'one\ntwo\nthree\n' });
      const { id } = await world.work(dir, 'sed -i s/one/ONE/ a.txt');
      writeFileSync(join(dir, 'a.txt'), 'one\ntwo\nTHREE\n');
      const shown = await done('task', 'diff', id);
      assert.match(shown, /^# Merged with what you have changed meanwhile:\n# {3}a\.txt$/m);
      assert.match(shown, /^-one\n\+ONE\n two\n THREE$/m);
      const printed = await done('task', 'apply', id);
      assert.match(printed, /^merged {4}a\.txt {2}with what you have changed$/m);
      assert.deepEqual(listFiles(dir), { 'a.txt': 'ONE\ntwo\nTHREE\n' });
      await done('task', 'undo', id);
      assert.deepEqual(listFiles(dir), { 'a.txt': 'one\ntwo\nTHREE\n' });
      writeFileSync(join(dir, 'a.txt'), 'mine\ntwo\nTHREE\n');
      assert.equal((await world.run('task', 'apply', id)).code, 1);
      await done('task', 'apply', id, 'a.txt', '--overwrite');
      assert.deepEqual(listFiles(dir), { 'a.txt': 'ONE\ntwo\nthree\n' });
    });

    it('a repository that a task has made stays in the layer, and apply says what to do', async () => {
      const dir = world.makeDirectory('own-repository', { 'a.txt': 'one\n' });
      const commit = 'git -c user.name=a -c user.email=a@b commit -qm one';
      const script = `echo two > a.txt; git init -qb main; git add -A; ${commit}`;
      const { id } = await world.work(dir, script);
      const left =
        /^# Left in the layer, whatever is applied:\n# {3}\d+ changes {2}own_repository/m;
      assert.match(await done('task', 'diff', id), left);
      const printed = await done('task', 'apply', id);
      assert.match(printed, /^Not brought over: 1 commit on main\./m);
      assert.match(
        printed,
        new RegExp(`: git init -b main ${dir} && agentctl task apply ${id}$`, 'm'),
      );
      assert.deepEqual(listFiles(dir), { 'a.txt': 'two\n' });
      assert.match(await done('task', 'apply', id), /^0 changes applied/m);
    });

    it('marks of the tree are on the directory, also after an undo', async () => {
      const dir = makeDirectory(false);
      const { id } = await world.work(dir, 'vault', EDIT);
      const marksOf = (place: string) => {
        const db = new DatabaseSync(join(world.runtime().stateDir, 'toold.sqlite'), {
          readOnly: true,
        });
        const rows = db.prepare('SELECT label FROM place_marks WHERE place = ?').all(place);
        db.close();
        return rows.map(({ label }) => label);
      };
      assert.deepEqual([marksOf(dir), marksOf(id)], [[], ['secret']]);
      assert.match(await done('task', 'diff', id), /^# The agents read text marked secret/m);
      await done('task', 'apply', id);
      await done('task', 'undo', id);
      assert.deepEqual(marksOf(dir), ['secret']);
    });

    it('the log has who applied what, by hash, and no path', async () => {
      const dir = makeDirectory(false);
      const { id } = await world.work(dir, EDIT);
      const text = await done('task', 'apply', id, '--json');
      const { apply } = JSON.parse(text) as { apply: Record<string, unknown> };
      await done('task', 'undo', id);
      await done('task', 'discard', id, '--yes');
      const own = (await allEvents(world.runtime())).filter(
        ({ event, root_task_id }) => root_task_id === id && /^task\.(ch|app|dis|un)/.test(event),
      );
      assert.deepEqual(
        own.map(({ event, status = '' }) => `${event} ${status}`.trim()),
        [
          'task.changes.attempted apply',
          'task.applied',
          'task.changes.attempted undo',
          'task.undone',
          'task.changes.attempted discard',
          'task.discarded',
        ],
      );
      const { data, principal } = own[1]!;
      assert.match(principal!, /^person:/);
      assert.equal(data?.change_sha256, apply.change_sha256);
      assert.ok(!/a\.txt|gone/.test(JSON.stringify(own)));
    });

    it('an apply is done once for one key, however often it is sent', async () => {
      const { id } = await world.work(makeDirectory(false), EDIT);
      const apply = (body: object, idempotencyKey: string) =>
        world.runtime().agentd.applyChanges({ params: { id }, body }, { idempotencyKey });
      const both = await Promise.all([apply({}, 'one'), apply({}, 'one')]);
      assert.deepEqual(both[1], both[0]);
      assert.deepEqual(await apply({}, 'one'), both[0]);
      await assert.rejects(apply({ paths: ['a.txt'] }, 'one'), { code: 'idempotency_mismatch' });
      await assert.rejects(apply({}, 'two'), { code: 'not_found' });
    });

    it('a task that works in place, or in its own directory, has no layer', async () => {
      const body = { goal: 'Nobody', agent: 'coder' };
      const live = { workspace: makeDirectory(false), workspace_mode: 'live' as const };
      for (const more of [{}, live]) {
        const { task } = await world.runtime().agentd.createTask({ body: { ...body, ...more } });
        await taskEnded(world.runtime(), task.id);
        for (const words of [['diff'], ['apply'], ['undo'], ['discard', '--yes']]) {
          const { code, stderr } = await world.run('task', words[0]!, task.id, ...words.slice(1));
          assert.deepEqual([code, /has no layer: it/.test(stderr)], [2, true], stderr);
        }
      }
    });

    it('a retention pass loses nothing of a layer', async () => {
      const dir = makeDirectory(false);
      const { id } = await world.work(dir, EDIT);
      const patch = await done('task', 'diff', id);
      const { agentd } = world.runtime();
      const { prune } = await agentd.startPrune({ body: {} });
      await passEnded(world.runtime(), prune.started_at);
      assert.equal(await done('task', 'diff', id), patch);
      await done('task', 'apply', id);
      assert.deepEqual(listFiles(dir), CHANGED);
    });
  });
}
