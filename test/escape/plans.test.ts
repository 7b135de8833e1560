// Box specifications as attacks: invalid plans and malformed frames. Each is refused with its kind,
// and the warden serves the next client.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { copyFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { encodePlan, type WardenPlan } from '../../src/daemons/sandboxd/adapters/plan.ts';
import { exited } from './support/cases.ts';
import { IS_ROOT, MODES, TestWarden } from './support/warden.ts';
import { FRAME, frame, MAGIC } from './support/warden-client.ts';

for (const mode of MODES) {
  describe(`plans, as ${mode}`, () => {
    let warden: TestWarden;
    before(async () => {
      warden = await new TestWarden({ mode, build: 'plain' }).start();
    });
    after(() => warden.stop());

    const refused = async (
      change: Partial<WardenPlan> | ((plan: WardenPlan) => void),
      code: string,
      says?: RegExp,
    ): Promise<void> => {
      const plan = warden.plan(['/bin/true']);
      if (typeof change === 'function') change(plan);
      else Object.assign(plan, change);
      const client = await warden.client();
      const outcome = await client.run(plan);
      client.close();
      assert.equal(outcome.kind, 'refused', JSON.stringify(outcome));
      assert.equal(outcome.kind === 'refused' && outcome.code, code, JSON.stringify(outcome));
      if (outcome.kind === 'refused' && says) assert.match(outcome.message, says);
    };

    it('control: the base plan runs', async () => {
      assert.equal(exited(await warden.run(['/bin/true'])).code, 0);
    });
    it('C23 uid 0', () => refused({ uid: 0 }, 'plan'));
    it('C23 gid 0', () => refused({ gid: 0 }, 'plan'));
    it('C23 uid 4294967295', () => refused({ uid: 0xffffffff }, 'plan'));
    it('C23 a uid outside the bounds', () => refused({ uid: 1 }, 'bounds'));
    it('C23 a gid outside the bounds', () => refused({ gid: 1 }, 'bounds'));
    it('C23 a group outside the bounds', () => refused({ groups: [1] }, 'bounds'));
    it('C23 group 0', () => refused({ groups: [0] }, 'plan'));
    const bind = (src: string, dst: string, kind: 'ro' | 'rw' = 'ro') => {
      return (plan: WardenPlan) => void plan.binds.push({ kind, src, dst });
    };
    it('C23 .. in a source', () => refused(bind('/usr/../etc', '/x'), 'plan'));
    it('C23 .. in a destination', () => refused(bind('/usr', '/x/../../y'), 'plan'));
    it('C23 a double slash', () => refused(bind('/usr//lib', '/x'), 'plan'));
    it('C23 / read-write', () => refused(bind('/', '/x', 'rw'), 'bounds'));
    it('C23 / read-only', () => refused(bind('/', '/x'), 'bounds'));
    it('C23 / as a destination', () => refused(bind('/usr', '/'), 'plan'));
    it('C23 a path that root did not allow', () => refused(bind('/etc', '/x'), 'bounds'));
    it('C23 a read-only path, for writing', () => refused(bind('/usr', '/x', 'rw'), 'bounds'));
    it('C23 a path that has an allowed one only as a string prefix', () =>
      refused(bind(`${warden.workspace}-other`, '/x', 'rw'), 'bounds'));
    it('A6 a link inside an allowed path', () => {
      symlinkSync('/etc', join(warden.workspace, 'link'));
      return refused(bind(join(warden.workspace, 'link'), '/x', 'rw'), 'bounds');
    });
    it('A6 a link in a parent path', () =>
      refused(bind(join(warden.workspace, 'link/ssl'), '/x'), 'bounds'));
    it('C21 /proc/self/fd as a source', () => refused(bind('/proc/self/fd/3', '/x'), 'bounds'));
    it('C21 /proc/self/fd as the working directory', () =>
      refused({ cwd: '/proc/self/fd/8' }, 'setup'));
    it('C23 257 paths', () =>
      refused((plan) => {
        for (let i = 0; i < 257; i++) plan.binds.push({ kind: 'tmpfs', dst: `/t${i}` });
      }, 'plan'));
    it('A15 too many arguments', () =>
      refused({ args: ['/bin/true', ...Array<string>(3000).fill('x')] }, 'plan'));
    it('C23 an empty command', () => refused({ args: [] }, 'plan'));
    it('C25 a command without a path', () => refused({ args: ['true'] }, 'plan'));
    it('C23 an id that is a path', () => refused({ id: '../../x' }, 'plan'));
    it('F5 level 3', () => refused({ level: 3 }, 'plan'));
    it('C23 a missing limit', () =>
      refused((plan) => {
        plan.limits = { ...plan.limits, memoryBytes: 0 };
      }, 'plan'));
    it('B8 the release build has no switch for guards', () =>
      refused({ guardsOff: ['seccomp'] }, 'plan'));
    it('level 1 cannot protect what it does not mount', () =>
      refused((plan) => {
        Object.assign(plan, warden.plan(['/usr/bin/true'], { level: 1 }));
        plan.binds.push({ kind: 'protectFile', dst: join(warden.workspace, 'x') });
      }, 'plan'));
    it('a missing command', () => refused({ args: ['/usr/bin/no-such'] }, 'exec', /No such file/));
    it('a mount point never appears in the workspace', () =>
      refused(bind('/usr', '/ws/new/usr'), 'setup'));

    const raw = async (bytes: Buffer) => {
      const client = await warden.client();
      const outcome = await client.send(bytes);
      client.close();
      return outcome.kind === 'refused' ? outcome.code : outcome.kind;
    };
    it('C23 unknown fields', async () => {
      const plan = encodePlan(warden.plan(['/bin/true']));
      const odd = Buffer.concat([plan, Buffer.from([99, 0, 1, 0, 0, 0, 7])]);
      assert.equal(await raw(frame(FRAME.plan, odd)), 'plan');
    });
    it('C23 a field twice', async () => {
      const plan = encodePlan(warden.plan(['/bin/true']));
      assert.equal(await raw(frame(FRAME.plan, Buffer.concat([plan, plan]))), 'plan');
    });
    it('E13 a frame of 4 GiB', async () => {
      const head = frame(FRAME.plan);
      head.writeUInt32LE(0xffffffff, 8);
      assert.equal(await raw(head), 'frame');
    });
    it('E13 another version, another magic, an unknown type', async () => {
      const version = frame(FRAME.features);
      version[4] = 9;
      assert.equal(await raw(version), 'frame');
      const magic = frame(FRAME.features);
      magic.writeUInt32LE(MAGIC + 1, 0);
      assert.equal(await raw(magic), 'frame');
      assert.equal(await raw(frame(77)), 'frame');
    });
    it('E13 a second plan while a box runs', async () => {
      const plan = frame(FRAME.plan, encodePlan(warden.plan(['/bin/sleep', '5'])));
      assert.equal(await raw(Buffer.concat([plan, plan])), 'frame');
    });
    it('E13 more stdin than the window', async () => {
      const plan = frame(FRAME.plan, encodePlan(warden.plan(['/bin/sleep', '5'])));
      const part = frame(FRAME.stdin, Buffer.alloc(60_000));
      assert.equal(await raw(Buffer.concat([plan, part, part, part])), 'frame');
      assert.equal(await raw(Buffer.concat([plan, ...Array(50).fill(part)])), 'frame');
    });
    it('the warden still works after all of these', async () => {
      assert.equal(exited(await warden.run(['/bin/true'])).code, 0);
    });
  });
}

describe('callers', () => {
  it('C23 a process in a box is not served, even with the same user', async (t) => {
    // Level 1 sees the host's paths and a runner may connect, so only the caller check is in the
    // way.
    const warden = await new TestWarden({ mode: 'user' }).start();
    t.after(() => warden.stop());
    const node = join(warden.dir, 'bin/node');
    copyFileSync(process.execPath, node);
    const program = join(warden.workspace, 'ask.cjs');
    const bytes = JSON.stringify(frame(FRAME.features).toString('hex'));
    writeFileSync(
      program,
      `const socket = require('net').connect(${JSON.stringify(warden.socket)});
       socket.write(Buffer.from(${bytes}, 'hex'));
       socket.on('data', (reply) => { console.log(reply[5].toString(16)); socket.destroy(); });`,
    );
    const boxed = await warden.run([node, program], {
      level: 1,
      profile: 'runner',
      // At level 1 all processes of this user count, including those of other tests.
      limits: { memoryBytes: 2 ** 30, nofile: 1024, pids: 10_000 },
      env: { OPENSSL_CONF: '/dev/null' },
    });
    assert.equal(exited(boxed).stdout, '85\n', JSON.stringify(boxed));
    await warden.untilLogged(/is in a box or has exited/);
    const who = IS_ROOT ? { uid: warden.uid, gid: warden.gid } : {};
    const free = execFileSync(node, [program], { ...who, env: {}, encoding: 'utf8' });
    assert.equal(free, '87\n', 'control');
  });

  it('C23 a process that is not sandboxd is not served', async (t) => {
    const mode = MODES[0] ?? 'user';
    const warden = await new TestWarden({ mode, clientUid: 54_321 }).start();
    t.after(() => warden.stop());
    const outcome = await warden.run(['/bin/true']).catch((error: NodeJS.ErrnoException) => error);
    // Root may open any socket and gets the refusal; an ordinary user cannot connect.
    if (outcome instanceof Error) assert.equal((outcome as NodeJS.ErrnoException).code, 'EACCES');
    else {
      assert.equal(outcome.kind === 'refused' && outcome.code, 'caller');
      const logged = () => warden.stderr.match(/is not the client/g)?.length ?? 0;
      await warden.untilLogged(/is not the client/);
      const began = performance.now();
      for (let i = 0; i < 40; i++) await warden.run(['/bin/true']);
      const seconds = (performance.now() - began) / 1_000;
      assert.ok(logged() <= 2 + seconds, `at most once a second: ${logged()} in ${seconds} s`);
    }
  });
});
