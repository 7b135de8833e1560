// Hosts that lack a feature, and layers that fail to apply: the box is refused with a typed error
// and the fix, and never started with fewer layers than requested.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Guard } from '../../src/daemons/sandboxd/adapters/plan.ts';
import { eventually } from '../support/runtime.ts';
import { exited } from './support/cases.ts';
import { processesOf } from './support/host.ts';
import { IS_ROOT, MODES, TestWarden } from './support/warden.ts';

for (const mode of MODES) {
  describe(`[R166] [R438] layers that fail to apply, as ${mode}`, () => {
    const layers: [string, Guard, RegExp][] = [
      ['C14 capabilities', 'caps', /capabilities/],
      ['C13 no_new_privs', 'noNewPrivs', /no_new_privs/],
      ['F2 seccomp', 'seccomp', /seccomp/],
      ['F2 Landlock', 'landlock', /Landlock/],
      ['F2 the network namespace', 'netns', /network namespace/],
      ['F2 the user namespace', 'userns', /user namespace/],
      ['F2 the pid namespace', 'pidns', /pid namespace/],
      ['F2 the ipc namespace', 'ipcns', /ipc namespace/],
      ['F2 the uts namespace', 'utsns', /uts namespace/],
      ['F2 no further user namespace', 'usernsLimit', /nested user namespaces/],
      ['F2 the read-only root', 'readonly', /read-only root/],
      ['F2 an init that cannot be read', 'dumpable', /init/],
    ];
    for (const [name, guard, says] of layers) {
      it(`${name}: the box is refused`, async (t) => {
        const warden = await new TestWarden({ mode }).start();
        t.after(() => warden.stop());
        // silent: the layer is skipped without an error.
        const more: Guard[] = guard === 'noNewPrivs' ? ['seccomp', 'landlock'] : [];
        const outcome = await warden.run(['/bin/true'], {
          guardsOff: [guard, 'silent', ...more],
        });
        assert.equal(outcome.kind, 'refused', JSON.stringify(outcome));
        assert.ok(outcome.kind === 'refused');
        // An ordinary user may not configure the host's network or mount its /proc, so it fails one
        // step earlier.
        const isEarly = mode === 'user' && (guard === 'netns' || guard === 'pidns');
        assert.match(outcome.code, isEarly ? /probe|setup/ : /probe/);
        if (outcome.code === 'probe') assert.match(outcome.message, says);
        assert.equal(exited(await warden.run(['/bin/true'])).code, 0, 'control');
      });
    }
  });
}

// A user namespace that allows no nested one, as on a host that forbids user namespaces.
const FORBIDDEN = [
  'unshare',
  '--user',
  '--map-current-user',
  '--keep-caps',
  'sh',
  '-c',
  'echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv',
];
const script = (args: string[]) => [
  ...args.slice(0, -1),
  `${args.at(-1)} --inh-caps=-all --ambient-caps=-all "$0" "$@"`,
];

describe('a host that forbids user namespaces', () => {
  const setup = async (t: TestContext) => {
    if (IS_ROOT === false && spawnSync('unshare', ['--user', 'true']).status !== 0) {
      t.skip('this host itself forbids user namespaces, so it cannot play one that does');
      return undefined;
    }
    const warden = await new TestWarden({ mode: 'user', wrap: script(FORBIDDEN) }).start();
    t.after(() => warden.stop());
    return warden;
  };

  it('F1 level 2 is refused, with the cause and the command that fixes it', async (t) => {
    const warden = await setup(t);
    if (!warden) return;
    const outcome = await warden.run(['/bin/true']);
    assert.ok(outcome.kind === 'refused', JSON.stringify(outcome));
    assert.equal(outcome.code, 'host');
    assert.match(outcome.message, /user\.max_user_namespaces is 0/);
    assert.match(outcome.hint, /^sysctl -w user\.max_user_namespaces=\d+$/);
    const client = await warden.client();
    const features = await client.features();
    client.close();
    assert.deepEqual([features.level1, features.level2], ['yes', 'no']);
  });

  it('[R150] F1 level 1 is still enforced: files, sockets, other processes', async (t) => {
    const warden = await setup(t);
    if (!warden) return;
    const run = async (...args: string[]) =>
      exited(await warden.run([warden.hostile, ...args], { level: 1 }));
    assert.match((await run('read-file', join(warden.outside, 'secret'))).stdout, /EACCES/);
    assert.match((await run('family', 'inet')).stdout, /EPERM/);
    assert.match((await run('signal', String(warden.process?.pid))).stdout, /EPERM/);
  });

  it('C18 at level 1, too, nothing outlives its command or the warden', async (t) => {
    const warden = await setup(t);
    if (!warden) return;
    const late = join(warden.workspace, 'alive');
    exited(await warden.run([warden.hostile, 'survive', late], { level: 1 }));
    await sleep(1_200);
    assert.ok(!existsSync(late));
    const client = await warden.client();
    const begun = new Promise((resolve) => {
      client.onStarted = resolve;
    });
    const args = [warden.hostile, 'stubborn', '100', warden.dir];
    void client.run(warden.plan(args, { level: 1 }));
    await begun;
    // The started frame is sent during exec: the process name changes a moment later.
    const isThere = () => processesOf(warden.dir).some((process) => process.name === 'hostile');
    await eventually('the command', async () => (isThere() ? true : undefined));
    warden.process?.kill('SIGKILL');
    await eventually('no process', async () =>
      processesOf(warden.dir).length === 0 ? true : undefined,
    );
  });
});

describe('starting', () => {
  it('F4 world-writable bounds, and bounds with unknown entries, are refused', async (t) => {
    const mode = MODES[0] ?? 'user';
    for (const lines of [['rw /'], ['uid 0 10'], ['allow everything'], ['ro usr']]) {
      const warden = new TestWarden({ mode, bounds: lines });
      t.after(() => warden.stop());
      await assert.rejects(warden.start(), /the warden did not start/);
      assert.match(warden.stderr, /^warden: /);
    }
  });

  it('C25 the warden ignores its environment', async (t) => {
    const warden = await new TestWarden({ mode: MODES[0] ?? 'user' }).start();
    t.after(() => warden.stop());
    const own = spawn(join(warden.dir, 'bin/warden'), [], { stdio: 'ignore', env: {} });
    const code = await new Promise((resolve) => own.on('exit', resolve));
    assert.equal(code, 2, 'without arguments it prints its usage');
  });
});
