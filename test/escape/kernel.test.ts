// Attacks through system calls: namespaces, mounts, rings, keys, tracing, other call tables.
import assert from 'node:assert/strict';
import type { Guard } from '../../src/daemons/sandboxd/adapters/plan.ts';
import { type EscapeCase, runCases } from './support/cases.ts';

const call = (id: string, name: string, more: Partial<EscapeCase> = {}): EscapeCase => ({
  id,
  title: `${name} is refused`,
  attack: ['call', name],
  off: ['seccomp'],
  says: /EPERM/,
  ...more,
});
// With these off a process in the box has capabilities over the box's own namespaces.
const RIGHTS: Guard[] = ['seccomp', 'caps', 'userns', 'landlock'];

const cases: EscapeCase[] = [
  {
    id: 'C1',
    title: 'no user namespace by unshare',
    attack: ['user-namespace'],
    off: ['seccomp', 'usernsLimit'],
    says: /EPERM/,
  },
  {
    id: 'C1',
    title: 'no user namespace by clone',
    attack: ['user-namespace-clone'],
    off: ['seccomp', 'usernsLimit'],
    says: /EPERM/,
  },
  {
    id: 'C1',
    title: 'clone3 does not exist, so its flags cannot be hidden',
    attack: ['user-namespace-clone3'],
    off: ['seccomp', 'usernsLimit'],
    says: /ENOSYS/,
  },
  { id: 'C3', title: 'no mount', attack: ['mount-tmpfs', '/tmp'], off: RIGHTS, says: /EPERM/ },
  { id: 'C3', title: 'no new mount calls', attack: ['mount-calls'], off: RIGHTS },
  { id: 'C3', title: 'no chroot', attack: ['change-root', '/tmp'], off: RIGHTS, says: /EPERM/ },
  {
    id: 'C4',
    title: '/proc cannot be unmounted',
    attack: ['unmount', '/proc'],
    off: RIGHTS,
    says: /EPERM/,
  },
  {
    id: 'C4',
    title: 'a process outside the box is not visible',
    attack: () => ['see-process', String(process.pid)],
    off: ['pidns', 'procSubset', 'landlock'],
    modes: ['root'], // an ordinary user cannot mount a /proc of the host's processes
  },
  {
    id: 'C5',
    title: 'the box’s init cannot be read',
    attack: ['read-memory-of', '1'],
    off: ['dumpable', 'landlock', 'procSubset'],
  },
  call('C5', 'ptrace'),
  call('C5', 'process_vm_readv'),
  call('C5', 'kcmp'),
  call('C5', 'pidfd_getfd'),
  call('C7', 'io_uring'),
  {
    id: 'C12',
    title: 'no input can be injected into a terminal',
    attack: ['type-into-terminal'],
    off: ['seccomp'],
    says: /EPERM/,
  },
  call('C15', 'keyctl'),
  call('C15', 'add_key'),
  call('C15', 'userfaultfd'),
  call('C15', 'personality'),
  call('C15', 'shmget'),
  call('C15', 'perf_event_open', { modes: ['root'], off: ['seccomp', 'caps', 'userns'] }),
  call('C15', 'mq_unlink'),
  call('C15', 'name_to_handle_at'),
  call('C15', 'vmsplice'),
  call('C15', 'modify_ldt'),
  {
    id: 'C15',
    title: 'bpf, kexec, modules, reboot, swap: denied by the filter',
    attack: ['privileged-calls'],
    off: RIGHTS,
    modes: ['root'],
  },
  {
    id: 'C15',
    title: 'system calls of another architecture kill the process',
    attack: ['i386-call'],
    off: ['seccomp'],
    check: (_warden, outcome, guarded) => assert.equal(outcome.signal, guarded ? 31 : 0),
  },
  {
    id: 'C15',
    title: 'x32 system calls kill the process',
    attack: ['x32-call'],
    off: ['seccomp'],
    check: (_warden, outcome, guarded) => assert.equal(outcome.signal, guarded ? 31 : 0),
  },
];

runCases(cases);
