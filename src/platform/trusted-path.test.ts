// A path that another user could replace is refused.
import assert from 'node:assert/strict';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { assertTrustedAbove, assertTrustedDir } from './trusted-path.ts';

const dir = mkdtempSync(join(tmpdir(), 'agentd-p-'));
after(() => rmSync(dir, { recursive: true, force: true }));
const uid = process.getuid?.() ?? 0;
const needsRoot = { skip: uid === 0 ? false : 'needs root' };
let made = 0;

function place(): { base: string; leaf: string } {
  const base = join(dir, `b${made++}`);
  const leaf = join(base, 'leaf');
  mkdirSync(leaf, { recursive: true, mode: 0o700 });
  return { base, leaf };
}

describe('a trusted path', () => {
  it('may be our own directory below a shared one', () => {
    assertTrustedDir(place().leaf, [uid]);
  });

  it('is refused when others may rename a directory above it, unless the sticky bit forbids it', () => {
    const { base, leaf } = place();
    for (const mode of [0o777, 0o770, 0o702]) {
      chmodSync(base, mode);
      assert.throws(() => assertTrustedAbove(leaf, [uid]), { code: 'bad_config' }, `${mode}`);
    }
    chmodSync(base, 0o1777);
    assertTrustedAbove(leaf, [uid]);
    chmodSync(leaf, 0o1777);
    assert.throws(() => assertTrustedDir(leaf, [uid]), { code: 'bad_config' });
  });

  it("is refused when a link leads through another user's directory", () => {
    const { base, leaf } = place();
    const link = join(dir, `l${made++}`);
    symlinkSync(base, link);
    assertTrustedDir(join(link, 'leaf'), [uid]);
    chmodSync(base, 0o777);
    assert.throws(() => assertTrustedDir(join(link, 'leaf'), [uid]), { code: 'bad_config' });
    assert.throws(() => assertTrustedDir(leaf, [uid]), { code: 'bad_config' });
  });

  it('is refused below a directory of another user, however closed it is', needsRoot, () => {
    const { base, leaf } = place();
    chownSync(base, 12_345, 12_345);
    chmodSync(base, 0o755);
    assert.throws(() => assertTrustedDir(leaf, [uid]), { message: /uid 12345/ });
    assertTrustedDir(leaf, [uid, 12_345]);
  });
});
