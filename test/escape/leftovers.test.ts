// Nothing is left behind when a box, a client, an init or the warden itself ends, cleanly or not.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import type { Bind } from '../../src/daemons/sandboxd/adapters/plan.ts';
import { eventually } from '../support/runtime.ts';
import { exited, fillWorkspace } from './support/cases.ts';
import { cgroupsOf, mountsOf, processesOf } from './support/host.ts';
import { IS_ROOT, MODES, NOTHING, TestWarden, type TestWardenOptions } from './support/warden.ts';

async function started(t: TestContext, options: TestWardenOptions): Promise<TestWarden> {
  const warden = await new TestWarden(options).start();
  t.after(() => warden.stop());
  return warden;
}

// The kernel reaps asynchronously.
async function soon(what: string, isSo: () => boolean): Promise<void> {
  await eventually(what, async () => (isSo() ? true : undefined));
}

// A box that sleeps, with the warden's directory in its arguments so that it can be found.
async function sleeper(warden: TestWarden, protects: string[] = []) {
  const client = await warden.client();
  const plan = warden.plan(['/opt/hostile', 'stubborn', '100', warden.dir], {
    limits: { wallMs: 100_000 },
    binds: protects.map((name) => ({ kind: 'protectFile', dst: `/ws/${name}` })),
  });
  const init = new Promise<number>((resolve) => {
    client.onStarted = resolve;
  });
  const outcome = client.run(plan);
  return { client, outcome, pid: await init };
}

async function assertNothingLeft(warden: TestWarden): Promise<void> {
  await warden.noBoxes();
  assert.deepEqual(await warden.leftovers(), NOTHING);
}

const wardenPid = (warden: TestWarden) => warden.process?.pid ?? 0;
const boxesOf = (warden: TestWarden) =>
  processesOf(warden.dir).filter(
    (process) => process.name === 'hostile' || process.name === 'box-init',
  );

for (const mode of MODES) {
  describe(`leftovers, as ${mode}`, () => {
    // `make fuzz` runs the full count, the ordinary suite a part of it.
    const rows = Number(process.env.ROWS ?? (process.env.FUZZ === 'long' ? 10_000 : 500));
    const crowd = Number(process.env.CROWD ?? 200);

    it(`${rows} boxes in a row leave nothing`, async (t) => {
      const warden = await started(t, { mode });
      if (mode === 'root') assert.notEqual(cgroupsOf(warden.dir).own.length, 0, 'control');
      const mounts = mountsOf(warden.dir, wardenPid(warden));
      const client = await warden.client();
      const tookMs: number[] = [];
      const bareMs: number[] = [];
      for (let i = 0; i < rows; i++) {
        const began = performance.now();
        const level = i % 3 === 0 ? 1 : 2;
        const outcome = exited(await client.run(warden.plan(['/usr/bin/true'], { level })));
        tookMs.push(performance.now() - began);
        assert.equal(outcome.code, 0);
        // Measure the machine's current speed, so that other load does not fail the test.
        if (i % 5 !== 0) continue;
        const bareBegan = performance.now();
        spawnSync('/usr/bin/true');
        bareMs.push(performance.now() - bareBegan);
      }
      // Immediately: when the end is reported, nothing is left.
      assert.deepEqual(await warden.leftovers(), NOTHING);
      client.close();
      assert.deepEqual(mountsOf(warden.dir, wardenPid(warden)), mounts);
      const median = (part: number[]) => part.toSorted((a, b) => a - b)[part.length >> 1] ?? 0;
      const ends = (all: number[]) => {
        const quarter = all.length >> 2;
        return { first: median(all.slice(0, quarter)), last: median(all.slice(-quarter)) };
      };
      const [boxes, bare] = [ends(tookMs), ends(bareMs)];
      t.diagnostic(
        `median of the first quarter ${boxes.first.toFixed(2)} ms, last ${boxes.last.toFixed(2)}; ` +
          `a bare process ${bare.first.toFixed(2)} and ${bare.last.toFixed(2)}`,
      );
      // A few hundred rounds measure the machine more than the warden.
      const slower = boxes.last / boxes.first / (bare.last / bare.first);
      if (rows >= 5_000) assert.ok(slower < 1.5, `they slow down: ${slower.toFixed(2)} times`);
    });

    it(`${crowd} boxes at once leave nothing`, async (t) => {
      const warden = await started(t, { mode });
      const mounts = mountsOf(warden.dir, wardenPid(warden));
      const argv = ['/bin/sh', '-c', 'echo $$ >/tmp/x; sleep 0.2; cat /tmp/x'];
      const limits = { limits: { wallMs: 200_000 } };
      const outcomes = await Promise.all(
        Array.from({ length: crowd }, () => warden.run(argv, limits)),
      );
      for (const outcome of outcomes) assert.match(exited(outcome).stdout, /^\d+\n$/);
      assert.deepEqual(await warden.leftovers(), NOTHING);
      assert.deepEqual(mountsOf(warden.dir, wardenPid(warden)), mounts);
    });

    it('C18 the box ends when its client disconnects', async (t) => {
      const warden = await started(t, { mode });
      const box = await sleeper(warden);
      await soon('its command runs', () => boxesOf(warden).length >= 2);
      box.client.close();
      await assertNothingLeft(warden);
    });

    it('C18 the box ends as lost when its init is killed', async (t) => {
      const warden = await started(t, { mode });
      const box = await sleeper(warden);
      process.kill(box.pid, 'SIGKILL');
      assert.equal(exited(await box.outcome).endedBy, 'lost');
      assert.deepEqual(await warden.leftovers(), NOTHING);
      box.client.close();
    });

    it('A25 killing the warden removes boxes, cgroups and stubs', async (t) => {
      const warden = await started(t, { mode });
      fillWorkspace(warden);
      const box = await sleeper(warden, ['settings.json', '.tool/config']);
      assert.deepEqual(readdirSync(warden.workspace).sort(), ['.tool', 'settings.json']);
      warden.process?.kill('SIGKILL');
      assert.equal((await box.outcome).kind, 'lost');
      await soon('no process', () => processesOf(warden.dir).length === 0);
      await soon('no stub', () => readdirSync(warden.workspace).length === 0);
      await soon('no cgroup', () => cgroupsOf(warden.dir).own.length === 0);
    });

    it('A25 if the janitor is killed too, the next warden cleans up', async (t) => {
      const warden = await started(t, { mode });
      fillWorkspace(warden);
      await sleeper(warden, ['settings.json', '.tool/config']);
      process.kill(await warden.janitor(), 'SIGKILL');
      warden.process?.kill('SIGKILL');
      await soon('no process', () => processesOf(warden.dir).length === 0);
      assert.equal(readdirSync(warden.workspace).length, 2, 'control: they are left behind');
      await warden.start();
      assert.deepEqual(readdirSync(warden.workspace), []);
      assert.deepEqual(await warden.leftovers(), NOTHING);
    });

    it('A25 a late janitor removes nothing of the next warden', async (t) => {
      const warden = await started(t, { mode });
      fillWorkspace(warden);
      await sleeper(warden, ['settings.json']);
      const janitor = await warden.janitor();
      process.kill(janitor, 'SIGSTOP');
      warden.process?.kill('SIGKILL');
      await once(warden.process!, 'exit');
      await assert.rejects(warden.start(), /another warden runs/);
      assert.deepEqual(readdirSync(warden.workspace), ['settings.json'], 'not removed yet');
      process.kill(janitor, 'SIGCONT');
      await soon('no stub', () => readdirSync(warden.workspace).length === 0);
      await warden.start();
      const box = await sleeper(warden, ['settings.json']);
      assert.deepEqual(readdirSync(warden.workspace), ['settings.json'], 'control');
      box.client.kill();
      assert.equal(exited(await box.outcome).endedBy, 'client');
    });

    it('A25 a file that a person put into a stub is kept', async (t) => {
      const warden = await started(t, { mode });
      fillWorkspace(warden);
      const box = await sleeper(warden, ['.tool/config']);
      if (!IS_ROOT) return t.skip('only root may write into the stub of a directory');
      writeFileSync(join(warden.workspace, '.tool/note'), 'mine');
      box.client.kill();
      assert.equal(exited(await box.outcome).endedBy, 'client');
      assert.equal(readFileSync(join(warden.workspace, '.tool/note'), 'utf8'), 'mine');
    });

    it('A25 a stub whose host path is too long to be removed is not created', async (t) => {
      const warden = await started(t, { mode });
      fillWorkspace(warden);
      // The path fits in the box, but not under the workspace's path on the host.
      const names = Array.from({ length: 16 }, () => 'd'.repeat(253));
      const make = `cd "$0" && for i in ${names.map(() => 'x').join(' ')}; do mkdir -m 777 ${names[0]} && cd ${names[0]}; done`;
      assert.equal(spawnSync('sh', ['-c', make, warden.workspace]).status, 0);
      const protects = (name: string): Bind[] => [
        { kind: 'protectFile', dst: `/ws/${names.join('/')}/${name}` },
      ];
      const long = 'f'.repeat(4095 - join(warden.workspace, ...names).length);
      const refused = await warden.run(['/bin/true'], { binds: protects(long) });
      assert.ok(refused.kind === 'refused' && refused.code === 'plan', JSON.stringify(refused));
      const list = `cd "$0"; while cd ${names[0]} 2>/dev/null; do :; done; ls -A`;
      const left = spawnSync('sh', ['-c', list, warden.workspace], { encoding: 'utf8' });
      assert.equal(left.stdout, '', 'nothing was created');
      const fits = await warden.run(['/bin/true'], { binds: protects('f') });
      assert.equal(exited(fits).code, 0, 'control');
      spawnSync('rm', ['-rf', join(warden.workspace, names[0]!)]);
    });

    it('A25 two boxes share a stub; the first to end does not uncover the other', async (t) => {
      const warden = await started(t, { mode });
      fillWorkspace(warden);
      const binds = [{ kind: 'protectFile' as const, dst: '/ws/.tool/config' }];
      const first = await sleeper(warden, ['.tool/config']);
      const script = 'read go; mkdir -p .tool; echo evil >.tool/config';
      const client = await warden.client();
      const ready = new Promise<void>((resolve) => {
        client.onStarted = () => resolve();
      });
      // Its stdin is sent only once the first box is gone.
      const second = client.run(warden.plan(['/bin/sh', '-c', script], { binds }), null);
      await ready;
      first.client.kill();
      await first.outcome;
      assert.ok(existsSync(join(warden.workspace, '.tool')));
      client.feed('go\n');
      assert.notEqual(exited(await second).code, 0);
      client.close();
      assert.deepEqual(readdirSync(warden.workspace), []);
    });

    it('SIGTERM ends the warden and every box', async (t) => {
      const warden = await started(t, { mode });
      const box = await sleeper(warden);
      warden.process?.kill('SIGTERM');
      await once(warden.process!, 'exit');
      assert.equal(warden.process?.exitCode, 0);
      const outcome = await box.outcome;
      if (outcome.kind === 'exit') assert.equal(outcome.endedBy, 'warden');
      await soon('no process', () => processesOf(warden.dir).length === 0);
      await soon('no cgroup', () => cgroupsOf(warden.dir).own.length === 0);
      assert.ok(!existsSync(warden.socket));
    });

    it('the warden ends when its parent process is killed', async (t) => {
      // A separate parent that can be killed: the shell waits, the warden is its child.
      const wrap = ['sh', '-c', '"$0" "$@" --parent $$ & wait'];
      const own = await new TestWarden({ mode, wrap, parent: false }).start();
      t.after(() => own.stop());
      assert.equal(exited(await own.run(['/bin/true'])).code, 0);
      own.process?.kill('SIGKILL');
      await soon('no process', () => processesOf(own.dir).length === 0);
      assert.ok(!existsSync(own.socket));
    });

    it('a HALT that is a dangling link is effective', async (t) => {
      const warden = await started(t, { mode });
      const box = await sleeper(warden);
      symlinkSync('/nowhere/at/all', warden.haltFile);
      assert.equal(exited(await box.outcome).endedBy, 'halt');
      const refused = await warden.run(['/bin/true']);
      assert.equal(refused.kind === 'refused' && refused.code, 'halt');
      rmSync(warden.haltFile);
      assert.equal(exited(await warden.run(['/bin/true'])).code, 0, 'control');
    });

    it('refuses when out of descriptors, and leaks none', async (t) => {
      const warden = await started(t, { mode, wrap: ['prlimit', '--nofile=160:160'] });
      const binds: Bind[] = [{ kind: 'protectFile', dst: '/ws/settings.json' }];
      const { args: _a, env: _e, cwd: _c, ...plan } = warden.plan([], { binds });
      // If each refusal leaked one, the last rounds would have none left.
      for (let round = 0; round < 5; round++) {
        fillWorkspace(warden);
        const clients = await Promise.all(Array.from({ length: 24 }, () => warden.client()));
        const boxes = [];
        for (const client of clients) boxes.push(await client.open(plan));
        const refused = boxes.filter(({ kind }) => kind === 'refused');
        assert.ok(refused.length > 0 && refused.length < boxes.length, `${refused.length} refused`);
        for (const box of refused) assert.match(JSON.stringify(box), /overload|setup/);
        // Open boxes are complete: removing their seal is detected and ends them.
        rmSync(join(warden.workspace, 'settings.json'));
        for (const box of boxes)
          if (box.kind === 'opened') assert.equal(exited(await box.ended).endedBy, 'seal');
        for (const client of clients) client.close();
        await assertNothingLeft(warden);
      }
      assert.equal(exited(await warden.run(['/bin/true'])).code, 0, 'control');
    });

    it('the HALT file ends every box, and none starts', async (t) => {
      const warden = await started(t, { mode });
      const boxes = await Promise.all([sleeper(warden), sleeper(warden)]);
      writeFileSync(warden.haltFile, '');
      for (const box of boxes) assert.equal(exited(await box.outcome).endedBy, 'halt');
      const refused = await warden.run(['/bin/true']);
      assert.equal(refused.kind === 'refused' && refused.code, 'halt');
      rmSync(warden.haltFile);
      assert.equal(exited(await warden.run(['/bin/true'])).code, 0);
      for (const box of boxes) box.client.close();
    });

    it('no descriptor of the warden reaches a box', async (t) => {
      const wrap = ['sh', '-c', 'exec 9</etc/passwd; exec "$0" "$@"'];
      const warden = await started(t, { mode, wrap });
      const argv = ['/opt/hostile', 'descriptors'];
      assert.equal(exited(await warden.run(argv)).code, 1);
      const control = exited(await warden.run(argv, { guardsOff: ['descriptors'] }));
      assert.equal(control.stdout, 'descriptor 9\nworked\n');
    });

    it('a second warden in the same directory does not start', async (t) => {
      const warden = await started(t, { mode });
      const box = await sleeper(warden);
      await soon('its command runs', () => boxesOf(warden).length >= 2);
      const twin = spawnSync(wardenBinary(warden), wardenArguments(warden), { encoding: 'utf8' });
      assert.notEqual(twin.status, 0);
      assert.ok(boxesOf(warden).length >= 2, 'the first one’s box is still running');
      box.client.close();
    });

    it('a sanitized build does the same work without a report', async (t) => {
      const warden = await started(t, { mode, build: 'sanitized' });
      fillWorkspace(warden, { '.git/': '', '.git/config': '' });
      const binds = [
        { kind: 'protectFile' as const, dst: '/ws/.git/config' },
        { kind: 'protectDir' as const, dst: '/ws/.tool/hooks' },
        { kind: 'mask' as const, dst: '/ws/.env' },
      ];
      const text = 'x'.repeat(300_000);
      const runs = Array.from({ length: 10 }, () => warden.run(['/bin/cat'], { binds }, text));
      for (const outcome of await Promise.all(runs)) assert.equal(exited(outcome).stdout, text);
      assert.equal((await warden.run(['/no/such'])).kind, 'refused');
      const level1 = await warden.run(['/usr/bin/true'], { level: 1 });
      assert.equal(exited(level1).code, 0);
      warden.process?.kill('SIGTERM');
      await once(warden.process!, 'close');
      assert.deepEqual([warden.process?.exitCode, warden.stderr], [0, '']);
    });
  });
}

const wardenBinary = (warden: TestWarden) => join(warden.dir, 'bin/warden');
const wardenArguments = (warden: TestWarden) => [
  '--run',
  join(warden.dir, 'run'),
  '--socket',
  `${warden.socket}2`,
  '--bounds',
  join(warden.dir, 'bounds'),
  '--halt',
  warden.haltFile,
];
