// Attacks through the file tree: links, races, missing protected paths, special files.
import assert from 'node:assert/strict';
import { existsSync, lstatSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { Guard } from '../../src/daemons/sandboxd/adapters/plan.ts';
import { type EscapeCase, runCases, secretIsUntouched } from './support/cases.ts';
import type { TestWarden } from './support/warden.ts';

const outsideReadOnly = (warden: TestWarden) => ({
  binds: [{ kind: 'ro' as const, src: warden.outside, dst: '/outside' }],
});
const guardedOnly = (check: (warden: TestWarden) => void) => {
  return (warden: TestWarden, _outcome: unknown, guarded: boolean) => {
    if (guarded) check(warden);
  };
};
const has = (warden: TestWarden, name: string) => existsSync(join(warden.workspace, name));
const WRITING: Guard[] = ['readonly', 'landlock'];
const protect = (dst: string, kind: 'protectFile' | 'protectDir' = 'protectFile') => ({
  binds: [{ kind, dst: `/ws/${dst}` }],
});

const cases: EscapeCase[] = [
  {
    id: 'A1',
    title: 'a link in the workspace does not make the host writable',
    attack: ['symlink-write', '/outside/secret', '/ws/link'],
    off: WRITING,
    plan: outsideReadOnly,
    check: guardedOnly(secretIsUntouched),
  },
  {
    id: 'A1',
    title: 'an undeclared path is not visible',
    attack: (warden) => ['read-file', join(warden.outside, 'secret')],
    off: ['landlock'],
    plan: { level: 1 },
  },
  {
    id: 'A3',
    title: 'a missing protected file cannot be created',
    attack: ['write-file', '/ws/settings.json'],
    off: ['protect'],
    plan: protect('settings.json'),
    check: (warden, _outcome, guarded) => assert.equal(has(warden, 'settings.json'), !guarded),
  },
  {
    id: 'A4',
    title: 'the missing parent of a protected file cannot be created',
    attack: ['make-with-parent', '/ws/.tool', 'settings.json'],
    off: ['protect'],
    plan: protect('.tool/settings.json'),
    says: /EROFS|EACCES/,
    check: (warden, _outcome, guarded) => assert.equal(has(warden, '.tool'), !guarded),
  },
  {
    id: 'A4',
    title: 'no file can be created in place of a protected directory',
    attack: ['write-file', '/ws/.tool'],
    off: ['protect'],
    plan: protect('.tool/hooks', 'protectDir'),
    check: guardedOnly((warden) => assert.ok(!has(warden, '.tool'))),
  },
  {
    id: 'A6',
    title: 'a protected directory cannot be replaced by a link',
    attack: ['replace-by-link', '/ws/.git/hooks', '/tmp'],
    off: ['protect'],
    plan: protect('.git/hooks', 'protectDir'),
    files: { '.git/': '', '.git/hooks/': '' },
    says: /EBUSY/,
    check: guardedOnly((warden) =>
      assert.ok(lstatSync(join(warden.workspace, '.git/hooks')).isDirectory()),
    ),
  },
  {
    id: 'A6',
    title: 'the ancestor of a protected directory cannot be renamed',
    attack: ['rename-ancestor', '/ws/.git', 'config'],
    off: ['protect'],
    plan: protect('.git/config'),
    files: { '.git/': '', '.git/config': '[core]\n' },
    says: /EBUSY/,
    check: guardedOnly((warden) =>
      assert.equal(readFileSync(join(warden.workspace, '.git/config'), 'utf8'), '[core]\n'),
    ),
  },
  {
    id: 'A6',
    title: 'the ancestor of a protected directory cannot be exchanged with another directory',
    attack: ['exchange', '/ws/.git', '/ws/other'],
    off: ['protect'],
    plan: protect('.git/config'),
    files: { '.git/': '', '.git/config': '[core]\n' },
    says: /EBUSY/,
  },
  {
    id: 'A6',
    title: 'a protected file cannot be written in place',
    attack: ['write-file', '/ws/.git/config'],
    off: ['protect'],
    plan: protect('.git/config'),
    files: { '.git/': '', '.git/config': '[core]\n' },
    says: /EROFS/,
  },
  {
    id: 'A7',
    title: 'a protected path that is a link: the name cannot be replaced',
    attack: ['replace-by-link', '/ws/.git/hooks', '/tmp'],
    off: ['protect'],
    plan: protect('.git/hooks', 'protectDir'),
    files: { '.git/': '', 'shared/': '' },
    prepare: (warden) => symlinkSync('../shared', join(warden.workspace, '.git/hooks')),
    says: /EBUSY/,
  },
  {
    id: 'A7',
    title: 'a protected path that is a link: its target cannot be written',
    attack: ['write-file', '/ws/shared/pre-commit'],
    off: ['protect'],
    plan: protect('.git/hooks', 'protectDir'),
    files: { '.git/': '', 'shared/': '' },
    prepare: (warden) => symlinkSync('../shared', join(warden.workspace, '.git/hooks')),
    says: /EROFS/,
  },
  {
    id: 'A7',
    title: 'a protected path that is a dangling link: its target cannot be created',
    attack: ['write-file', '/ws/later.json'],
    off: ['protect'],
    plan: protect('settings.json'),
    prepare: (warden) => symlinkSync('later.json', join(warden.workspace, 'settings.json')),
    check: guardedOnly((warden) => assert.ok(!has(warden, 'later.json'))),
  },
  {
    id: 'A8',
    title: 'a masked file cannot be read',
    attack: ['read-file', '/ws/.env'],
    off: ['protect'],
    plan: { binds: [{ kind: 'mask', dst: '/ws/.env' }] },
    files: { '.env': 'KEY=1\n' },
    says: /ENODATA/,
  },
  {
    id: 'A8',
    title: 'a masked file cannot be read through a link to its directory',
    attack: ['read-file', '/ws/alias/.env'],
    off: ['protect'],
    plan: { binds: [{ kind: 'mask', dst: '/ws/alias/.env' }] },
    files: { 'real/': '', 'real/.env': 'KEY=1\n' },
    prepare: (warden) => symlinkSync('real', join(warden.workspace, 'alias')),
  },
  {
    id: 'A8',
    title: 'a masked link cannot be read by its target’s name',
    attack: ['read-file', '/ws/real/.env'],
    off: ['protect'],
    plan: { binds: [{ kind: 'mask', dst: '/ws/alias/.env' }] },
    files: { 'real/': '', 'real/.env': 'KEY=1\n' },
    prepare: (warden) => symlinkSync('real', join(warden.workspace, 'alias')),
  },
  {
    id: 'A8',
    title: 'a masked link cannot be read by its own name',
    attack: ['read-file', '/ws/alias'],
    off: ['protect'],
    plan: { binds: [{ kind: 'mask', dst: '/ws/alias' }] },
    files: { '.env': 'KEY=1\n' },
    prepare: (warden) => symlinkSync('.env', join(warden.workspace, 'alias')),
    says: /ENODATA/,
  },
  {
    id: 'A8',
    title: 'a masked file cannot be read through a protected link, whichever rule comes first',
    attack: ['read-file', '/ws/alias'],
    off: ['protect'],
    plan: {
      binds: [
        { kind: 'protectFile', dst: '/ws/alias' },
        { kind: 'mask', dst: '/ws/.env' },
      ],
    },
    files: { '.env': 'KEY=1\n' },
    prepare: (warden) => symlinkSync('.env', join(warden.workspace, 'alias')),
    says: /ENODATA/,
  },
  {
    id: 'A7',
    title: 'a protected link to a per-process path exposes nothing of the warden',
    attack: ['read-file', '/ws/settings.json'],
    off: ['protect'],
    plan: protect('settings.json'),
    prepare: (warden) => symlinkSync('/proc/self/exe', join(warden.workspace, 'settings.json')),
    says: /ENODATA/,
  },
  {
    id: 'A10',
    title: 'no hard link from outside into the workspace',
    attack: (warden) => [
      'hard-link',
      join(warden.outside, 'secret'),
      join(warden.workspace, 'hard'),
    ],
    off: ['landlock'],
    plan: { level: 1 },
    check: guardedOnly(secretIsUntouched),
  },
  {
    id: 'A16',
    title: 'a file in the host’s shared /tmp cannot be reached',
    attack: (warden) => ['write-file', join(warden.outside, 'response.md')],
    off: ['landlock'],
    plan: { level: 1 },
  },
  {
    id: 'A20',
    title: 'a read-only path cannot be made writable again',
    attack: ['remount-writable', '/usr'],
    off: ['seccomp', 'caps', 'userns', 'landlock'],
  },
  {
    id: 'A22',
    title: 'no device file can be created',
    attack: ['make-device', '/ws/null'],
    off: ['seccomp', 'caps', 'userns', 'landlock'],
    modes: ['root'],
  },
  {
    id: 'A24',
    title: 'no fifo can be created in a workspace',
    attack: ['make-fifo', '/ws/fifo'],
    off: ['landlock'],
    says: /EACCES/,
  },
  {
    id: 'A24',
    title: 'no socket file can be created in a workspace',
    attack: ['make-socket-file', '/ws/sock'],
    off: ['landlock'],
    says: /EACCES/,
  },
];

runCases(cases);
