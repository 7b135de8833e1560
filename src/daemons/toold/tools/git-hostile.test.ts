// Hostile repositories. Each would make plain git run a program (the control), and must not do so
// through the tools.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, it } from 'node:test';
import { GIT_ENV } from '../../../../test/support/git-env.ts';
import {
  ask,
  at,
  config,
  gitIn,
  makeRepository,
  plain,
  repositoryForEach,
  world,
} from '../../../../test/support/git-repository.ts';

/** Exists once the hostile program has run. */
let mark: string;
let program: string;

/** Runs git as a person would, whether it succeeds or not. */
const careless = (...args: string[]) => {
  try {
    plain(...args);
  } catch {
    // A program that was run often makes git fail afterwards.
  }
};

function makeProgram(path: string): string {
  writeFileSync(path, `#!/bin/sh\ntouch '${mark}'\nexit 1\n`);
  chmodSync(path, 0o755);
  return path;
}

repositoryForEach();
beforeEach(() => {
  mark = join(world.outside, 'mark');
  program = makeProgram(join(world.outside, 'evil'));
});

const change = () => appendFileSync(at('a.txt'), `more ${Math.random()}\n`);

type Attack = {
  plant(): void;
  /** Runs a person's git command, which runs the program without the guard. */
  control(): void;
  calls: [string, object?][];
  /** Set when the tools refuse the repository rather than disarm it. */
  refused?: RegExp;
};

const drivers = (line: string) => {
  writeFileSync(at('.gitattributes'), `* ${line}\n`);
  change();
};
const everyRead: [string, object?][] = [
  ['git.status'],
  ['git.diff'],
  ['git.log'],
  ['git.show'],
  ['git.branch', { action: 'list' }],
  ['git.worktree', { action: 'list' }],
];

const hook = (name: string) => makeProgram(at(`.git/hooks/${name}`));

const attacks: Record<string, Attack> = {
  'core.fsmonitor': {
    plant: () => void config('core.fsmonitor', program),
    control: () => careless('status'),
    calls: everyRead,
  },
  'settings behind a link that files are not read through': {
    plant() {
      config('filter.x.clean', program);
      drivers('filter=x');
      renameSync(at('.git/config'), at('settings'));
      symlinkSync(at('settings'), at('.git/config'));
    },
    control: () => careless('diff'),
    calls: everyRead,
    refused: /leads out of its root/,
  },
  'a clean filter': {
    plant() {
      config('filter.x.clean', program);
      config('filter.x.required', 'true');
      drivers('filter=x');
    },
    control: () => careless('diff'),
    calls: [...everyRead, ['git.commit', { message: 'm', all: true }]],
  },
  'a clean filter whose name is strange, from info/attributes': {
    plant() {
      appendFileSync(at('.git/config'), `[FILTER "a.B=c d"]\n\tCLEAN = ${program}\n`);
      mkdirSync(at('.git/info'), { recursive: true });
      writeFileSync(at('.git/info/attributes'), '* filter=a.B=c\n');
      appendFileSync(at('.git/config'), `[Filter "a.B=c"]\n\tclean = ${program}\n`);
      change();
    },
    control: () => careless('diff'),
    calls: [...everyRead, ['git.commit', { message: 'm', all: true }]],
  },
  'a filter process': {
    plant() {
      config('filter.x.process', program);
      drivers('filter=x');
    },
    control: () => careless('diff'),
    calls: [...everyRead, ['git.commit', { message: 'm', paths: ['a.txt'] }]],
  },
  'a smudge filter': {
    plant() {
      writeFileSync(at('.gitattributes'), '* filter=x\n');
      plain('add', '.');
      plain('commit', '--quiet', '-m', 'attributes');
      config('filter.x.smudge', program);
    },
    control: () => careless('worktree', 'add', '-q', '-b', 'c', join(world.outside, 'wt')),
    calls: [
      ['git.worktree', { action: 'add', path: 'wt', branch: 'b' }],
      ['git.branch', { action: 'create', name: 'n', start: 'HEAD~1' }],
      ['git.branch', { action: 'switch', name: 'main' }],
    ],
  },
  textconv: {
    plant() {
      config('diff.x.textconv', program);
      drivers('diff=x');
    },
    control: () => careless('diff'),
    calls: everyRead,
  },
  'diff.external': {
    plant() {
      config('diff.external', program);
      change();
    },
    control: () => careless('diff'),
    calls: everyRead,
  },
  'a diff driver with a command': {
    plant() {
      config('diff.x.command', program);
      drivers('diff=x');
    },
    control: () => careless('diff'),
    calls: everyRead,
  },
  ...Object.fromEntries(
    ['pre-commit', 'commit-msg', 'prepare-commit-msg', 'post-commit', 'post-index-change'].map(
      (name): [string, Attack] => [
        `the hook ${name}`,
        {
          plant() {
            hook(name);
            change();
          },
          control: () => careless('commit', '-q', '-a', '-m', 'c'),
          calls: [['git.commit', { message: 'm', all: true }]],
        },
      ],
    ),
  ),
  'hooks for checking out and for references': {
    plant() {
      hook('post-checkout');
      hook('reference-transaction');
    },
    control: () => careless('checkout', '-q', '-b', 'c'),
    calls: [
      ['git.branch', { action: 'create', name: 'n' }],
      ['git.worktree', { action: 'add', path: 'wt', branch: 'b' }],
    ],
  },
  'core.hooksPath in the workspace': {
    plant() {
      mkdirSync(at('husky'));
      makeProgram(at('husky/pre-commit'));
      config('core.hooksPath', 'husky');
    },
    control() {
      change();
      careless('commit', '-q', '-a', '-m', 'c');
    },
    calls: [['git.commit', { message: 'm', all: true }]],
  },
  'signing with a program': {
    plant() {
      config('commit.gpgSign', 'true');
      config('gpg.program', program);
      change();
    },
    control: () => careless('commit', '-q', '-a', '-m', 'c'),
    calls: [['git.commit', { message: 'm', all: true }]],
  },
  'checking signatures with a program': {
    plant() {
      const [tree, parent] = [plain('rev-parse', 'HEAD^{tree}'), plain('rev-parse', 'HEAD')];
      const who = 'p <p@x> 1700000000 +0000';
      const signature = 'gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----';
      const lines = [`tree ${tree.trim()}`, `parent ${parent.trim()}`, `author ${who}`];
      const text = [...lines, `committer ${who}`, signature, '', 'signed', ''].join('\n');
      const made = execFileSync('git', ['hash-object', '-t', 'commit', '-w', '--stdin'], {
        cwd: world.workspace,
        env: GIT_ENV,
        input: text,
        encoding: 'utf8',
      });
      plain('update-ref', 'refs/heads/main', made.trim());
      config('log.showSignature', 'true');
      config('gpg.program', program);
    },
    control: () => careless('log'),
    calls: [['git.log'], ['git.show']],
  },
  'core.editor': {
    plant() {
      config('core.editor', program);
      change();
    },
    control: () => careless('commit', '-q', '-a'),
    calls: [['git.commit', { message: 'm', all: true }]],
  },
  'settings of a worktree': {
    plant() {
      config('extensions.worktreeConfig', 'true');
      writeFileSync(at('.git/config.worktree'), `[core]\n\tfsmonitor = ${program}\n`);
    },
    control: () => careless('status'),
    calls: everyRead,
  },
  'an included file': {
    plant() {
      writeFileSync(at('more.cfg'), `[core]\n\tfsmonitor = ${program}\n`);
      config('include.path', '../more.cfg');
    },
    control: () => careless('status'),
    calls: everyRead,
    refused: /includes another file/,
  },
  'fetching what is missing, through a protocol that is a program': {
    plant() {
      const blob = plain('rev-parse', 'HEAD:a.txt').trim();
      rmSync(at(`.git/objects/${blob.slice(0, 2)}/${blob.slice(2)}`));
      config('core.repositoryFormatVersion', '1');
      config('extensions.partialClone', 'origin');
      config('remote.origin.url', `ext::${program}`);
      config('remote.origin.promisor', 'true');
      config('protocol.ext.allow', 'always');
    },
    control: () => careless('show', 'HEAD:a.txt'),
    calls: [['git.show', { path: 'a.txt' }]],
    refused: /git cat-file failed/,
  },
  'a program of a submodule': {
    plant() {
      makeRepository(at('inner'));
      gitIn(at('inner'), 'config', 'filter.x.clean', program);
      writeFileSync(at('inner/.gitattributes'), '* filter=x\n');
      plain('add', 'inner');
      plain('commit', '-q', '-m', 'inner');
      writeFileSync(
        at('.gitmodules'),
        '[submodule "i"]\n\tpath = inner\n\turl = .\n\tignore = none\n',
      );
      writeFileSync(at('inner/a.txt'), 'two\n');
    },
    control: () => careless('status'),
    calls: [['git.status'], ['git.diff'], ['git.show'], ['git.diff', { from: 'HEAD' }]],
  },
};

describe('a repository that would make git run a program does not', () => {
  for (const [name, { plant, control, calls, refused }] of Object.entries(attacks)) {
    it(name, async () => {
      plant();
      for (const [call, input] of calls) {
        const doing = ask(call, input);
        if (refused === undefined) await doing;
        else await assert.rejects(doing, refused);
        assert.equal(existsSync(mark), false, `${call} ran the program`);
        if (call === 'git.commit') change();
      }
      control();
      assert.equal(existsSync(mark), true, 'the control did not run the program');
    });
  }

  const submodules: [string, () => void, RegExp][] = [
    ['a checked-out submodule', () => {}, /submodule/],
    [
      'a repository whose .git is behind a link',
      () => {
        renameSync(at('inner/.git'), at('inner-git'));
        symlinkSync(at('inner-git'), at('inner/.git'));
      },
      /leads out of its root/,
    ],
  ];
  for (const [name, hide, why] of submodules)
    it(`committing over ${name} is refused`, async () => {
      attacks['a program of a submodule']!.plant();
      hide();
      await assert.rejects(ask('git.commit', { message: 'm', all: true }), why);
      assert.equal(existsSync(mark), false);
      careless('add', '--all');
      assert.equal(existsSync(mark), true, 'the control did not run the program');
    });
});
