// Tests the kinds of changes that an apply refuses: the attacks through files that run later, names
// in disguise, links and repositories, and look-alikes that apply.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
  APPLY_KINDS,
  type ApplyChange,
  type ApplyContext,
  type ApplySide,
  findRefusedKinds,
  findReviewKinds,
  listLookups,
  makeApplyLookup,
  needsText,
} from './apply-kinds.ts';

const file = (mode = 0o644): ApplySide => ({ type: 'file', mode, link_target: null });
const dir: ApplySide = { type: 'directory', mode: 0o755, link_target: null };
const link = (link_target: string): ApplySide => ({ type: 'link', mode: 0o777, link_target });
const change = (path: string, more: Partial<ApplyChange> = {}): ApplyChange => ({
  path,
  before: null,
  after: file(),
  has_capabilities: false,
  ...more,
});
const context = (more: Partial<ApplyContext> = {}): ApplyContext => ({
  lookup: () => null,
  texts: () => ({ before: null, after: '' }),
  ...more,
});
/** Names separated by a bar. */
const list = (...lines: string[]): string[] => lines.flatMap((line) => line.split(' | '));
const kindsOf = (path: string, more: Partial<ApplyChange> = {}): string[] =>
  findRefusedKinds(change(path, more), context());

describe('the attacks through files that run later', () => {
  const rows: Record<string, string[]> = {
    git_config: [
      '.gitconfig',
      '.config/git/config',
      '.git/config',
      '.git/config.worktree',
      '.git/worktrees/w/config.worktree',
    ],
    git_hooks: ['.git/hooks', '.git/hooks/pre-commit', 'sub/.git/hooks/post-checkout'],
    git_attributes: ['.git/info/attributes'],
    git_modules: ['.git/modules/lib/config', '.git/modules/lib/hooks/x', '.gitmodules'],
    git_files: ['.git/HEAD', '.git/index', '.git/objects/aa/bb', '.git/refs/heads/hooks/config'],
    gitlink: ['.git', 'sub/.git'],
    envrc: ['.envrc', 'a/b/.envrc', '.envrc.local', 'flake.nix', 'shell.nix'],
    other_vcs: ['.hg/hgrc', '.jj/repo/config.toml', 'sub/.hg', '.hgrc'],
    repl: ['.Rprofile', '.irbrc', '.pryrc', '.pdbrc', '.ghci', '.gdbinit', '.octaverc'],
    package_scripts: ['binding.gyp', 'package.yaml', 'a/package.json5'],
    editor_tasks: list(
      '.vscode/tasks.json | .vscode/settings.json | .vscode/launch.json | .idea/x.xml',
      'a.code-workspace | .vs/x | .nvim.lua | .exrc | .vimrc | .lvimrc | .dir-locals.el',
      '.zed/tasks.json | .devcontainer/devcontainer.json | sub/.devcontainer.json',
    ),
    agent_settings: list(
      '.mcp.json | .claude/settings.json | .claude/hooks/x | .cursor/mcp.json',
      '.codex/config.toml | .gemini/settings.json | sub/.claude/settings.local.json',
    ),
    python_env: list(
      '.venv/bin/python | env/bin/activate | env/pyvenv.cfg | sitecustomize.py',
      'lib/python3/site-packages/x.pth | e/Scripts/Activate.ps1',
    ),
    shims: [
      '.tool-versions',
      'mise.toml',
      '.mise.toml',
      '.mise/tasks/x',
      '.config/mise/config.toml',
    ],
    hook_manager: list(
      '.husky/pre-commit | .pre-commit-config.yaml | lefthook.yml | .githooks/x | git-hooks/x',
      '.lintstagedrc.json | .huskyrc | lint-staged.config.mjs | commitlint.config.js',
    ),
    shell_rc: ['.bashrc', '.zshenv', '.profile', 'home/.bash_profile', '.ssh/authorized_keys'],
    package_manager: list(
      '.npmrc | .yarnrc.yml | .cargo/config.toml | .yarn/releases/yarn.cjs | bunfig.toml',
      '.bundle/config | .mvn/extensions.xml | tools/bazel | gradle/wrapper/gradle-wrapper.jar',
    ),
    bytecode: ['a/__pycache__/m.cpython-313.pyc', 'm.pyc'],
  };
  for (const [kind, paths] of Object.entries(rows))
    for (const path of paths)
      it(`${path} is ${kind}`, () => {
        assert.deepEqual(kindsOf(path), [kind]);
        assert.deepEqual(kindsOf(path, { before: file() }), [kind]);
        assert.ok(APPLY_KINDS.has(kind));
      });

  it('a new repository below is refused as a whole, a deleted one is left out', () => {
    assert.deepEqual(kindsOf('sub/.git', { after: dir }), ['nested_repository']);
    assert.deepEqual(kindsOf('sub/.git', { before: dir, after: null }), ['git_files']);
    assert.equal(APPLY_KINDS.get('git_files')!.handling, 'never');
  });

  it('what only existed before, or changes nothing for who uses the directory, is not refused', () => {
    for (const path of ['.envrc', '.vscode/tasks.json', '.mcp.json', 'package.json'])
      assert.deepEqual(kindsOf(path, { before: file(), after: null }), []);
    assert.deepEqual(kindsOf('.git/hooks/x', { before: file(), after: null }), ['git_hooks']);
  });
});

describe('look-alikes', () => {
  const paths = list(
    'docs/git_hooks.md | src/.gitkeep | .gitignore | git | git~2 | .github/x.md',
    'hooks/pre-commit | config | src/objects/a | refs | lib/HEAD | Makefile | a.git/x',
    'vscode/tasks.json | .vscodeignore | envrc | x.envrc | my.mcp.json.md | claude/x',
    'checkpoints/model.pth | src/activate.ts | bin/activated | prettierrc | profile',
    'tests/fixtures/naïve.txt | 日本語.md | family-👩‍👩‍👧.txt | a b.txt | ends. | CON',
    'node_modules/x/index.js | src/mise/toml.ts | husky/x | AGENTS.md | .github/workflows/ci.yml',
  );
  for (const path of paths) it(`${path} applies`, () => assert.deepEqual(kindsOf(path), []));

  it('that run elsewhere or steer others are marked for review', () => {
    assert.deepEqual(findReviewKinds(change('.github/workflows/ci.yml')), ['ci']);
    assert.deepEqual(findReviewKinds(change('sub/AGENTS.md')), ['agent_instructions']);
    assert.deepEqual(findReviewKinds(change('.env.local')), ['dotenv']);
    assert.deepEqual(findReviewKinds(change('src/env.ts')), []);
  });
});

describe('a name', () => {
  const disguises = list(
    '.GIT/config | .Git/hooks/x | git~1/config | GIT~1/hooks/x | .git /config | .git./x',
    '.git . ./x | .g\u200cit/config | .gi\ufefft/hooks | .git::$INDEX_ALLOCATION/x | a\\.git\\x',
    '.ｇit/config',
  );
  for (const path of disguises)
    it(`${JSON.stringify(path)} is .git in disguise`, () => {
      const kinds = kindsOf(path);
      assert.ok(kinds.includes('name') && kinds.length > 1, String(kinds));
    });

  it('that is not UTF-8, or that hides what it is, is refused', () => {
    for (const path of [
      'a\udcff',
      'a\ufffd',
      'a\nb',
      'a\u001b[2Jb',
      'a\u202etxt.exe',
      'a\u0085',
      'a\u200b.sh',
      'a\u061c',
    ])
      assert.deepEqual(kindsOf(path), ['name'], JSON.stringify(path));
  });

  it('in other case is found where a file system ignores case', () => {
    assert.deepEqual(kindsOf('.VSCode/Tasks.json'), ['editor_tasks']);
    assert.deepEqual(kindsOf('.EnvRC'), ['envrc']);
  });
});

describe('rights and types', () => {
  it('that others would get are refused', () => {
    assert.deepEqual(kindsOf('tool', { after: file(0o4755) }), ['setuid']);
    assert.deepEqual(kindsOf('tool', { after: file(0o2755) }), ['setuid']);
    assert.deepEqual(kindsOf('tool', { after: file(0o755) }), []);
    assert.deepEqual(kindsOf('d', { after: { ...dir, mode: 0o2775 } }), []);
    assert.deepEqual(kindsOf('tool', { has_capabilities: true }), ['capabilities']);
  });
  it('devices are refused, also to remove one', () => {
    const pipe: ApplySide = { type: 'other', mode: 0o644, link_target: null };
    assert.deepEqual(kindsOf('pipe', { after: pipe }), ['device']);
    assert.deepEqual(kindsOf('pipe', { before: pipe, after: null }), ['device']);
  });
});

describe('a link', () => {
  const entries = new Map<string, ApplySide | null>([
    ['in', dir],
    ['in/deep', dir],
    ['up', link('in/deep')],
    ['out', link('/etc')],
    ['loop', link('loop')],
    ['.git', dir],
  ]);
  const isOut = (path: string, target: string): boolean =>
    findRefusedKinds(change(path, { after: link(target) }), {
      ...context(),
      lookup: (at) => (entries.has(at) ? entries.get(at)! : undefined),
    }).includes('link_out');

  it('that stays in the tree applies', () => {
    for (const [path, target] of [
      ['a', 'in'],
      ['in/a', '../in/deep'],
      ['in/deep/a', '../../x'],
      ['a', './in/./deep/x'],
      ['in/deep/a', './.././/../x'],
      ['a', 'in/..x/x..'],
      ['a', 'does/not/exist'],
    ] as const)
      assert.ok(!isOut(path, target), `${path} -> ${target}`);
  });

  it('in place of a directory that is refused by its path is refused as its files are', () => {
    const kindOf = (path: string) => kindsOf(path, { after: link('other') });
    assert.deepEqual(kindsOf('other/config.toml'), [], 'no glob matches what it leads to');
    assert.deepEqual(kindOf('.cargo'), ['package_manager']);
    assert.deepEqual(kindOf('env/bin'), ['python_env']);
    assert.deepEqual(kindOf('.yarn'), ['package_manager']);
    assert.ok(kindOf('.config').includes('shims'));
    assert.deepEqual(kindOf('.vscode'), ['editor_tasks']);
    for (const path of ['cargo', 'src', 'a/lib']) assert.deepEqual(kindOf(path), [], path);
  });

  it('that leaves it, or that enters .git, is refused', () => {
    for (const [path, target] of [
      ['a', '/etc/passwd'],
      ['a', '..'],
      ['a', '../x'],
      ['in/a', '../../x'],
      ['a', 'in/../../x'],
      // By its text it stays inside; through the link it does not.
      ['a', 'up/../../../x'],
      ['a', 'out/passwd'],
      ['a', 'loop/x'],
      ['a', 'unknown/../x'],
      // Inside now; outside once another apply has put a link in the place of `in/deep`.
      ['a', 'in/deep/../../x'],
      ['a', 'in/..'],
      ['a', 'up/../x'],
      ['a', '.git/hooks'],
      ['in/a', '../.GIT/config'],
    ] as const)
      assert.ok(isOut(path, target), `${path} -> ${target}`);
    assert.ok(isOut('a', ''.padEnd(3, '../')));
  });
});

describe('a bare repository', () => {
  const bare = (changes: ApplyChange[], found: Record<string, ApplySide | null> = {}): string[] => {
    const lookup = makeApplyLookup(changes, new Map(Object.entries(found)));
    return changes
      .filter((one) => findRefusedKinds(one, context({ lookup })).length > 0)
      .map(({ path }) => path);
  };
  const nothing = (...paths: string[]) => Object.fromEntries(paths.map((path) => [path, null]));

  it('is found wherever its parts come together', () => {
    const made = [
      change('fix', { after: dir }),
      change('fix/HEAD'),
      change('fix/config'),
      change('fix/hooks/post-checkout'),
      change('fix/objects', { after: dir }),
      change('fix/refs', { after: dir }),
    ];
    const found = nothing('fix/commondir', 'HEAD', 'objects', 'refs', 'commondir');
    assert.deepEqual(
      bare(made, found),
      made.slice(1).map(({ path }) => path),
    );
    // Two parts were there before.
    const rest = [change('fix/HEAD')];
    assert.deepEqual(listLookups(rest[0]!), [
      'fix/HEAD',
      'fix/objects',
      'fix/refs',
      'fix/commondir',
    ]);
    const there = { 'fix/objects': dir, 'fix/refs': dir, 'fix/commondir': null };
    assert.deepEqual(bare(rest, there), ['fix/HEAD']);
    assert.deepEqual(bare(rest, { ...there, 'fix/refs': null }), []);
    assert.deepEqual(bare([change('HEAD')], { objects: dir, refs: dir, commondir: null }), [
      'HEAD',
    ]);
  });

  it('with its objects elsewhere is found, too', () => {
    const made = [change('fix/HEAD'), change('fix/commondir')];
    assert.equal(bare(made, nothing('fix/objects', 'fix/refs')).length, 2);
  });

  it('is assumed where the rest is not known', () => {
    assert.deepEqual(bare([change('fix/HEAD')]), ['fix/HEAD']);
  });
});

describe('kinds that depend on a text', () => {
  const withTexts = (path: string, before: string | null, after: string): string[] =>
    findRefusedKinds(change(path), context({ texts: () => ({ before, after }) }));
  const scripts = (of: object): string => JSON.stringify({ name: 'x', scripts: of });

  it('are named before they are asked for', () => {
    for (const path of ['package.json', 'a/package.json', '.gitattributes'])
      assert.ok(needsText(change(path)), path);
    for (const path of ['node_modules/a/package.json', 'package.json.md', 'a.gitattributes'])
      assert.ok(!needsText(change(path)), path);
  });

  it('package.json: scripts that an install runs', () => {
    for (const name of ['preinstall', 'install', 'postinstall', 'prepare', 'dependencies']) {
      const after = scripts({ [name]: 'evil', test: 'x' });
      assert.deepEqual(withTexts('package.json', null, after), ['package_scripts']);
      assert.deepEqual(withTexts('package.json', scripts({}), after), ['package_scripts']);
      assert.deepEqual(withTexts('package.json', after, after), []);
    }
    assert.deepEqual(withTexts('package.json', scripts({}), scripts({ test: 'x' })), []);
    assert.deepEqual(withTexts('package.json', '{', scripts({ test: 'x' })), []);
    assert.deepEqual(withTexts('package.json', scripts({}), '{ "scripts": {'), ['package_scripts']);
    assert.deepEqual(withTexts('package.json', null, '{"scripts": null}'), ['package_scripts']);
    const staged = JSON.stringify({ 'lint-staged': { '*': 'evil' } });
    assert.deepEqual(withTexts('package.json', scripts({}), staged), ['package_scripts']);
    assert.deepEqual(withTexts('package.json', staged, staged), []);
  });

  it('.gitattributes: a program that is newly named', () => {
    const lfs = '*.bin filter=lfs diff=lfs merge=lfs -text\n';
    assert.deepEqual(withTexts('.gitattributes', null, lfs), ['git_attributes']);
    assert.deepEqual(withTexts('.gitattributes', lfs, `${lfs}*.iso filter=lfs\n`), []);
    assert.deepEqual(withTexts('.gitattributes', lfs, '*.x diff=evil\r\n'), ['git_attributes']);
    const plain = '# filter=x\n*.ts text eol=lf diff=python\n*.lock merge=union -diff\n';
    assert.deepEqual(withTexts('.gitattributes', null, plain), []);
    assert.deepEqual(withTexts('a/.gitattributes', null, '[attr]m filter=evil'), [
      'git_attributes',
    ]);
  });

  it('are refused if the text is not known, or is behind a link', () => {
    const unknown = context({ texts: () => undefined });
    assert.deepEqual(findRefusedKinds(change('package.json'), unknown), ['package_scripts']);
    assert.deepEqual(findRefusedKinds(change('.gitattributes'), unknown), ['git_attributes']);
    assert.deepEqual(kindsOf('package.json', { after: link('other') }), ['package_scripts']);
  });
});

describe('a kind of the site', () => {
  const site = [{ kind: 'deploy', globs: ['deploy/**', '*.TF', '/only-here'] }];
  const kinds = (path: string) => findRefusedKinds(change(path), context({ site }));
  it('is refused by its globs', () => {
    for (const path of ['deploy/a/b', 'x/y.tf', 'only-here', 'Deploy/x'])
      assert.deepEqual(kinds(path), ['deploy'], path);
    for (const path of ['deploys/a', 'x/deploy/a', 'tf', 'x/only-here'])
      assert.deepEqual(kinds(path), [], path);
  });
});

describe('any path', () => {
  const name = fc.stringMatching(/^[a-z0-9_-]{1,8}$/);
  const path = fc.array(name, { minLength: 1, maxLength: 5 }).map((names) => names.join('/'));

  it('below a .git, at any depth and in any case, is refused', () => {
    const spelled = fc.mixedCase(fc.constant('.git'));
    fc.assert(
      fc.property(fc.option(path), spelled, fc.option(path), (above, git, inside) => {
        const whole = [above, git, inside].filter((part) => part !== null).join('/');
        assert.notDeepEqual(kindsOf(whole), []);
      }),
    );
  });

  it('never makes the decision fail, and only adds known kinds', () => {
    const any = fc.array(fc.string({ unit: 'binary', minLength: 1 }), {
      minLength: 1,
      maxLength: 6,
    });
    const target = fc.oneof(fc.string({ unit: 'binary' }), path);
    fc.assert(
      fc.property(any, target, (names, to) => {
        for (const after of [file(), dir, link(to)])
          for (const kind of kindsOf(names.join('/'), { after })) assert.ok(APPLY_KINDS.has(kind));
      }),
      { numRuns: 2000 },
    );
  });

  it('of a link is refused if the link leads out by its text, or goes up behind a name', () => {
    const step = fc.oneof(name, fc.constant('..'), fc.constant('.'));
    fc.assert(
      fc.property(path, fc.array(step, { minLength: 1, maxLength: 6 }), (at, steps) => {
        let depth = at.split('/').length - 1;
        let [out, isBelow] = [false, false];
        for (const one of steps) {
          if (one !== '.') depth += one === '..' ? -1 : 1;
          out ||= isBelow && one === '..';
          isBelow ||= one !== '.' && one !== '..';
          out ||= depth < 0;
        }
        const kinds = kindsOf(at, { after: link(steps.join('/')) });
        assert.equal(kinds.includes('link_out'), out);
      }),
    );
  });
});
