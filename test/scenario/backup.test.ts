// A backup is made while the runtime works, by root, by a user, of one process or of many: it is
// whole, a second one copies only what is new, and whatever is changed in it is named.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { findBackup, listBackups } from '../../src/clients/agentctl/backup/backup-dir.ts';
import { readEntries } from '../../src/clients/agentctl/backup/manifest.ts';
import {
  type BackupDocument,
  contentOf,
  ctl,
  ctlJson,
  flipByte,
  growFile,
  type VerifyDocument,
} from '../support/backups.ts';
import { assertReconciled } from '../support/reconcile.ts';
import {
  eventually,
  freshDir,
  startRuntime,
  type TestRuntime,
  taskEnded,
  writableFile,
} from '../support/runtime.ts';

const IS_ROOT = process.getuid?.() === 0;
const NOBODY = 65_534;
const worker = `apiVersion: agentd/v1
kind: Agent
metadata: { name: worker, description: Counts. }
spec: { replicas: 8, tools: { allow: [test.tools] } }
`;

const planner = `apiVersion: agentd/v1
kind: Agent
metadata: { name: planner, description: Asks. }
spec: { tools: { allow: [task.delegate] } }
`;

type World = { runtime: TestRuntime; dir: string; uid: number | undefined };

async function startWorld(mode: 'embedded' | 'split', uid?: number): Promise<World> {
  const base = freshDir();
  const effects = writableFile(join(base, 'effects'));
  const runtime = await startRuntime({
    base,
    mode,
    agents: { worker, planner },
    config: `toold: { test_tools: true, test_effect_file: ${effects} }\nauditd-ai: { segment_bytes_max: 65536 }\n`,
    ...(uid === undefined ? {} : { uid }),
  });
  // Whoever makes the backup owns it.
  const dir = join(base, 'backup');
  if (uid !== undefined) {
    mkdirSync(dir, { mode: 0o700 });
    execFileSync('chown', [`${uid}:${uid}`, dir]);
  }
  return { runtime, dir, uid };
}

const make = ({ runtime, dir, uid }: World, ...words: string[]) =>
  ctlJson<BackupDocument>(runtime, ['backup', dir, ...words], { uid });
const verify = async ({ runtime, dir, uid }: World, of = dir) => {
  const ran = await ctl(runtime, ['backup', 'verify', of, '--json'], { uid });
  assert.equal(ran.stderr, '');
  return { code: ran.code, ...(JSON.parse(ran.stdout) as VerifyDocument) };
};

const WORLDS = [
  ['embedded', undefined],
  ['split', undefined],
  ...(IS_ROOT ? [['embedded', NOBODY] as const] : []),
] as const;

for (const [mode, uid] of WORLDS)
  describe(`a backup of a runtime at work, ${mode}${uid === undefined ? '' : ', of a user'}`, () => {
    let world: World;
    before(async () => {
      world = await startWorld(mode, uid);
    });
    after(() => world.runtime.remove());

    it('is whole, and the work goes on [R442]', async () => {
      const { agentd } = world.runtime;
      const tasks: string[] = [];
      let isOver = false;
      const feeding = (async () => {
        for (let n = 0; !isOver && n < 40; n++) {
          const goal = `count the effect 3 times with key k${n}`;
          const { task } = await agentd.createTask({ body: { goal, agent: 'worker' } });
          tasks.push(task.id);
          await new Promise((resolve) => setTimeout(resolve, 100));
        }
      })();
      await eventually('some work', async () => (tasks.length > 3 ? true : undefined));
      const made = [];
      for (let n = 0; n < 4; n++) made.push((await make(world)).backup);
      isOver = true;
      await feeding;
      for (const [n, { running, events }] of made.entries()) {
        assert.equal(running, true);
        assert.ok(n === 0 || events > made[n - 1]!.events, 'the log grows between them');
      }
      const { code, backups } = await verify(world);
      assert.deepEqual([code, backups.map(({ problems }) => problems)], [0, [[], [], [], []]]);
      for (const id of tasks)
        assert.equal((await taskEnded(world.runtime, id)).status, 'completed');
      await eventually('journals and log to agree', () => assertReconciled(world.runtime));
      const { events } = await world.runtime.audit.events({
        query: { event: 'backup', order: 'desc', limit: 1 },
      });
      const last = made.at(-1)!;
      assert.deepEqual(
        [events[0]!.event, events[0]!.status, events[0]!.data],
        [
          'backup.ended',
          'completed',
          {
            id: last.id,
            manifest_sha256: last.manifest_sha256,
            events: last.events,
            size_bytes: last.size_bytes,
          },
        ],
      );
    });

    it('keeps everything to its owner', () => {
      const open = execFileSync('find', [world.dir, '-perm', '/077', '-not', '-name', 'lock'], {
        encoding: 'utf8',
      });
      assert.equal(open, '');
    });

    it('copies only what is new', async () => {
      const { agentd } = world.runtime;
      const put = (name: string, text: string) =>
        agentd.putArtifact({ body: { name, mime_type: 'text/plain', text } });
      await put('large.txt', 'a'.repeat(3_000_000));
      const first = (await make(world)).backup;
      await put('small.txt', 'b'.repeat(200_000));
      const second = (await make(world)).backup;
      assert.ok(first.copied_bytes > 3_000_000);
      assert.ok(second.size_bytes > first.size_bytes, 'it has all');
      const databases = statSync(contentOf(world.dir, 'agentd.sqlite')).size * 6;
      assert.ok(second.copied_bytes < 200_000 + databases + 200_000, 'it copied little');
      assert.ok(second.copied_files < second.files / 2);
    });

    it('has the files of all task trees, of open ones, or none, and follows no link', async () => {
      const { agentd, stateDir } = world.runtime;
      const body = { goal: 'ask a person', agent: 'planner' };
      const open = (await agentd.createTask({ body })).task.id;
      await eventually('the question', async () => {
        const { task } = await agentd.getTask({ params: { id: open } });
        return task.status === 'waiting' ? true : undefined;
      });
      const ended = (await agentd.listTasks({ query: { status: 'completed' } })).tasks[0]!.id;
      for (const id of [open, ended]) {
        const tree = join(stateDir, 'workspaces', id);
        mkdirSync(tree, { recursive: true });
        writeFileSync(join(tree, 'own'), 'x');
        symlinkSync('/etc/passwd', join(tree, 'link'));
        execFileSync('mkfifo', [join(tree, 'pipe')]);
        if (uid !== undefined) execFileSync('chown', ['-hR', `${uid}:${uid}`, tree]);
      }
      const filesOf = async (...words: string[]) => {
        const { backup } = await make(world, ...words);
        assert.equal(
          backup.skipped.every(({ path }) => path.endsWith('/pipe')),
          true,
        );
        const entries = [...readEntries(findBackup(world.dir, backup.id).file)];
        return entries.flatMap((entry) => {
          const path = 'path' in entry ? entry.path : '';
          return path.startsWith('workspaces/task_') ? [`${path.slice(11)} ${entry.type}`] : [];
        });
      };
      const listed = (id: string) => [
        `${id} dir`,
        `${id}/link link`,
        `${id}/own file`,
        `${id}/pipe skipped`,
        `${id} tree`,
      ];
      const all = [ended, open].sort().flatMap(listed);
      assert.deepEqual(await filesOf(), all);
      assert.deepEqual(await filesOf('--files', 'open'), listed(open));
      assert.deepEqual(await filesOf('--files', 'none'), []);
      const wrong = await ctl(world.runtime, ['backup', world.dir, '--files', 'some'], { uid });
      assert.equal(wrong.code, 2);
      await agentd.cancelTask({ params: { id: open }, body: {} });
    });

    it('goes, when it is old, with what only it had', async () => {
      const prune = (...words: string[]) =>
        ctlJson<{ prune: { removed: string[]; kept: number; files: number } }>(
          world.runtime,
          ['backup', 'prune', world.dir, ...words],
          { uid },
        );
      const list = () => listBackups(world.dir).map(({ id }) => id);
      const all = list();
      const plan = await prune('--keep', '2', '--dry-run');
      assert.deepEqual(plan.prune.removed, all.slice(0, -2));
      assert.equal(list().length, all.length);
      const done = await prune('--keep', '2');
      assert.deepEqual([done.prune.files, done.prune.kept], [plan.prune.files, 2]);
      assert.ok(done.prune.files > 0);
      assert.deepEqual(list(), all.slice(-2));
      assert.equal((await verify(world)).code, 0, 'what is left is whole');
      assert.equal((await prune('--keep', '2')).prune.files, 0);
    });

    it('goes through a pipe as a tar file', async () => {
      const { bytes, code, stderr } = await ctl(world.runtime, ['backup', '-'], { uid });
      assert.equal(code, 0, stderr);
      const out = join(world.dir, '..', 'unpacked');
      mkdirSync(out, { mode: 0o700 });
      execFileSync('tar', ['-xf', '-', '-C', out], { input: bytes });
      if (uid !== undefined) execFileSync('chown', ['-R', `${uid}:${uid}`, out]);
      assert.equal((await verify(world, out)).code, 0);
    });

    it('is also made of a stopped runtime, and of a killed one', async () => {
      await world.runtime.stop();
      const stopped = (await make(world)).backup;
      assert.equal(stopped.running, false);
      world.runtime = await world.runtime.restart();
      await world.runtime.agentd.createTask({
        body: { goal: 'count the effect 3 times with key last', agent: 'worker' },
      });
      await world.runtime.kill();
      const killed = await eventually(
        'the locks to be free',
        async () => (await make(world)).backup,
      );
      assert.equal(killed.running, false);
      const { code, backups } = await verify(world);
      assert.equal(code, 0, JSON.stringify(backups));
      world.runtime = await world.runtime.restart();
    });
  });

describe('what is changed in a backup', () => {
  let world: World;
  let copy: string;
  before(async () => {
    world = await startWorld('embedded');
    const { agentd } = world.runtime;
    const body = { name: 'a.txt', mime_type: 'text/plain', text: 'a'.repeat(20_000) };
    await agentd.putArtifact({ body });
    for (let n = 0; n < 8; n++) {
      const goal = `count the effect 3 times with key t${n}`;
      await taskEnded(
        world.runtime,
        (await agentd.createTask({ body: { goal, agent: 'worker' } })).task.id,
      );
    }
    await make(world);
    copy = join(world.dir, '..', 'copy');
  });
  after(() => world.runtime.remove());

  const changes: Record<string, { change: (dir: string) => void; path: RegExp; kind: string }> = {
    'an artifact': {
      change: (dir) => flipByte(contentOf(dir, /^objects\//)),
      path: /^objects\//,
      kind: 'damaged',
    },
    'a database': {
      change: (dir) => flipByte(contentOf(dir, 'agentd.sqlite')),
      path: /^agentd\.sqlite$/,
      kind: 'damaged',
    },
    'a sealed segment of the log': {
      change: (dir) => flipByte(contentOf(dir, /^audit\/audit-0+\.jsonl$/)),
      path: /^audit\/audit-0+\.jsonl$/,
      kind: 'damaged',
    },
    'the current segment of the log': {
      change: (dir) => flipByte(contentOf(dir, 'audit/audit.jsonl')),
      path: /^audit\/audit\.jsonl$/,
      kind: 'damaged',
    },
    'a key': {
      change: (dir) => growFile(contentOf(dir, 'operator.key')),
      path: /^operator\.key$/,
      kind: 'damaged',
    },
    'a file that is missing': {
      change: (dir) => rmSync(contentOf(dir, 'approvald.key')),
      path: /^approvald\.key$/,
      kind: 'missing',
    },
    'the manifest': {
      change: (dir) => flipByte(findBackup(dir, undefined).file, 0.4),
      path: /\.jsonl$/,
      kind: 'manifest',
    },
  };
  for (const [what, { change, path, kind }] of Object.entries(changes))
    it(`is named: ${what}`, async () => {
      rmSync(copy, { recursive: true, force: true });
      cpSync(world.dir, copy, { recursive: true });
      assert.equal((await verify(world, copy)).code, 0, 'unchanged it is whole');
      change(copy);
      const { code, backups } = await verify(world, copy);
      assert.equal(code, 1);
      const found = backups[0]!.problems.filter((problem) => problem.kind === kind);
      assert.ok(
        found.some((problem) => path.test(problem.path)),
        JSON.stringify(backups[0]!.problems),
      );
    });

  it('shows against a hash kept elsewhere, even where all of it was replaced', async () => {
    const { manifest_sha256 } = (await make(world)).backup;
    const check = (hash: string) =>
      ctl(world.runtime, [
        'backup',
        'verify',
        world.dir,
        '--backup',
        findBackup(world.dir, undefined).id,
        '--manifest',
        hash,
      ]);
    assert.equal((await check(manifest_sha256)).code, 0);
    const wrong = await check('0'.repeat(64));
    assert.equal(wrong.code, 1);
    assert.match(wrong.stdout, /its hash is/);
  });

  it('is not made again where there are other things, or inside of the state', async () => {
    const { runtime } = world;
    const inside = await ctl(runtime, ['backup', join(runtime.stateDir, 'b')]);
    assert.deepEqual([inside.code, existsSync(join(runtime.stateDir, 'b'))], [2, false]);
    const other = await ctl(runtime, ['backup', join(runtime.stateDir, '..', 'agents')]);
    assert.notEqual(other.code, 0);
  });
});
