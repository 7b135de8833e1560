// The C programs with other compilers and on another architecture: they build without a warning,
// and the system call filter has the same effect there. Missing tools are skipped by name; none of
// them is needed to work on agentd.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { encodePlan } from '../../src/daemons/sandboxd/adapters/plan.ts';
import { LIMITS } from '../../src/daemons/sandboxd/testing/limits.ts';
import { projectRoot } from './fixture.ts';

const FLAGS = ['-std=gnu11', '-D_GNU_SOURCE', '-Wall', '-Wextra', '-Werror'];
const PROGRAMS = ['warden', 'keeper', 'supervisor', 'boxfs'];
const ARM = 'aarch64-linux-gnu-gcc';
const QEMU = 'qemu-aarch64';

const dir = mkdtempSync(join(tmpdir(), 'native-'));
after(() => rmSync(dir, { recursive: true, force: true }));

const isInstalled = (program: string): boolean =>
  spawnSync(program, ['--version'], { stdio: 'ignore' }).status === 0;
const without = (...programs: string[]): string | false => {
  const missing = programs.filter((program) => !isInstalled(program));
  return missing.length === 0 ? false : `not installed here: ${missing.join(', ')}`;
};

function compile(compiler: string, name: string, sources: string[], flags: string[]): string {
  const output = join(dir, `${name}-${compiler}`);
  const ran = spawnSync(compiler, [...FLAGS, ...flags, '-o', output, ...sources], {
    encoding: 'utf8',
  });
  assert.equal(ran.status, 0, `${compiler}: ${ran.stderr}`);
  return output;
}

const sourcesOf = (folder: string): string[] =>
  readdirSync(join(projectRoot, folder))
    .filter((file) => file.endsWith('.c'))
    .map((file) => join(projectRoot, folder, file));

describe('the C programs', () => {
  for (const compiler of ['clang', ARM])
    it(`build with ${compiler} without a warning`, { skip: without(compiler) }, () => {
      for (const name of PROGRAMS)
        compile(compiler, name, sourcesOf(`native/${name}`), [
          '-O2',
          ...(name === 'boxfs' ? ['-static'] : []),
        ]);
    });
});

/** The numbers of all system calls in this compiler's headers. */
function callsOf(compiler: string): Map<string, number> {
  const given = ['-E', '-dM', '-include', 'asm/unistd.h', '-include', 'sys/syscall.h'];
  const text = execFileSync(compiler, [...given, '-x', 'c', '/dev/null'], { encoding: 'utf8' });
  const found = [...text.matchAll(/^#define __NR_(\w+) (\d+)$/gm)];
  return new Map(found.map(([, name, number]) => [name!, Number(number)]));
}

/** Calls that no current kernel has, and the one that is omitted on purpose. */
const UNNAMED = new Set(
  [
    'clone3 afs_syscall epoll_ctl_old epoll_wait_old get_thread_area set_thread_area getpmsg',
    'putpmsg security tuxcall vserver lookup_dcookie nfsservctl syscalls arch_specific_syscall',
  ].flatMap((line) => line.split(' ')),
);

/** uretprobe and uprobe: the kernel exempts them from filters, and accepts only its own code. */
const UNFILTERED_X64 = [335, 336];

/** The columns of seccomp-table.h. */
const FILTERS = ['tool at level 1', 'tool', 'runner'] as const;
const [LEVEL_1, TOOL, RUNNER] = [0, 1, 2];
const NEWUSER = 0x10000000;
const THREAD = 0x10000;
const HIGH = 2 ** 32;
type FilterQuery = { filter: number; call: string | number; args?: number[]; arch?: number };

type Row = { call: string; number: number | undefined; cells: string[] };

/** The rows of the table. A call that older headers lack has its number there. */
function readTable(compiler: string): Row[] {
  const text = readFileSync(join(projectRoot, 'native/warden/seccomp-table.h'), 'utf8');
  const isX64 = compiler !== ARM && process.arch === 'x64';
  const compiled = isX64 ? text : text.replace(/#ifdef __x86_64__[\s\S]*?#endif/, '');
  const rows = compiled
    .matchAll(/^(?!\/\/|#).*$/gm)
    .flatMap(([line]) => [
      ...line.matchAll(/\b[CN]\((\w+), *(?:(\d+), *)?(\w+), *(\w+), *(\w+)\)/g),
    ]);
  return [...rows].map(([, call, number, ...cells]) => ({
    call: call!,
    number: number === undefined ? undefined : Number(number),
    cells: cells as string[],
  }));
}
const OUTCOMES: Record<string, string> = { A: 'allow', D: 'EPERM' };

const here = { compiler: 'cc', run: [] as string[], others: [0x40000003, 0xc00000b7] };
const arm = { compiler: ARM, run: [QEMU], others: [0x40000028, 0xc000003e] };
const machines = [
  { name: 'this machine', ...here, skip: false as const },
  { name: 'arm64', ...arm, skip: without(ARM, QEMU) },
];

for (const { name, compiler, run, others, skip } of machines)
  describe(`the system call filter, on ${name}`, { skip }, () => {
    let calls = new Map<string, number>();
    let program = '';
    const prepare = (): void => {
      if (program !== '') return;
      calls = callsOf(compiler);
      const sources = [
        'test/escape/filters/filters.c',
        'native/warden/plan.c',
        'native/warden/requests.c',
      ];
      const flags = ['-O1', ...(run.length > 0 ? ['-static'] : [])];
      program = compile(
        compiler,
        'filters',
        sources.map((file) => join(projectRoot, file)),
        flags,
      );
    };
    const numberOf = (call: string | number): number =>
      typeof call === 'number' ? call : (calls.get(call) ?? assert.fail(`no call ${call}`));
    /** An emulator has no kernel to install a filter in. */
    const methods = compiler === ARM ? (['emulate'] as const) : (['emulate', 'kernel'] as const);
    const outcomes = (queries: FilterQuery[], method: (typeof methods)[number]): string[] => {
      prepare();
      const input = queries.map(({ filter, call, args = [], arch = 0 }) =>
        [filter, arch, numberOf(call), ...Array.from({ length: 6 }, (_, i) => args[i] ?? 0)].join(
          ' ',
        ),
      );
      const [first = '', ...rest] = [...run, program, method];
      return execFileSync(first, rest, { input: input.join('\n'), encoding: 'utf8' })
        .trim()
        .split('\n');
    };
    const check = (
      expected: string,
      queries: Omit<FilterQuery, 'filter'>[],
      filters = [0, 1, 2],
    ) => {
      for (const method of methods) {
        const native = queries.filter(({ arch }) => method === 'emulate' || arch === undefined);
        const all = filters.flatMap((filter) => native.map((one) => ({ ...one, filter })));
        for (const [i, outcome] of outcomes(all, method).entries())
          assert.equal(
            outcome,
            expected,
            `${method}, ${FILTERS[all[i]!.filter]}: ${JSON.stringify(all[i])}`,
          );
      }
    };

    it('names every system call', () => {
      prepare();
      const named = new Set(readTable(compiler).map(({ call }) => call));
      assert.ok(named.size > 250 && calls.size > 250, 'control');
      const missing = [...calls.keys()].filter((call) => !named.has(call) && !UNNAMED.has(call));
      assert.deepEqual(missing, []);
    });

    it('enforces every cell of the table, and ENOSYS for a call without a row', () => {
      prepare();
      const table = new Map(
        readTable(compiler).map(({ call, number, cells }) => [number ?? numberOf(call), cells]),
      );
      const asked = FILTERS.flatMap((_, filter) =>
        Array.from({ length: 520 }, (_, call) => ({ filter, call })),
      ).filter(({ call }) => !UNFILTERED_X64.includes(call) || compiler === ARM);
      // Cells that depend on arguments have their own tests below.
      const expected = asked.map(({ filter, call }) => {
        const cells = table.get(call);
        return cells === undefined ? 'ENOSYS' : OUTCOMES[cells[filter]!];
      });
      for (const method of methods)
        for (const [i, outcome] of outcomes(asked, method).entries())
          assert.equal(outcome, expected[i] ?? outcome, `${method}: ${JSON.stringify(asked[i])}`);
      assert.ok(expected.filter((outcome) => outcome === 'allow').length > 600, 'control');
      assert.ok(expected.filter((outcome) => outcome === 'EPERM').length > 240, 'control');
    });

    it('allows ordinary calls, however a C library makes them', () => {
      const calls = [
        'read',
        'openat',
        'openat2',
        'renameat',
        'renameat2',
        'getrlimit',
        'prlimit64',
      ];
      check(
        'allow',
        [...calls, 'futex', 'statx', 'rt_sigreturn'].map((call) => ({ call })),
      );
    });

    it('denies calls for escape or escalation, and returns ENOSYS for unnamed ones', () => {
      const calls = ['ptrace', 'mount', 'unshare', 'setns', 'bpf', 'io_uring_setup', 'keyctl'];
      const more = ['open_tree', 'move_mount', 'pidfd_getfd', 'userfaultfd', 'perf_event_open'];
      check(
        'EPERM',
        [...calls, ...more].map((call) => ({ call })),
      );
      check('ENOSYS', [{ call: 'clone3' }, { call: 511 }, { call: 512 }, { call: 100_000 }]);
    });

    it('kills on calls of another call table', () => {
      check('kill', [
        ...others.map((arch) => ({ call: 'read', arch })),
        ...[0x40000000, 0x40000001, 0xffffffff].map((call) => ({ call })),
      ]);
    });

    it('compares the lower half of arguments, as the kernel does', () => {
      check('EPERM', [{ call: 'clone', args: [NEWUSER + 17] }]);
      check('EPERM', [{ call: 'clone', args: [HIGH + NEWUSER] }]);
      check('allow', [{ call: 'clone', args: [17] }], [LEVEL_1, TOOL]);
      check('EPERM', [{ call: 'clone', args: [17] }], [RUNNER]);
      check('allow', [{ call: 'clone', args: [THREAD + 0x100] }]);
      check('EPERM', [
        { call: 'ioctl', args: [0, 0x5412] },
        { call: 'ioctl', args: [0, HIGH + 0x5412] },
      ]);
      check('allow', [{ call: 'ioctl', args: [0, 0x5401] }]);
      check('EPERM', [{ call: 'mknodat', args: [0, 0, 0o020666] }]);
      check('allow', [{ call: 'mknodat', args: [0, 0, 0o010666] }]);
    });

    it('allows each profile its own sockets', () => {
      const socket = (...args: number[]) => [{ call: 'socket', args }];
      check('allow', socket(2, 1), [TOOL]);
      check('EPERM', socket(2, 1), [LEVEL_1, RUNNER]);
      check('allow', socket(1, 0o2000001), [RUNNER]);
      check('EPERM', [...socket(1, 2), ...socket(1, 5), ...socket(40, 1), ...socket(17, 3)]);
      check('EPERM', socket(1, 1), [LEVEL_1, TOOL]);
      check('EPERM', socket(16, 3, 9));
      check('allow', [{ call: 'socketpair', args: [1, 1] }]);
      check('EPERM', [
        { call: 'socketpair', args: [1, 2] },
        { call: 'socketpair', args: [2, 1] },
      ]);
    });
  });

describe('the plan parser, on arm64', { skip: without(ARM, QEMU) }, () => {
  it('survives mutated plans', () => {
    const sources = ['test/escape/fuzz/fuzz-plan.c', 'native/warden/plan.c'];
    const paths = sources.map((file) => join(projectRoot, file));
    const program = compile(ARM, 'fuzz-plan', paths, ['-O1', '-static']);
    const plan = { id: 'seed', level: 2, profile: 'tool', uid: 1000, gid: 1000 } as const;
    const seed = join(dir, 'seed');
    const binds = [{ kind: 'ro', src: '/usr', dst: '/usr' } as const];
    writeFileSync(
      seed,
      encodePlan({ ...plan, args: ['/bin/sh'], cwd: '/ws', binds, limits: LIMITS }),
    );
    const stdout = execFileSync(QEMU, [program, seed, '2', '1'], { encoding: 'utf8' });
    assert.ok(Number.parseInt(stdout, 10) > 1000, stdout);
  });
});
