// An open box: commands run in it under the same layers as in a box of their own, none exceeds its
// limits, and all end with the box.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../support/runtime.ts';
import { exited, fillWorkspace } from './support/cases.ts';
import { cgroupsOf, processesOf, zombiesOf } from './support/host.ts';
import { MODES, NOTHING, TestWarden, type WardenBox } from './support/warden.ts';

async function soon(what: string, isSo: () => boolean): Promise<void> {
  await eventually(what, async () => (isSo() ? true : undefined));
}

const named = (warden: TestWarden, name: string) =>
  processesOf(warden.dir).filter((process) => process.name === name);

for (const mode of MODES) {
  describe(`an open box, as ${mode}`, { timeout: 240_000 }, () => {
    let warden: TestWarden;
    let opened: WardenBox;
    before(async () => {
      warden = await new TestWarden({ mode }).start();
      fillWorkspace(warden);
      opened = await warden.open();
    });
    after(async () => {
      opened.client.close();
      await warden.stop();
    });
    const sh = async (script: string, limits = {}) =>
      exited(await warden.exec(opened.box, ['/bin/sh', '-c', script], limits));
    const hostile = async (...argv: string[]) =>
      exited(await warden.exec(opened.box, ['/opt/hostile', ...argv]));

    it('runs commands that share its files and its /tmp', async () => {
      assert.equal((await sh('echo one >/tmp/a; echo two >/ws/b')).code, 0);
      assert.equal((await sh('cat /tmp/a /ws/b; exit 3')).stdout, 'one\ntwo\n');
      assert.equal((await sh('exit 3')).code, 3);
      const echoed = await warden.exec(opened.box, ['/bin/cat'], {}, 'x'.repeat(300_000));
      assert.equal(exited(echoed).stdout.length, 300_000);
    });
    it('runs twenty at once, each with its own streams', async () => {
      const runs = Array.from({ length: 20 }, (_, i) => sh(`sleep 0.1; echo ${i}`));
      const printed = (await Promise.all(runs)).map(({ stdout }) => stdout.trim());
      assert.deepEqual(
        printed,
        runs.map((_, i) => String(i)),
      );
    });

    it('C5 the layers are those of a one-command box', async () => {
      assert.match((await hostile('capabilities')).stdout, /failed none/);
      assert.match((await hostile('family', 'unix-stream')).stdout, /EPERM/);
      assert.match((await hostile('signal', '1')).stdout, /EPERM/);
      assert.match((await hostile('read-memory-of', '1')).stdout, /failed/);
      assert.match((await hostile('tcp-connect', '192.0.2.1', '80')).stdout, /ENETUNREACH/);
      assert.match((await hostile('read-file', '/proc/1/environ')).stdout, /failed/);
      assert.match((await sh('id -u; id -g')).stdout, new RegExp(`${warden.uid}\n${warden.gid}`));
      assert.notEqual((await sh('echo x >/usr/x')).code, 0);
      assert.notEqual((await sh('echo x >/x')).code, 0);
    });
    it('C21 no descriptor of the protocol reaches a command', async () => {
      assert.match((await hostile('descriptors')).stdout, /failed none/);
    });
    it('C5 the box’s init processes cannot be traced, read or signalled', async () => {
      // The only other processes are the box's init and this command's supervisor.
      assert.match((await hostile('trace-all')).stdout, /traced 0, signalled 0\n/);
      const open = await warden.open({ guardsOff: ['seccomp', 'landlock', 'dumpable'] });
      const control = exited(await warden.exec(open.box, ['/opt/hostile', 'trace-all']));
      assert.equal(control.code, 0, control.stdout);
      open.client.close();
    });
    it('C20 one command cannot signal another', async () => {
      const other = await warden.client();
      const started = new Promise((resolve) => {
        other.onOutput = resolve;
      });
      const outcome = other.exec(warden.command(opened.box, ['/opt/hostile', 'sleep', '30']));
      await started;
      assert.match((await hostile('trace-all')).stdout, /traced 0, signalled 0\n/);
      other.kill();
      assert.equal(exited(await outcome).endedBy, 'client');
      other.close();
    });

    it('C18 background processes of a command end with it', async () => {
      assert.equal((await hostile('survive', '/ws/alive')).code, 0);
      await sleep(1_200);
      assert.ok(!existsSync(join(warden.workspace, 'alive')));
      assert.equal((await sh('ls /tmp/a')).code, 0, 'the box stays open');
    });
    it('C18 killing a command kills its whole process tree and nothing else', async () => {
      const other = await warden.client();
      // Durations that no other process on this machine uses.
      const times = [40, 41, 42].map((seconds) => `${seconds}.${process.pid}`);
      const [one, two, three] = times;
      const script = `setsid sleep ${one} & (setsid sleep ${two} &) ; echo go; sleep ${three}`;
      const going = new Promise((resolve) => {
        other.onOutput = resolve;
      });
      const outcome = other.exec(warden.command(opened.box, ['/bin/sh', '-c', script]));
      const bystander = await warden.client();
      const firstOutput = new Promise((resolve) => {
        bystander.onOutput = resolve;
      });
      const bystanderEnd = bystander.exec(
        warden.command(opened.box, ['/bin/sh', '-c', 'echo up; read x; echo $x']),
        null,
      );
      await Promise.all([firstOutput, going]);
      const asleep = () => times.filter((s) => processesOf(`sleep\0${s}\0`).length > 0);
      await soon('all sleep', () => asleep().length === 3);
      other.kill();
      assert.equal(exited(await outcome).endedBy, 'client');
      assert.deepEqual(asleep(), []);
      bystander.feed('still\n');
      assert.equal(exited(await bystanderEnd).stdout, 'up\nstill\n');
      other.close();
      bystander.close();
    });
    it('C18 limits apply per command', async () => {
      const wall = await sh('sleep 30', { wallMs: 200 });
      assert.deepEqual([wall.endedBy, wall.signal], ['wall', 9]);
      const grace = await warden.exec(opened.box, ['/opt/hostile', 'polite', '30'], {
        wallMs: 3_000,
        graceMs: 15_000,
      });
      assert.deepEqual([exited(grace).endedBy, exited(grace).code], ['wall', 7]);
      const cpu = await warden.exec(opened.box, ['/opt/hostile', 'spin'], { cpuMs: 200 });
      assert.equal(exited(cpu).endedBy, 'cpu');
      const output = await warden.exec(opened.box, ['/opt/hostile', 'flood'], {
        outputBytes: 100_000,
      });
      assert.deepEqual([exited(output).endedBy, exited(output).stdout.length], ['output', 100_000]);
      const pids = await warden.exec(opened.box, ['/opt/hostile', 'fork-bomb', '60'], { pids: 20 });
      assert.match(exited(pids).stdout, /EAGAIN/);
      const memoryBytes = 64 * 1024 * 1024;
      const memory = exited(
        await warden.exec(opened.box, ['/opt/hostile', 'eat-memory', '300'], { memoryBytes }),
      );
      assert.ok(memory.endedBy === 'memory' || /ENOMEM/.test(memory.stdout));
      assert.equal((await sh('echo fine')).stdout, 'fine\n');
    });

    const refusal = async (change: object) => {
      const client = await warden.client();
      const command = { ...warden.command(opened.box, ['/bin/true']), ...change };
      const outcome = await client.exec(command);
      client.close();
      return outcome.kind === 'refused' ? outcome.code : outcome.kind;
    };
    it('C23 a command may not exceed its box’s limits or name a missing box', async () => {
      const limits = warden.plan([]).limits;
      assert.equal(await refusal({}), 'exit', 'control');
      assert.equal(await refusal({ limits: { ...limits, memoryBytes: 2 ** 40 } }), 'plan');
      assert.equal(await refusal({ limits: { ...limits, pids: 0 } }), 'plan');
      assert.equal(await refusal({ box: opened.box ^ 1n }), 'box');
      assert.equal(await refusal({ args: [] }), 'plan');
      assert.equal(await refusal({ args: ['/no/such'] }), 'exec');
      assert.equal(await refusal({ cwd: '/no/such' }), 'setup');
      assert.equal(await refusal({ cwd: '/proc/self/fd/3' }), 'setup');
    });
    it('leaves no process and no cgroup of a command behind', async () => {
      await soon('no zombie', () => zombiesOf(warden.process?.pid ?? 0) === 0);
      await soon('two of ours', () => named(warden, 'box-init').length === 1);
      await soon('no cgroups but those in which spares wait for the next commands', () => {
        const { own } = cgroupsOf(warden.dir);
        const groups = own.flatMap((dir) => readdirSync(dir, { recursive: true }).map(String));
        return new Set(groups.filter((path) => /^b\d+\/e\d+$/.test(path))).size <= 3;
      });
    });
  });

  describe(`the end of an open box, as ${mode}`, { timeout: 240_000 }, () => {
    const open = async (t: TestContext) => {
      const warden = await new TestWarden({ mode }).start();
      t.after(() => warden.stop());
      fillWorkspace(warden);
      const opened = await warden.open();
      const client = await warden.client();
      t.after(() => client.close());
      t.after(() => opened.client.close());
      const begun = new Promise((resolve) => {
        client.onOutput = resolve;
      });
      const argv = ['/opt/hostile', 'stubborn', '100', warden.dir];
      const outcome = client.exec(warden.command(opened.box, argv));
      await begun;
      return { warden, opened, outcome };
    };
    const gone = async (warden: TestWarden) => {
      await warden.noBoxes();
      assert.deepEqual(await warden.leftovers(), NOTHING);
    };

    it('closing it ends its commands', async (t) => {
      const { warden, opened, outcome } = await open(t);
      opened.client.closeBox();
      assert.equal(exited(await outcome).endedBy, 'box');
      assert.equal(exited(await opened.ended).endedBy, 'client');
      assert.deepEqual(await warden.leftovers(), NOTHING);
      const late = await warden.exec(opened.box, ['/bin/true']);
      assert.equal(late.kind === 'refused' && late.code, 'box');
    });
    it('C18 the end of its client connection ends it', async (t) => {
      const { warden, opened, outcome } = await open(t);
      opened.client.close();
      assert.equal(exited(await outcome).endedBy, 'box');
      await gone(warden);
    });
    it('the HALT file ends it', async (t) => {
      const { warden, opened, outcome } = await open(t);
      writeFileSync(warden.haltFile, '');
      assert.match(exited(await outcome).endedBy, /halt|box/);
      assert.equal(exited(await opened.ended).endedBy, 'halt');
      await gone(warden);
    });
    it('the end of its init ends it', async (t) => {
      const { warden, opened, outcome } = await open(t);
      process.kill(opened.pid, 'SIGKILL');
      assert.match(exited(await outcome).endedBy, /box|lost/);
      assert.equal(exited(await opened.ended).endedBy, 'lost');
      await gone(warden);
    });
    it('A25 the end of the warden ends it', async (t) => {
      const { warden, outcome } = await open(t);
      warden.process?.kill('SIGKILL');
      assert.equal((await outcome).kind, 'lost');
      await soon('no process', () => processesOf(warden.dir).length === 0);
      await soon('no cgroup', () => cgroupsOf(warden.dir).own.length === 0);
    });
    it('its wall-clock limit ends it', async (t) => {
      const warden = await new TestWarden({ mode }).start();
      t.after(() => warden.stop());
      const {
        args: _,
        env: __,
        cwd: ___,
        ...plan
      } = warden.plan([], { limits: { wallMs: 4_000 } });
      const client = await warden.client();
      const box = await client.open(plan);
      assert.ok(box.kind === 'opened');
      const run = warden.exec(box.box, ['/bin/sleep', '30'], { wallMs: 4_000 });
      assert.match(exited(await run).endedBy, /box|wall/);
      assert.equal(exited(await box.ended).endedBy, 'wall');
      client.close();
      await gone(warden);
    });
    it('commands and boxes run clean under the sanitizers', async (t) => {
      const warden = await new TestWarden({ mode, build: 'sanitized' }).start();
      t.after(() => warden.stop());
      const opened = await warden.open();
      const runs = Array.from({ length: 10 }, () =>
        warden.exec(opened.box, ['/bin/sh', '-c', '(sleep 9 &) ; cat'], {}, 'x'.repeat(200_000)),
      );
      for (const run of await Promise.all(runs)) assert.equal(exited(run).stdout.length, 200_000);
      opened.client.closeBox();
      await opened.ended;
      opened.client.close();
      warden.process?.kill('SIGTERM');
      await new Promise((resolve) => warden.process?.once('close', resolve));
      assert.deepEqual([warden.process?.exitCode, warden.stderr], [0, '']);
    });
  });
}
