// Attacks through modes, owners and other metadata of files: setuid files for other users of the
// host, and at level 1 the metadata of files outside the box.
import assert from 'node:assert/strict';
import { chmodSync, chownSync, existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type EscapeCase, runCases } from './support/cases.ts';
import type { TestWarden } from './support/warden.ts';

const NEWER = ['fchmod', 'fchmodat', 'fchmodat2', 'mknodat', 'openat', 'tmpfile'];
const OLDER = process.arch === 'x64' ? ['chmod', 'creat', 'mknod', 'open'] : [];
const modeOf = (warden: TestWarden, name: string) => {
  const path = join(warden.workspace, name);
  return existsSync(path) ? statSync(path).mode & 0o7000 : 0;
};

const setuid: EscapeCase[] = [...NEWER, ...OLDER].map((call) => ({
  id: 'C13',
  title: `no setuid file by ${call}`,
  attack: ['make-setuid', call, '/ws/evil'],
  off: ['seccomp', 'landlock'], // Landlock stops mknod and the link of O_TMPFILE, too
  says: new RegExp(`failed ${call} EPERM`),
  check: (warden, _outcome, guarded) =>
    assert.equal(modeOf(warden, 'evil'), guarded ? 0 : 0o4000, call),
}));

const metadata: EscapeCase[] = ['fchmodat', 'fchownat', 'utimensat', 'setxattr', 'removexattr'].map(
  (call) => ({
    id: 'A1',
    title: `level 1 changes no metadata of a file outside the box by ${call}`,
    attack: (warden) => ['change-metadata', call, join(warden.outside, 'secret')],
    off: ['seccomp'],
    plan: { level: 1 },
    says: new RegExp(`failed ${call} EPERM`),
    // The file belongs to the box's user, as every file of that user does when agentd is not root.
    prepare: (warden) => {
      chownSync(join(warden.outside, 'secret'), warden.uid, warden.gid);
      chmodSync(join(warden.outside, 'secret'), 0o600);
    },
    check: (warden, _outcome, guarded) => {
      const { mode, mtimeMs } = statSync(join(warden.outside, 'secret'));
      assert.equal(mode & 0o777, call === 'fchmodat' && !guarded ? 0o640 : 0o600);
      assert.equal(mtimeMs === 1_000, call === 'utimensat' && !guarded);
    },
  }),
);

// openat2 hides its mode from the filter. The kernel clears the bit when a writer without
// CAP_FSETID adds content.
const filled: EscapeCase = {
  id: 'C13',
  title: 'a file created setuid by openat2 is not setuid once it has content',
  attack: ['fill-setuid', '/ws/evil'],
  off: ['seccomp', 'caps', 'userns', 'landlock'],
  says: /failed cleared/,
  modes: ['root'], // the capability counts in the host's user namespace only
  check: (warden, _outcome, guarded) => assert.equal(modeOf(warden, 'evil'), guarded ? 0 : 0o4000),
};

runCases([...setuid, ...metadata, filled]);
