// A path is masked and protected by name. A file with another hard link in the box would stay
// accessible through it, so such a box is refused. Controls: without the denial, and with one name.
import assert from 'node:assert/strict';
import { chmodSync, chownSync, linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { Bind, Guard } from '../../src/daemons/sandboxd/adapters/plan.ts';
import { exited, fillWorkspace } from './support/cases.ts';
import { MODES, NOTHING, TestWarden } from './support/warden.ts';

const CONFIG = '[core]\n\tbare = false\n';

for (const mode of MODES) {
  describe(`a file with two names, as ${mode}`, () => {
    let warden: TestWarden;
    before(async () => {
      warden = await new TestWarden({ mode }).start();
    });
    beforeEach(() => fillWorkspace(warden, { '.git/': '', '.git/config': CONFIG, key: 'KEY\n' }));
    after(async () => {
      assert.deepEqual(await warden.leftovers(), NOTHING);
      await warden.stop();
    });

    const inWorkspace = (name: string) => join(warden.workspace, name);
    const sh = (script: string, binds: Bind[], guardsOff: Guard[] = []) =>
      warden.run(['/bin/sh', '-c', script], { binds, guardsOff });
    const outputOf = async (script: string, binds: Bind[], guardsOff: Guard[] = []) =>
      exited(await sh(script, binds, guardsOff)).stdout;
    const isRefused = async (script: string, binds: Bind[]) => {
      const outcome = await sh(script, binds);
      assert.equal(outcome.kind, 'refused', JSON.stringify(outcome));
      assert.match(JSON.stringify(outcome), /another hard link/);
    };

    it('A10 denied on a writable path: the box is refused', async () => {
      const binds: Bind[] = [{ kind: 'mask', dst: '/ws/key' }];
      assert.equal(await outputOf('cat /ws/key', binds), '', 'one name: masked');
      linkSync(inWorkspace('key'), inWorkspace('other'));
      assert.equal(await outputOf('cat /ws/other', []), 'KEY\n', 'control: not denied');
      await isRefused('cat /ws/other', binds);
      rmSync(inWorkspace('other'));
      assert.equal(await outputOf('cat /ws/key', binds), '', 'one name again');
    });
    it('A10 denied on a read-only path: the box is refused', async () => {
      const secret = join(warden.outside, 'key');
      writeFileSync(secret, 'KEY\n');
      chmodSync(secret, 0o644);
      const data: Bind = { kind: 'ro', src: warden.outside, dst: '/data' };
      const masked: Bind[] = [data, { kind: 'mask', dst: '/data/key' }];
      assert.equal(await outputOf('cat /data/key 2>/dev/null; true', masked), '');
      linkSync(secret, join(warden.outside, 'other'));
      assert.equal(await outputOf('cat /data/other', [data]), 'KEY\n', 'control: not denied');
      await isRefused('cat /data/other', masked);
      rmSync(join(warden.outside, 'other'));
      rmSync(secret);
    });
    it('A10 protected from writes: the box is refused', async () => {
      const binds: Bind[] = [{ kind: 'protectFile', dst: '/ws/.git/config' }];
      linkSync(inWorkspace('.git/config'), inWorkspace('other'));
      const attack = 'echo "[core] fsmonitor = /ws/evil" >> /ws/other; cat /ws/.git/config';
      await isRefused(attack, binds);
      assert.equal(readFileSync(inWorkspace('.git/config'), 'utf8'), CONFIG);
      chownSync(inWorkspace('.git/config'), warden.uid, warden.gid);
      assert.match(await outputOf(attack, binds, ['protect']), /evil/, 'control: unguarded');
    });
    it('A10 an agent cannot hard-link a masked or protected file', async () => {
      const binds: Bind[] = [
        { kind: 'mask', dst: '/ws/key' },
        { kind: 'protectFile', dst: '/ws/.git/config' },
      ];
      const tries = 'ln /ws/key /ws/a; ln /ws/.git/config /ws/b; ln -P /ws/.git/config /ws/.git/c';
      assert.equal(
        await outputOf(`${tries}; ls -A /ws /ws/.git`, binds),
        '/ws:\n.git\nkey\n\n/ws/.git:\nconfig\n',
      );
      await outputOf(tries, []);
      assert.equal(readFileSync(inWorkspace('a'), 'utf8'), 'KEY\n', 'control: not denied');
    });
  });
}
