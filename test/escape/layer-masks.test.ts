// Denied paths in a layer, and what is left of it when the warden is killed.
import assert from 'node:assert/strict';
import {
  chownSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { Bind } from '../../src/daemons/sandboxd/adapters/plan.ts';
import type { OpenedLayer } from '../../src/daemons/sandboxd/adapters/warden.ts';
import { eventually } from '../support/runtime.ts';
import { exited } from './support/cases.ts';
import { mountsOf, processesOf } from './support/host.ts';
import { clear, fingerprint, type LayerSetup, startLayers } from './support/layers.ts';
import { MODES } from './support/warden.ts';

for (const mode of MODES) {
  describe(`denied paths in a layer, as ${mode}`, { timeout: 120_000 }, () => {
    let setup: LayerSetup;
    let dir: string;
    let layer: OpenedLayer;
    const mask: Bind = { kind: 'mask', dst: '/ws/.env' };
    const write = (name: string, text: string): void => {
      writeFileSync(join(setup.lower, name), text);
      chownSync(join(setup.lower, name), setup.person.uid, setup.person.gid);
    };
    const binds = (more: Bind[] = []): Bind[] => [
      { kind: 'layer', src: String(layer.handle), dst: '/ws' },
      ...more,
    ];
    const sh = async (script: string, more: Bind[] = []) =>
      exited(await setup.sh(layer, script, { binds: more }));
    before(async () => {
      setup = await startLayers(mode);
    });
    after(() => setup.stop());
    beforeEach(async () => {
      await layer?.close().catch(() => undefined);
      clear(setup.lower);
      write('one', 'one\n');
      dir = setup.newDir();
      layer = await setup.open(dir);
    });

    it('a denied file is empty, and cannot be changed, moved or removed', async () => {
      write('.env', 'KEY=1\n');
      const before_ = fingerprint(setup.lower);
      for (const script of ['cat .env', 'echo x >.env', 'mv .env other', 'rm -f .env', 'ln .env x'])
        assert.equal((await sh(`${script}; cat other x`, [mask])).stdout, '', script);
      assert.deepEqual(readdirSync(join(dir, 'upper')), []);
      assert.equal(
        (await sh('cat .env; mv .env other; cat other')).stdout,
        'KEY=1\nKEY=1\n',
        'control',
      );
      assert.equal(fingerprint(setup.lower), before_);
    });

    it('A12 a missing denied file cannot be created, and is no change afterwards', async () => {
      const script = 'echo KEY=1 >.env && cat .env';
      assert.equal((await sh(script, [mask])).stdout, '');
      assert.ok(!existsSync(join(setup.lower, '.env')), 'nothing is left on the host');
      await layer.close();
      assert.deepEqual(readdirSync(join(dir, 'upper')), []);
      layer = await setup.open(dir);
      assert.equal((await sh(script)).stdout, 'KEY=1\n', 'control');
    });

    it('A12 a denied file that the person creates meanwhile is not readable, and not deleted', async () => {
      const readIn = async (more: Bind[]) => {
        const box = await setup.warden.open({ binds: binds(more) });
        write('.env', 'KEY=1\n');
        const outcome = exited(await setup.warden.exec(box.box, ['/bin/cat', '/ws/.env']));
        box.client.closeBox();
        await box.ended;
        box.client.close();
        return outcome.stdout;
      };
      assert.equal(await readIn([mask]), '');
      await layer.close();
      assert.deepEqual(readdirSync(join(dir, 'upper')), [], 'no deletion is recorded');
      layer = await setup.open(dir);
      assert.equal(await readIn([]), 'KEY=1\n', 'control');
    });

    it('a denied path behind directories that are missing, or in the lower only', async () => {
      const more: Bind[] = [
        { kind: 'mask', dst: '/ws/.aws/credentials' },
        { kind: 'mask', dst: '/ws/docs/secret' },
      ];
      await setup.ok(layer, 'mkdir docs; echo x >docs/kept');
      const script =
        'mkdir -p .aws && echo x >.aws/credentials; echo x >docs/secret; cat docs/secret .aws/c*';
      assert.equal((await sh(script, more)).stdout, '');
      await layer.close();
      assert.deepEqual(readdirSync(join(dir, 'upper')), ['docs']);
      assert.deepEqual(readdirSync(join(dir, 'upper/docs')), ['kept']);
      layer = await setup.open(dir);
      assert.equal((await sh(script)).stdout, 'x\nx\n', 'control');
    });

    it('a read-only layer hides them too', async () => {
      write('.env', 'KEY=1\n');
      const run = async (more: Bind[]) => {
        const all = [{ ...binds()[0]!, readonly: true }, ...more];
        return exited(await setup.warden.run(['/bin/sh', '-c', 'cat .env one'], { binds: all }));
      };
      assert.equal((await run([mask])).stdout, 'one\n');
      assert.equal((await run([])).stdout, 'KEY=1\none\n', 'control');
    });

    it('A25 a killed warden leaves no mount and no stub, and its changes', async () => {
      const box = await setup.warden.open({ binds: binds([mask]) });
      await setup.warden.exec(box.box, ['/bin/sh', '-c', 'echo kept >kept; echo more >>one']);
      assert.deepEqual(readdirSync(join(dir, 'upper')).sort(), ['.env', 'kept', 'one'], 'control');
      setup.warden.process?.kill('SIGKILL');
      assert.equal(await layer.ended, 'gone');
      await eventually('the end of the warden', async () =>
        processesOf(setup.warden.dir).length === 0 ? true : undefined,
      );
      assert.deepEqual(readdirSync(join(dir, 'upper')).sort(), ['kept', 'one']);
      assert.deepEqual(mountsOf(setup.warden.dir, process.pid), []);
      await setup.warden.start();
      layer = await setup.open(dir);
      assert.equal((await sh('cat kept one')).stdout, 'kept\none\nmore\n');
    });

    it('A25 with the janitor killed too, the next warden removes the stubs', async () => {
      const box = await setup.warden.open({ binds: binds([mask]) });
      assert.equal(box.kind, 'opened');
      process.kill(await setup.warden.janitor(), 'SIGKILL');
      setup.warden.process?.kill('SIGKILL');
      await eventually('the end of the warden', async () =>
        processesOf(setup.warden.dir).length === 0 ? true : undefined,
      );
      assert.equal(lstatSync(join(dir, 'upper/.env')).size, 0, 'control');
      await setup.warden.start();
      assert.deepEqual(readdirSync(join(dir, 'upper')), []);
      layer = await setup.open(dir);
      assert.equal(readFileSync(join(setup.lower, 'one'), 'utf8'), 'one\n');
    });
  });
}
