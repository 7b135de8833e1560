// task diff, apply, discard and undo through the whole program, with a scripted runtime.
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it, test } from 'node:test';
import { FAULTS, fault } from '../../../wire/errors.ts';
import type { LayerChangeView } from '../../../wire/sandboxd/layers.ts';
import { type FakeRuntime, type RouteScript, startFake } from '../testing/fake-runtime.ts';
import { at, id, task } from '../testing/fixtures.ts';
import { agentctl, documentOf } from '../testing/run-agentctl.ts';

let fake: FakeRuntime;
before(async () => {
  fake = await startFake();
});
after(() => fake.stop());
const TASK = id('task', 1);
const run = (...args: string[]) => agentctl(args, { state: fake.stateDir });
const sent = (route: string) => fake.seen.findLast((request) => request.route === route);

type Side = LayerChangeView['before'];
const file = (size_bytes: number, mode = 0o644): Side => ({
  type: 'file',
  mode,
  size_bytes,
  sha256: 'a'.repeat(64),
  link_target: null,
});
const directory: Side = { ...file(0, 0o755)!, type: 'directory', sha256: null };
const link = (target: string): Side => ({ ...directory!, type: 'link', link_target: target });
const changeOf = (
  path: string,
  kind: LayerChangeView['kind'],
  sides: [Side, Side],
  more: Partial<LayerChangeView> = {},
): LayerChangeView => ({
  path,
  kind,
  before: sides[0],
  after: sides[1],
  refused: [],
  conflict: null,
  merged: false,
  ...more,
});

const CHANGES = [
  changeOf('.git/hooks/pre-commit', 'added', [null, file(5, 0o755)], { refused: ['git_hooks'] }),
  changeOf('bin', 'replaced', [directory, link('/usr/bin')]),
  changeOf('gone.txt', 'deleted', [file(4), null]),
  changeOf('new-dir', 'added', [null, directory]),
  changeOf('run.sh', 'modified', [file(3), file(3, 0o755)], { conflict: 'changed' }),
  changeOf('src/a.ts', 'modified', [file(4), file(4)]),
  changeOf('src/e\u001b[31mvil\n', 'added', [null, file(10)]),
];
const TEXTS: Record<string, [string | null, string | null]> = {
  '.git/hooks/pre-commit': [null, 'evil\n'],
  'gone.txt': ['old\n', null],
  'run.sh': ['ls\n', 'ps\n'],
  'src/a.ts': ['one\n', 'two\n'],
  'src/e\u001b[31mvil\n': [null, '\u001b[2Jcleared\n'],
};
const encode = (text: string | null) => text && Buffer.from(text).toString('base64');

const page = async () => ({
  root_task_id: TASK,
  path: '/srv/app',
  labels: [],
  refusals: {},
  layer: null,
  changes: CHANGES,
});
const script = (more: RouteScript['agentd'] = {}, changes = CHANGES): RouteScript => ({
  agentd: {
    listChanges: async ({ query }) => {
      const from =
        query.after === undefined ? 0 : changes.findIndex((c) => c.path === query.after) + 1;
      const page = changes.slice(from, from + 4);
      const isLast = from + 4 >= changes.length;
      return {
        root_task_id: TASK,
        path: '/srv/app',
        labels: ['outside' as const],
        refusals: page.some(({ refused }) => refused.length > 0)
          ? { git_hooks: { reason: 'git would run it', handling: 'refused' as const } }
          : {},
        layer: { path: '/srv/app', opened_at: at(0), is_copy: false, applied: [] },
        changes: page,
        next: isLast ? null : page.at(-1)!.path,
      };
    },
    readChangeTexts: async ({ body }) => ({
      texts: body.paths.map((path) => ({
        path,
        before_base64: encode(TEXTS[path]![0]),
        after_base64: encode(TEXTS[path]![1]),
        is_cut: false,
      })),
    }),
    ...more,
  },
});
beforeEach(() => fake.script(script()));

describe('task diff', () => {
  it('begins with what is deleted, replaced, refused or in conflict, and names each', async () => {
    const { code, stdout } = await run('task', 'diff', TASK);
    assert.equal(code, 0);
    const header = stdout.slice(0, stdout.indexOf('diff --git'));
    for (const line of [
      `# 7 changes of ${TASK} for /srv/app: 3 added, 2 modified, 1 deleted, 1 replaced`,
      '# The agents read text marked outside; applying marks the directory, too.',
      '# Deleted:\n#   gone.txt',
      '# Directories replaced:\n#   bin  by a link to /usr/bin',
      '# Modes changed:\n#   run.sh  0644 -> 0755',
      `(agentctl task apply ${TASK} --allow KIND):\n#   .git/hooks/pre-commit  git_hooks: git would run it`,
      '#   run.sh  you have changed it in the directory, too',
      '# Not in the diff below:\n#   new-dir/  a new directory, 0755',
    ])
      assert.ok(header.includes(line), `${line}\n${header}`);
    assert.ok(header.split('\n').every((line) => line === '' || line.startsWith('# ')));
  });

  it('prints each file in the format of git, links too', async () => {
    const { stdout } = await run('task', 'diff', TASK);
    assert.match(
      stdout,
      /^diff --git a\/src\/a.ts b\/src\/a.ts\nindex 5626abf\.\.f719efd 100644\n/m,
    );
    assert.match(stdout, /^--- a\/src\/a.ts\n\+\+\+ b\/src\/a.ts\n@@ -1 \+1 @@\n-one\n\+two\n/m);
    assert.match(stdout, /^old mode 100644\nnew mode 100755$/m);
    assert.match(stdout, /^new file mode 120000$/m);
    assert.match(stdout, /^diff --git "a\/src\/e\\033\[31mvil\\n" "b\/src\/e/m);
  });

  it('only the paths that are named, relative to the directory or absolute', async () => {
    for (const path of ['src/a.ts', './src/a.ts', '/srv/app/src/a.ts']) {
      const { stdout } = await run('task', 'diff', TASK, path);
      assert.deepEqual(stdout.match(/^diff .*/gm), ['diff --git a/src/a.ts b/src/a.ts']);
    }
    assert.equal((await run('task', 'diff', TASK, 'src')).stdout.match(/^diff /gm)?.length, 2);
    const none = await run('task', 'diff', TASK, 'nowhere');
    assert.deepEqual([none.code, /nowhere is not among/.test(none.stderr)], [5, true]);
  });

  it('nothing reaches a terminal that it would obey, and colours only with NO_COLOR unset', async () => {
    const options = { state: fake.stateDir, onTerminal: true };
    const shown = await agentctl(['task', 'diff', TASK], options);
    assert.ok(shown.stdout.includes('\u001b[32m+\\u{001b}[2Jcleared\u001b[0m'), shown.stdout);
    assert.ok(!shown.stdout.includes('\u001b[2J'));
    const plain = await agentctl(['task', 'diff', TASK], { ...options, env: { NO_COLOR: '1' } });
    assert.ok(!plain.stdout.includes('\u001b'));
    // To a file or pipe the bytes are exact.
    assert.ok((await run('task', 'diff', TASK)).stdout.includes('+\u001b[2Jcleared'));
  });

  it('--stat, --name-only and --json', async () => {
    const stat = await run('task', 'diff', TASK, '--stat');
    assert.match(stat.stdout, /^ src\/a\.ts +\| 2 \+-$/m);
    assert.match(stat.stdout, /^ 6 files changed, 5 insertions\(\+\), 3 deletions\(-\)$/m);
    const names = await run('task', 'diff', TASK, '--name-only');
    assert.equal(names.stdout.trim().split('\n').length, CHANGES.length);
    assert.match(names.stderr, /# Deleted:/);
    assert.equal((await run('task', 'diff', TASK, '--stat', '--name-only')).code, 2);
    const { diff } = documentOf<{ diff: { changes: { path: string; patch: string | null }[] } }>(
      await run('task', 'diff', TASK, '--json'),
    );
    assert.match(diff.changes.find(({ path }) => path === 'src/a.ts')!.patch!, /\+two\n$/);
    assert.equal(diff.changes.find(({ path }) => path === 'new-dir')!.patch, null);
  });

  it('says when there is nothing, or no layer', async () => {
    fake.script(script({}, []));
    const none = await run('task', 'diff', TASK);
    assert.deepEqual([none.code, none.stdout], [0, '']);
    const listChanges = async () => {
      throw fault('bad_request', `${TASK} has no layer: it has a directory of its own`);
    };
    fake.script(script({ listChanges }));
    assert.match((await run('task', 'diff', TASK)).stderr, /has no layer/);
  });
});

const APPLIED = {
  apply_id: 'apply_1',
  root_task_id: TASK,
  path: '/srv/app',
  status: 'applied' as const,
  approval_id: null,
  change_sha256: 'b'.repeat(64),
  counts: { added: 0, modified: 1, deleted: 0, replaced: 0, mode: 0 },
  allowed: [],
  applied: ['src/a.ts'],
  merged: ['src/a.ts'],
  commits_left: [],
  commits: [{ count: 2, ref: 'refs/heads/main', from: '1'.repeat(40), to: '2'.repeat(40) }],
};

describe('task apply', () => {
  it('sends paths and kinds, and prints what it did and how to take it back', async () => {
    fake.script(script({ applyChanges: async () => ({ apply: APPLIED }) }));
    const { code, stdout } = await run('task', 'apply', TASK, 'src', '--allow', 'git_hooks');
    assert.equal(code, 0);
    assert.deepEqual(sent('applyChanges')?.body, { paths: ['src'], allow: ['git_hooks'] });
    assert.match(sent('applyChanges')?.idempotencyKey ?? '', /^[0-9a-f-]{36}$/);
    assert.equal(
      stdout,
      `1 change applied to /srv/app: 1 modified\nmerged    src/a.ts  with what you have changed\n2 commits on main: 111111111111 -> 222222222222\n` +
        `Take it back: agentctl task undo ${TASK}\n`,
    );
    await run('task', 'apply', TASK);
    assert.deepEqual(sent('applyChanges')?.body, {});
    const commits_left = [{ ref: 'refs/heads/main', count: 3 }];
    const left = { ...APPLIED, commits: [], commits_left };
    fake.script(script({ applyChanges: async () => ({ apply: left }) }));
    const { stdout: said } = await run('task', 'apply', TASK);
    assert.match(said, /^Not brought over: 3 commits on main\. The task has made a git repo/m);
    assert.match(said, /: git init -b main \/srv\/app && agentctl task apply /);
  });

  it('lists what is refused, why, and the command that allows it', async () => {
    const applyChanges = async () => {
      const refused = [{ path: '.git/hooks/pre-commit', kinds: ['git_hooks'] }];
      throw fault('denied', '1 of 7 changes is refused', { details: { refused } });
    };
    fake.script(script({ applyChanges }));
    const { code, stderr } = await run('task', 'apply', TASK);
    assert.equal(code, FAULTS.denied.exit);
    assert.match(stderr, /^refused {3}\.git\/hooks\/pre-commit {2}git_hooks: git would run it$/m);
    assert.match(stderr, new RegExp(`agentctl task apply ${TASK} --allow git_hooks$`, 'm'));
  });

  it('lists conflicts, each with what to do', async () => {
    const applyChanges = async () => {
      const conflicts = [{ path: 'run.sh', reason: 'changed' }];
      throw fault('conflict', '1 of 7 changes conflicts', { details: { conflicts } });
    };
    fake.script(script({ applyChanges }));
    const { code, stderr } = await run('task', 'apply', TASK);
    assert.equal(code, 1);
    assert.match(stderr, /^conflict {2}run\.sh {2}you have changed it, too, and the text/m);
    assert.match(stderr, new RegExp(`agentctl task apply ${TASK} run.sh --overwrite$`, 'm'));
    const taken = await run('task', 'apply', TASK, 'run.sh', '--overwrite');
    assert.equal(taken.code, 1, 'it still fails here');
    assert.deepEqual(sent('applyChanges')?.body, { overwrite: true, paths: ['run.sh'] });
    assert.equal((await run('task', 'apply', TASK, '--overwrite')).code, FAULTS.bad_usage.exit);
    const json = await run('task', 'apply', TASK, '--json');
    assert.equal(JSON.parse(json.stderr).error.details.conflicts[0].path, 'run.sh');
  });

  it('exits 4 while a person has to approve it', async () => {
    const approval_id = id('approval', 1);
    const waiting = {
      ...APPLIED,
      status: 'waiting' as const,
      approval_id,
      applied: [],
      commits: [],
    };
    fake.script(script({ applyChanges: async () => ({ apply: waiting as never }) }));
    const { code, stdout } = await run('task', 'apply', TASK);
    assert.equal(code, 4);
    assert.match(stdout, new RegExp(`agentctl approve ${approval_id}`));
  });
});

test('task discard asks on a terminal, and needs --yes elsewhere', async () => {
  const discardChanges = async () => ({ discard: { root_task_id: TASK, discarded: 7 } });
  fake.script(script({ discardChanges: discardChanges as never }));
  const refused = await run('task', 'discard', TASK);
  assert.deepEqual([refused.code, sent('discardChanges')], [2, undefined]);
  assert.match(refused.stderr, /agentctl task discard \S+ --yes/);
  const done = await run('task', 'discard', TASK, '--yes');
  assert.deepEqual([done.code, done.stdout], [0, `${TASK}: 7 changes discarded\n`]);
});

test('task undo restores the last apply, or the one that is named', async () => {
  let where: object = { is_in_layer: true, kept_at: null };
  const undoChanges = async () => ({
    undo: { root_task_id: TASK, apply_id: 'apply_1', restored: ['a', 'b'], ...where },
  });
  fake.script(script({ undoChanges: undoChanges as never }));
  const { code, stdout } = await run('task', 'undo', TASK);
  assert.deepEqual([code, sent('undoChanges')?.body], [0, {}]);
  assert.match(stdout, /^2 paths restored as before apply_1\n.* in the layer again: agentctl task/);
  where = { is_in_layer: false, kept_at: '/state/layers/1/upper' };
  const newer = await run('task', 'undo', TASK);
  assert.match(
    newer.stdout,
    /not in the layer, .* newer ones\. .* in \/state\/layers\/1\/upper\n$/,
  );
  where = { is_in_layer: false, kept_at: null };
  const gone = await run('task', 'undo', TASK);
  assert.match(gone.stdout, /not in the layer, which was applied or discarded since: /);
  await run('task', 'undo', TASK, '--apply', 'apply_1');
  assert.deepEqual(sent('undoChanges')?.body, { apply_id: 'apply_1' });
});

test('task show and task create --wait say how many changes wait', async () => {
  const layered = { workspace: '/srv/app', workspace_mode: 'layer' as const };
  const hint = `7 changes wait: agentctl task diff ${TASK}`;
  const withTask = (more: object): RouteScript => {
    const one = { ...task(1), ...layered, ...more };
    const tree = { task: one, runs: [], waits: [], children: [] };
    const listChanges = async () => ({ ...(await page()), next: null });
    return {
      ...script({
        getTask: async () => ({ task: one }),
        createTask: async () => ({ task: one }),
        getTree: async () => ({ tree }),
        listRuns: async () => ({ runs: [], cursor: null }),
        listWaits: async () => ({ waits: [], cursor: null }),
        listChanges,
      }),
      modeld: { listCalls: async () => ({ calls: [], cursor: null }) },
      'auditd-ai': { events: async () => ({ events: [], cursor: null }) as never },
    };
  };
  fake.script(withTask({}));
  const shown = await run('task', 'show', TASK);
  assert.ok(shown.stdout.includes(hint), shown.stdout + shown.stderr);
  assert.match(shown.stdout, /\/srv\/app, changes stay in a layer until applied/);
  assert.ok((await run('task', 'create', 'x', '--wait')).stdout.endsWith(`${hint}\n`));
  fake.script(withTask({ status: 'working', ended_at: null }));
  assert.ok(!(await run('task', 'show', TASK)).stdout.includes(hint));
  fake.script(withTask({ workspace_mode: 'live' }));
  assert.ok(!(await run('task', 'show', TASK)).stdout.includes(hint));
});
