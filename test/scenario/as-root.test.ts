// Started as root: only the keeper and the warden stay root, the daemons run as an unprivileged
// user, a state directory owned by root is adopted, and links left by the daemons do not mislead
// root.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { getPriority, userInfo } from 'node:os';
import { basename, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Fault } from '../../src/wire/errors.ts';
import { descendantsOf, fieldOf } from '../support/processes.ts';
import {
  eventually,
  freshDir,
  ROOT,
  type RuntimeOptions,
  startRuntime,
  type TestRuntime,
  taskEnded,
} from '../support/runtime.ts';

const IS_ROOT = process.getuid?.() === 0;
const OWN_UID = 265_534;
const skip = IS_ROOT ? false : 'needs root';

const lineOf = (pid: number, name: string): string =>
  new RegExp(`^${name}:[ \\t]*(.*)$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]!;

const treeOf = (pid: number): number[] => [pid, ...descendantsOf(pid)];

/** Returns an empty string for a process that has ended. */
function programOf(pid: number): string {
  try {
    return basename(readlinkSync(`/proc/${pid}/exe`));
  } catch {
    return '';
  }
}

const agents = {
  worker: `apiVersion: agentd/v1
kind: Agent
metadata: { name: worker, description: Works. }
spec: { tools: { allow: [git.read, file.write_workspace] } }
`,
};

for (const mode of ['embedded', 'split'] as const) {
  describe(`started as root, ${mode}`, { skip }, () => {
    let runtime: TestRuntime;
    before(async () => {
      const base = freshDir();
      writeFileSync(join(base, 'unrelated'), 'of root');
      runtime = await startRuntime({ mode, base });
    });
    after(() => runtime?.remove());

    it('[K86] every Node process runs as an unprivileged user and cannot gain privileges', () => {
      const pids = treeOf(runtime.process.pid!).filter((pid) => programOf(pid) !== '');
      const nodes = pids.filter((pid) => programOf(pid).startsWith('node'));
      assert.ok(nodes.length >= (mode === 'embedded' ? 3 : 9), `${nodes.length} of Node`);
      for (const pid of nodes) {
        const uids = lineOf(pid, 'Uid').split('\t').map(Number);
        assert.deepEqual(uids, [OWN_UID, OWN_UID, OWN_UID, OWN_UID]);
        assert.deepEqual(lineOf(pid, 'Gid').split('\t').map(Number), uids);
        assert.equal(lineOf(pid, 'Groups').trim(), '');
        for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'])
          assert.match(lineOf(pid, set), /^0+$/, set);
        assert.equal(lineOf(pid, 'NoNewPrivs'), '1');
      }
      const roots = pids.filter((pid) => fieldOf(pid, 'Uid') === '0').map(programOf);
      // A process may have ended meanwhile and has no program.
      const programs = new Set(roots.filter((program) => program !== ''));
      assert.deepEqual([...programs].sort(), ['keeper', 'warden']);
      assert.equal(runtime.info.uid, OWN_UID);
    });

    it('daemons have a higher priority than agents, and the warden a higher one than daemons', () => {
      const pids = treeOf(runtime.process.pid!);
      const niceOf = (program: string): number[] => {
        const all = pids.filter((pid) => programOf(pid).startsWith(program));
        return [...new Set(all.map(getPriority))];
      };
      const own = getPriority();
      const capabilities = BigInt(`0x${lineOf(process.pid, 'CapEff')}`);
      const mayNice = ((capabilities >> 23n) & 1n) === 1n;
      const wanted = (nice: number): number[] => [mayNice ? nice : own];
      assert.deepEqual(niceOf('keeper'), [own]);
      assert.deepEqual(niceOf('node'), wanted(-5));
      assert.deepEqual(niceOf('warden'), wanted(-10));
    });

    it('the state belongs to the daemons’ user alone, and root can still read it and make requests', async () => {
      for (const name of ['operator.key', 'approvald.key', 'audit', 'agentd.sqlite']) {
        const { uid, mode: bits } = statSync(join(runtime.stateDir, name));
        assert.equal(uid, OWN_UID, name);
        if (name.endsWith('.key')) assert.equal(bits & 0o777, 0o600);
      }
      assert.equal(statSync(runtime.stateDir).mode & 0o777, 0o700);
      const { task } = await runtime.agentd.createTask({
        body: { goal: 'Say it', agent: 'coder' },
      });
      assert.equal((await taskEnded(runtime, task.id)).status, 'completed');
    });

    it('of a directory they may not read the daemons see only what they need', () => {
      const base = join(runtime.stateDir, '..');
      const seen = `/proc/${runtime.runtimePid}/root${base}`;
      assert.ok(existsSync(join(base, 'unrelated')) && !existsSync(join(seen, 'unrelated')));
      assert.ok(existsSync(join(seen, 'state', 'operator.key')));
      // A directory from which they need nothing is as unreadable to them as to other users.
      const home = userInfo().homedir;
      const isNeeded = process.execPath.startsWith(`${home}/`);
      const theirs = `/proc/${runtime.runtimePid}/root${home}`;
      if ((statSync(home).mode & 0o001) === 0 && isNeeded)
        assert.ok(!existsSync(join(theirs, '.bashrc')) && !existsSync(join(theirs, '.ssh')));
    });
  });
}

describe('started as root, with a state directory', { skip }, () => {
  const bases: string[] = [];
  const running: TestRuntime[] = [];
  const start = async (options: RuntimeOptions) => {
    const runtime = await startRuntime(options);
    running.push(runtime);
    return runtime;
  };
  const fresh = (): string => {
    const base = freshDir();
    bases.push(base);
    mkdirSync(join(base, 'state'), { mode: 0o700 });
    return base;
  };
  after(async () => {
    for (const runtime of running) await runtime.stop();
    for (const base of bases) rmSync(base, { recursive: true, force: true });
  });
  const refused = (base: string, options: RuntimeOptions = {}): Promise<Fault> =>
    startRuntime({ ...options, base }).then(
      async (runtime) => {
        await runtime.stop();
        throw new Error('it started');
      },
      (error: Fault) => error,
    );

  it('owned by root: it is chowned to the daemons, agents’ files keep their owners', async () => {
    const base = fresh();
    const first = await start({ base });
    const { task } = await first.agentd.createTask({ body: { goal: 'Before', agent: 'coder' } });
    assert.equal((await taskEnded(first, task.id)).status, 'completed');
    await first.stop();
    // As left by a version that ran as root.
    const state = join(base, 'state');
    execFileSync('chown', ['-R', '--no-dereference', '0:0', state]);
    const workspace = join(state, 'workspaces', 'task_old');
    const home = join(state, 'homes', 'task_old', 'coder');
    for (const dir of [workspace, home]) mkdirSync(dir, { recursive: true, mode: 0o700 });
    writeFileSync(join(workspace, 'file'), 'x');
    chownSync(join(workspace, 'file'), 200_000, 300_000);
    chownSync(workspace, 0, 300_000);
    chmodSync(workspace, 0o2770);
    chownSync(home, 200_000, 200_000);
    const second = await start({ base });
    const found = await second.agentd.getTask({ params: { id: task.id } });
    assert.equal(found.task.status, 'completed');
    const owner = (path: string) => [lstatSync(path).uid, lstatSync(path).gid];
    assert.deepEqual(owner(workspace), [OWN_UID, 300_000]);
    assert.equal(statSync(workspace).mode & 0o7777, 0o2770);
    assert.deepEqual(owner(join(workspace, 'file')), [200_000, 300_000]);
    assert.deepEqual(owner(home), [200_000, 200_000]);
    const next = await second.agentd.createTask({ body: { goal: 'After', agent: 'coder' } });
    assert.equal((await taskEnded(second, next.task.id)).status, 'completed');
    await second.stop();
  });

  it('owned by the daemons: root follows no link and opens no file in it by name', async () => {
    const base = fresh();
    const first = await start({ base });
    await first.stop();
    const state = join(base, 'state');
    const target = join(base, 'target');
    writeFileSync(target, 'untouched', { mode: 0o600 });
    const targetDir = join(base, 'target-dir');
    mkdirSync(targetDir, { mode: 0o700 });
    writeFileSync(join(targetDir, 'a.key'), 'untouched', { mode: 0o600 });
    rmSync(join(state, 'logs', 'warden.log'), { force: true });
    symlinkSync(target, join(state, 'logs', 'warden.log'));
    symlinkSync(targetDir, join(state, 'people'));
    symlinkSync(target, join(state, 'keys', 'x.key'));
    // A configured path that is now a link to a directory only root may read.
    const closed = join(base, 'closed-dir');
    mkdirSync(closed, { mode: 0o755 });
    symlinkSync(closed, join(state, 'rules'));
    // Files that an operator put there as root are chowned to the daemons.
    writeFileSync(join(state, 'keys', 'mine.key'), 'k\n', { mode: 0o600 });
    const config = `agentd: { starter_dir: ${join(state, 'rules')} }\n`;
    const second = await start({ base, config });
    const seen = `/proc/${second.runtimePid}/root`;
    assert.ok(existsSync(join(seen, state, 'keys')), 'control');
    assert.ok(!existsSync(join(seen, closed)));
    assert.equal(statSync(join(state, 'keys', 'mine.key')).uid, OWN_UID);
    for (const path of [target, targetDir, join(targetDir, 'a.key')])
      assert.equal(statSync(path).uid, 0, path);
    assert.equal(readFileSync(target, 'utf8'), 'untouched');
    await second.stop();
  });

  it('owned by another user: it is refused', async () => {
    const base = fresh();
    chownSync(join(base, 'state'), 12_345, 12_345);
    const why = await refused(base);
    assert.equal(why.code, 'bad_config');
    assert.match(why.message, /belongs to uid 12345/);
  });

  it('a configuration that others can write does not decide what root allows', async () => {
    const base = fresh();
    const file = join(base, 'state', 'agentd.yaml');
    for (const [uid, mode] of [
      [OWN_UID, 0o600],
      [0, 0o666],
    ] as const) {
      writeFileSync(file, 'sandboxd: { write_roots: [/etc] }\n');
      chownSync(file, uid, uid);
      chmodSync(file, mode);
      const why = await refused(base);
      assert.equal(why.code, 'bad_config');
      assert.match(why.message, /other users can change it/);
    }
    rmSync(file);
    writeFileSync(join(base, 'elsewhere'), 'agentd: {}\n', { mode: 0o644 });
    symlinkSync(join(base, 'elsewhere'), file);
    assert.equal((await refused(base)).code, 'bad_config');
    rmSync(file);
    renameSync(join(base, 'elsewhere'), file);
    chmodSync(file, 0o600);
    const runtime = await start({ base });
    const { uid, mode } = statSync(file);
    assert.deepEqual(
      [uid, mode & 0o777],
      [0, 0o640],
      'readable by the daemons, writable by root only',
    );
    await runtime.stop();
  });

  it('the daemons’ account is the configured one, and never root', async () => {
    const base = fresh();
    const config = (user: string) => `runtime: { user: ${user} }\n`;
    assert.match((await refused(base, { config: config('root') })).message, /cannot run as root/);
    const none = await refused(base, { config: config('nobody-here') });
    assert.match(none.hint, /^useradd --system/);
    const runtime = await start({ base, config: config('nobody') });
    assert.equal(runtime.info.uid, 65_534);
    assert.equal(Number(fieldOf(runtime.runtimePid, 'Uid')), 65_534);
    const { task } = await runtime.agentd.createTask({ body: { goal: 'Say it', agent: 'coder' } });
    assert.equal((await taskEnded(runtime, task.id)).status, 'completed');
    await runtime.stop();
  });

  it('agentctl works as root repeatedly, under a directory only root may read', async () => {
    const base = fresh();
    const state = join(base, 'state');
    const env = {
      PATH: process.env.PATH,
      HOME: base,
      AGENTD_STATE: state,
      AGENTD_KEEPER_DIR: join(base, 'keeper'),
    };
    const agentctl = (...words: string[]) => {
      const program = join(ROOT, 'build', 'agentctl.mjs');
      const ran = spawnSync(process.execPath, [program, ...words], { env, encoding: 'utf8' });
      assert.equal(ran.status, 0, `${words.join(' ')}: ${ran.stderr}`);
      return ran.stdout;
    };
    const owner = (name: string) => statSync(join(state, name)).uid;
    for (const _ of [1, 2]) {
      agentctl('up');
      try {
        assert.match(
          agentctl('doctor'),
          /rights +the daemons run as uid 265534, with no capability/,
        );
        agentctl('person', 'add', 'ann');
        assert.equal(owner('people/ann.key'), OWN_UID);
        agentctl('person', 'remove', 'ann');
      } finally {
        agentctl('down');
      }
      assert.equal(owner('logs/runtime.log'), OWN_UID);
      agentctl('halt');
      assert.equal(owner('HALT'), OWN_UID);
      agentctl('unhalt');
    }
  });

  it('a manifest directory owned by root is watched, and not written to', async () => {
    const base = fresh();
    const runtime = await start({ base, agents });
    chmodSync(join(base, 'agents'), 0o755);
    const yaml = agents.worker.replaceAll('worker', 'other');
    const put = { params: { name: 'other' }, body: { manifest_yaml: yaml } };
    await assert.rejects(runtime.agentd.putAgent(put), {
      code: 'denied',
      message: /may not write to .*agents/,
    });
    writeFileSync(join(base, 'agents', 'other.yaml'), yaml);
    await eventually('the other agent', async () => {
      const { agents: found } = await runtime.agentd.listAgents({});
      return found.some(({ name }) => name === 'other') ? true : undefined;
    });
    await runtime.stop();
  });

  it('however it ends, nothing is left that only root could remove', async () => {
    const base = fresh();
    const runtime = await start({ base, agents });
    const entries = () => readdirSync(join(base, 'r', 'agentd'));
    assert.equal(entries().length, 3, 'sockets, the warden’s, and a lock');
    await runtime.kill();
    const again = await start({ base, agents });
    const wardens = () => treeOf(again.process.pid!).filter((pid) => programOf(pid) === 'warden');
    const first = wardens();
    process.kill(first[0]!, 'SIGKILL');
    await eventually('another warden', async () =>
      wardens().some((pid) => !first.includes(pid)) ? true : undefined,
    );
    const { task } = await again.agentd.createTask({ body: { goal: 'Say', agent: 'worker' } });
    assert.equal((await taskEnded(again, task.id)).status, 'completed');
    await again.stop();
    assert.deepEqual(entries(), []);
  });
});
