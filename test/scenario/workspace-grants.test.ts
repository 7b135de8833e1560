// A person lets agents work in a directory of their own, without any configuration: as root, where
// the keeper makes the grant, and as an ordinary user, where agentctl does.
import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { agentctl, documentOf } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { deriveId } from '../../src/platform/ids.ts';
import { type Client, makeClient, socketLink } from '../../src/platform/link.ts';
import type { BoxId, CallId, RunId, TaskId } from '../../src/wire/primitives.ts';
import { type Collected, sandboxdRoutes } from '../../src/wire/sandboxd.ts';
import { freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';
import { TEAM } from '../support/scripted-world.ts';

const NOBODY = 65_534;
const ALICE = 61_500;
const IS_ROOT = process.getuid?.() === 0;
const MODES = IS_ROOT ? (['root', 'user'] as const) : (['user'] as const);

for (const mode of MODES)
  describe(`a granted workspace, as ${mode}`, { timeout: 180_000 }, () => {
    const base = freshDir();
    const person = join(base, 'person');
    const repo = join(person, 'my repo');
    const owner = mode === 'root' ? ALICE : IS_ROOT ? NOBODY : process.getuid!();
    let runtime: TestRuntime;
    let toold: Client<typeof sandboxdRoutes>;
    let made = 0;

    const own = (path: string): string => {
      mkdirSync(path, { recursive: true });
      chmodSync(path, 0o700);
      if (IS_ROOT) chownSync(path, owner, owner);
      return path;
    };
    const connect = (): void => {
      const socketPath = socketPathFor(runtime.runtimeDir, 'sandboxd', 'peer-toold');
      toold = makeClient(sandboxdRoutes, socketLink({ socketPath }));
    };
    const run = (args: string[], cwd = base) =>
      agentctl(args, { state: runtime.stateDir, env: runtime.env, cwd });
    const listGrants = async () =>
      documentOf<{ grants: { path: string; owner: number; state: string }[] }>(
        await run(['workspace', 'list', '--json']),
      ).grants;
    /** The rows of doctor about grants. */
    const listRows = async () => {
      const { doctor } = documentOf<{
        doctor: { checks: { name: string; status: string; message: string }[] };
      }>(await run(['doctor', '--json']));
      const rows = doctor.checks.filter(({ name }) => name === 'grants');
      return rows.map(({ status, message }) => `${status} ${message}`);
    };
    const create = () =>
      runtime.agentd.createTask({ body: { goal: 'Say', agent: 'coder', workspace: repo } });
    /** Runs a script in a new box of a new tree. */
    const work = async (script: string, workspace_mode: 'layer' | 'live' = 'live') => {
      const tree = deriveId<TaskId>('task', mode, made++);
      const id = deriveId<BoxId>('box', mode, made++);
      const body = {
        run_id: deriveId<RunId>('run', mode, made++),
        fence: 1,
        agent: 'coder',
        task_id: tree,
        root_task_id: tree,
        level: 'L2' as const,
        rules: { read: [], write: ['/workspace', '/home/coder'], deny: [] },
        network: { egress_socket: null },
        workspace_path: repo,
        workspace_mode,
      };
      await toold.openBox({ params: { id }, body });
      const call_id = deriveId<CallId>('call', mode, made++);
      const command = { call_id, argv: ['/bin/sh', '-c', script], collect: true };
      const end = (await toold.execBox({ params: { id }, body: command })) as Collected;
      await toold.closeBox({ params: { id } });
      return { code: end.exit_code, out: Buffer.from(end.stdout_base64, 'base64').toString() };
    };

    before(async () => {
      const uid = mode === 'user' && IS_ROOT ? { uid: NOBODY } : {};
      runtime = await startRuntime({ base, agents: TEAM, ...uid });
      connect();
      own(repo);
      writeFileSync(join(repo, 'note'), 'of the person\n', { mode: 0o600 });
      if (IS_ROOT) chownSync(join(repo, 'note'), owner, owner);
      own(person);
    });
    after(() => runtime?.remove());

    it('is refused until the person allows it, with the command that does', async () => {
      await assert.rejects(create(), {
        code: 'denied',
        message: /^agents may not work in .*my repo: .* is not granted$/,
        hint: `Let them, as the owner of the directory: agentctl workspace grant '${repo}'`,
      });
      await assert.rejects(work('true'), { code: 'denied', message: /is not granted/ });
      assert.deepEqual(await listGrants(), []);
    });

    it('is allowed by naming it, or by being there, when a task is created', async () => {
      const ran = await run(['task', 'create', 'Say', '--agent', 'coder', '--here'], repo);
      assert.equal(ran.code, 0, ran.stderr);
      assert.match(ran.stdout + ran.stderr, /end that with: agentctl workspace revoke '.*my repo'/);
      const [found, ...more] = await listGrants();
      assert.deepEqual([found?.path, found?.owner, found?.state, more], [repo, owner, 'ok', []]);
      await create();
      const before = lstatSync(join(repo, 'note'));
      const read = await work('cat /workspace/note');
      assert.deepEqual(read, { code: 0, out: 'of the person\n' });
      const { uid, gid, mode: bits } = lstatSync(join(repo, 'note'));
      assert.deepEqual(
        [uid, gid, bits],
        [before.uid, before.gid, before.mode],
        'it stays as it was',
      );
      assert.equal((await work('echo made > /workspace/made')).code, 0);
      assert.equal(readFileSync(join(repo, 'made'), 'utf8'), 'made\n');
      const files = ['.', 'note', 'made'].map((name) => lstatSync(join(repo, name)));
      assert.deepEqual(
        files.map((stat) => [stat.uid, stat.gid]),
        files.map(() => [owner, files[0]!.gid]),
        'what an agent makes is the person’s',
      );
      const onLayer = 'cat note && echo x > layered && stat -c %U layered';
      assert.equal((await work(onLayer, 'layer')).out.split('\n')[0], 'of the person');
      assert.ok(!existsSync(join(repo, 'layered')), 'a layer takes it');
      const again = await run(['task', 'create', 'Say', '--agent', 'coder', '--workspace', repo]);
      assert.equal(again.code, 0, again.stderr);
      assert.doesNotMatch(again.stdout + again.stderr, /workspace revoke/, 'nothing new');
    });

    it('is still allowed after a restart, and no longer when another directory has the name', async () => {
      await runtime.stop();
      runtime = await runtime.restart();
      connect();
      assert.equal((await work('cat /workspace/note')).code, 0);
      renameSync(repo, `${repo}.old`);
      own(repo);
      writeFileSync(join(repo, 'note'), 'of another\n', { mode: 0o644 });
      const gone = { code: 'denied', message: /is no longer the directory that was granted/ };
      await assert.rejects(work('cat /workspace/note'), gone);
      await assert.rejects(create(), gone);
      assert.equal((await listGrants())[0]?.state, 'changed');
      assert.match((await listRows()).join('\n'), /warn .*my repo is not the directory that was/);
      rmSync(repo, { recursive: true });
      renameSync(`${repo}.old`, repo);
      assert.equal((await work('cat /workspace/note')).code, 0, 'control');
      assert.deepEqual(await listRows(), [`ok agents may work in 1 directory: ${repo}`]);
      linkSync(join(repo, 'note'), join(base, 'second-name'));
      assert.match((await listRows())[1]!, /^warn 1 file has other hard links in .*my repo\/note/);
      rmSync(join(base, 'second-name'));
    });

    it('ends when it is revoked', async () => {
      const ran = await run(['workspace', 'revoke', '.'], repo);
      assert.equal(ran.code, 0, ran.stderr);
      assert.match(ran.stdout, /^No new box of an agent gets .*my repo\./);
      await assert.rejects(work('true'), { code: 'denied' });
      await assert.rejects(create(), { code: 'denied' });
      assert.deepEqual(await listGrants(), []);
      assert.equal((await run(['workspace', 'revoke', repo])).code, 5);
    });

    it('ends with the last task that names it, when the retention has a pass', async () => {
      const other = own(join(person, 'other'));
      for (const words of [['revoke', '--unused'], ['prune']]) {
        for (const path of [repo, other])
          assert.equal((await run(['workspace', 'grant', path])).code, 0);
        const command = words[0] === 'prune' ? words : ['workspace', ...words];
        const { revoked } = documentOf<{ revoked: string[] }>(await run([...command, '--json']));
        assert.deepEqual(revoked, [other]);
        const left = (await listGrants()).map(({ path }) => path);
        assert.deepEqual(left, [repo], 'tasks name it, though they have ended');
      }
      assert.equal((await run(['workspace', 'revoke'])).code, 2);
      assert.equal((await run(['workspace', 'revoke', repo, '--unused'])).code, 2);
      assert.equal((await run(['workspace', 'revoke', repo])).code, 0);
    });

    it('is not left behind by a task that could not be created', async () => {
      const ran = await run(['task', 'create', 'Say', '--agent', 'no-such', '--workspace', repo]);
      assert.notEqual(ran.code, 0);
      assert.deepEqual(await listGrants(), []);
    });

    it('is never a home, the system’s, agentd’s own, a link, or another’s', async () => {
      const link = join(person, 'link');
      symlinkSync(repo, link);
      const file = join(person, 'file');
      writeFileSync(file, '');
      const refused: [path: string, why: RegExp][] = [
        ['/', /it contains/],
        ['/home', /it is not one person’s|it contains/],
        ['/root', /it is a home directory/],
        ['/etc', /\/etc is the system’s/],
        ['/usr/share', /\/usr is the system’s/],
        [base, /it contains .*, which is agentd’s own/],
        [runtime.stateDir, /is agentd’s own/],
        [join(runtime.stateDir, 'agents'), /is agentd’s own/],
        [runtime.runtimeDir, /is agentd’s own/],
        [link, /is a link to .*my repo/],
        [file, /is not a directory/],
        [join(person, 'none'), /not found/],
      ];
      if (mode === 'user' && IS_ROOT) {
        const others = join(base, 'others');
        mkdirSync(others);
        refused.push([others, /it belongs to root, not to nobody/]);
      }
      for (const [path, why] of refused) {
        const ran = await run(['workspace', 'grant', path]);
        assert.ok(ran.code === 3 || ran.code === 2, `${path}: ${ran.code} ${ran.stdout}`);
        assert.match(ran.stderr, why, path);
        assert.equal(ran.stderr.trim().split('\n').length, 2, 'says what to do');
      }
      const whole = await run(['task', 'create', 'Say', '--workspace', '/']);
      assert.equal(whole.code, 3, whole.stderr);
      assert.match(whole.stderr, /never let into \/ .*\n.*Name one directory/);
      assert.deepEqual(await listGrants(), []);
      const granted = await run(['workspace', 'grant', repo, '--json']);
      assert.deepEqual(documentOf(granted), { grant: { path: repo, is_new: true } }, 'control');
      assert.equal((await run(['workspace', 'revoke', repo])).code, 0);
    });
  });
