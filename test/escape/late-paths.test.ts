// Attacks through paths that do not exist yet or have changed: denied paths that appear later,
// invalid denials, a redirected temporary directory, names that only other layers interpret.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { Bind, Guard } from '../../src/daemons/sandboxd/adapters/plan.ts';
import { boxBinds } from '../../src/daemons/sandboxd/rules.ts';
import { exited, fillWorkspace, secretIsUntouched } from './support/cases.ts';
import { IS_ROOT, MODES, TestWarden, type WardenBox } from './support/warden.ts';

const places = {
  system: [{ kind: 'ro', src: '/usr', dst: '/usr' }] as const,
  workspace: '/w',
  home: '/h',
  homeAt: '/home/coder',
  secrets: [],
};

/** The stub of a missing file is read-only: root may write it anyway, others chmod it. */
function writeByHand(file: string, text: string): void {
  if (!IS_ROOT && existsSync(file)) chmodSync(file, 0o644);
  writeFileSync(file, text);
}

/** A client that disconnects is not notified when the box and its stubs are gone. */
async function closed({ client, ended }: WardenBox): Promise<void> {
  client.closeBox();
  await ended;
  client.close();
}

for (const mode of MODES) {
  describe(`changing paths, as ${mode}`, () => {
    let warden: TestWarden;
    before(async () => {
      warden = await new TestWarden({ mode }).start();
    });
    beforeEach(() => fillWorkspace(warden));
    after(() => warden.stop());

    const sh = async (script: string, binds: Bind[] = [], guardsOff: Guard[] = []) =>
      exited(await warden.run(['/bin/sh', '-c', script], { binds, guardsOff }));
    const outside = (): Bind => ({ kind: 'ro', src: warden.outside, dst: '/outside' });
    const mask: Bind = { kind: 'mask', dst: '/ws/.env' };

    it('A12 a missing denied file cannot be created', async () => {
      const script = 'echo KEY=1 > /ws/.env && cat /ws/.env';
      assert.notEqual((await sh(script, [mask])).code, 0);
      assert.ok(!existsSync(join(warden.workspace, '.env')));
      assert.equal((await sh(script)).stdout, 'KEY=1\n', 'control');
    });
    it('A12 a denied file created on the host while the box is open is not readable', async () => {
      const readIn = async (binds: Bind[]) => {
        const opened = await warden.open({ binds });
        try {
          writeByHand(join(warden.workspace, '.env'), 'KEY=1\n');
          return exited(await warden.exec(opened.box, ['/bin/cat', '/ws/.env'])).stdout;
        } finally {
          await closed(opened);
        }
      };
      assert.equal(await readIn([mask]), '');
      assert.equal(await readIn([]), 'KEY=1\n', 'control');
    });
    it('A12 a denied file written and emptied on the host is kept when the box ends', async () => {
      const file = join(warden.workspace, '.env');
      const openAndClose = async (meanwhile: () => void) => {
        const opened = await warden.open({ binds: [mask] });
        assert.ok(existsSync(file), 'a stub exists');
        // After the clock tick in which it was created.
        await setTimeout(20);
        meanwhile();
        opened.client.close();
      };
      await openAndClose(() => {});
      const beganMs = performance.now();
      while (existsSync(file)) await setTimeout(5);
      await openAndClose(() => {
        writeByHand(file, 'KEY=1\n');
        writeByHand(file, '');
      });
      await setTimeout(100 + 3 * (performance.now() - beganMs));
      assert.ok(existsSync(file));
      rmSync(file);
    });
    it('A14 a denial of .. or / is refused, and never opens more', async () => {
      for (const dst of ['..', '../..', '/', '/ws/..', '/ws/../outside']) {
        const outcome = await warden.run(['/bin/true'], { binds: [{ kind: 'mask', dst }] });
        assert.ok(outcome.kind === 'refused', dst);
        assert.match(outcome.code, /plan|bounds/, dst);
      }
      assert.equal((await sh('pwd', [{ kind: 'mask', dst: '/ws/x' }])).stdout, '/ws\n', 'control');
    });
    it('A17 the temporary directory cannot be redirected', async () => {
      const aim = 'ln -sfn /outside "$TMPDIR"; ln -sfn /outside "$TMPDIR/out"; ';
      const script = `TMPDIR=/tmp; ${aim} echo owned > "$TMPDIR/out/secret"`;
      assert.notEqual((await sh(script, [outside()])).code, 0);
      secretIsUntouched(warden);
      const replaced = await sh('mv /tmp /ws/old || rmdir /tmp || rm -rf /tmp; test -L /tmp');
      assert.notEqual(replaced.code, 0);
      const control = await sh(script, [outside()], ['readonly', 'landlock']);
      assert.equal(control.code, 0, JSON.stringify(control));
      assert.equal(readFileSync(join(warden.outside, 'secret'), 'utf8'), 'owned\n');
    });
    it('A23 no overlay whiteout can be created, with or without the capability', async () => {
      const whiteout = 'mknod /ws/gone c 0 0';
      const outcome = await sh(whiteout);
      assert.notEqual(outcome.code, 0);
      assert.ok(!existsSync(join(warden.workspace, 'gone')));
      const control = await sh(whiteout, [], ['landlock', 'seccomp', 'caps', 'userns']);
      assert.equal(control.code, 0, JSON.stringify(control));
    });
    it('A23 no link or directory can be named . or ..', async () => {
      const outcome = await sh('ln -sfT /outside /ws/.. ; ln -sfT /outside /ws/. ; ls -A /ws');
      assert.equal(outcome.stdout, '');
    });
    it('A8 a link created later does not lead around a denied directory', async () => {
      fillWorkspace(warden, { 'real/': '', 'real/.env': 'KEY=1\n' });
      const binds: Bind[] = [{ kind: 'mask', dst: '/ws/real' }];
      const script =
        'ln -s real /ws/alias; ln -s /ws/real/.env /ws/late; cat /ws/alias/.env /ws/late';
      assert.equal((await sh(script, binds)).stdout, '');
      fillWorkspace(warden, { 'real/': '', 'real/.env': 'KEY=1\n' });
      assert.equal((await sh(script)).stdout, 'KEY=1\nKEY=1\n', 'control');
    });
    it('A1 a link in the workspace leads only to what is visible in the box anyway', async () => {
      symlinkSync(join(warden.outside, 'secret'), join(warden.workspace, 'link'));
      assert.equal((await sh('cat /ws/link')).stdout, '');
      const same: Bind = { kind: 'ro', src: warden.outside, dst: warden.outside };
      assert.equal((await sh('cat /ws/link', [same])).stdout, 'untouched\n', 'control');
    });
  });
}

describe('invalid denials', () => {
  const rules = { read: ['/srv/docs'], write: ['/workspace'] };
  const show = (deny: string[]) => boxBinds({ ...rules, deny }, places, () => true);
  it('A14 hide everything rather than show what was meant to be denied', () => {
    for (const odd of ['..', '../..', '/srv/..', 'srv/docs', '/srv//docs', './x', ''])
      assert.deepEqual(show([odd]), { binds: [], missing: ['/srv/docs', '/workspace'] }, odd);
    assert.deepEqual(show(['/']).binds, []);
    const shown = show([]).binds.map(({ dst }) => dst);
    assert.ok(shown.includes('/srv/docs') && shown.includes('/workspace'), 'control');
  });
});

describe('later mounts', { skip: IS_ROOT ? false : 'only root mounts' }, () => {
  for (const mode of MODES)
    it(`A20 a mount made on the host is not visible in an open box, as ${mode}`, async (t) => {
      const warden = new TestWarden({ mode });
      const late = join(warden.outside, 'late');
      mkdirSync(late);
      execFileSync('mount', ['--bind', warden.outside, warden.outside]);
      t.after(async () => {
        execFileSync('umount', ['--recursive', warden.outside]);
        await warden.stop();
      });
      execFileSync('mount', ['--make-shared', warden.outside]);
      await warden.start();
      const binds: Bind[] = [{ kind: 'ro', src: warden.outside, dst: '/outside' }];
      const cat = async (box: bigint, path: string) =>
        exited(await warden.exec(box, ['/bin/cat', path])).stdout;
      const open = await warden.open({ binds });
      execFileSync('mount', ['-t', 'tmpfs', 'late', late]);
      writeFileSync(join(late, 'key'), 'KEY=1\n');
      const next = await warden.open({ binds });
      assert.equal(await cat(open.box, '/outside/late/key'), '');
      assert.equal(await cat(next.box, '/outside/late/key'), 'KEY=1\n', 'control');
      const mounts = await cat(next.box, '/proc/self/mountinfo');
      assert.match(mounts, /outside\/late ro,nosuid,nodev,/);
      const own = readFileSync(`/proc/${warden.process?.pid}/mountinfo`, 'utf8');
      assert.match(own, /outside\/late /, 'control: the warden sees it');
      for (const opened of [open, next]) await closed(opened);
    });
});
