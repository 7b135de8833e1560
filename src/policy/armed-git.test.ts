// Which files of repositories count as armed, and which settings are harmless.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  type ArmedKind,
  findArmedFiles,
  findRepositories,
  isHarmless,
  type ListedFile,
} from './armed-git.ts';

const file = (path: string, rest: Partial<ListedFile> = {}): ListedFile => ({
  path,
  type: 'file',
  mode: 0o644,
  sizeBytes: 10,
  ...rest,
});
const dir = (path: string) => file(path, { type: 'directory', mode: 0o755 });
const repository = (top: string): ListedFile[] => [
  file(`${top}/HEAD`),
  dir(`${top}/objects`),
  dir(`${top}/refs`),
];
const hook = (path: string) => file(path, { mode: 0o755 });
const list = (files: ListedFile[]): [string, ArmedKind][] =>
  findArmedFiles(files).map(({ file: { path }, kind }) => [path, kind]);

describe('armed files', () => {
  it('are hooks and settings of every directory that git takes for a repository', () => {
    const files = ['sub/.git', 'plain'].flatMap((top) => [
      ...repository(top),
      file(`${top}/config`),
      hook(`${top}/hooks/pre-commit`),
      file(`${top}/info/attributes`),
    ]);
    assert.deepEqual(
      list(files),
      ['sub/.git', 'plain'].flatMap((top) => [
        [`${top}/config`, 'git_config'],
        [`${top}/info/attributes`, 'git_attributes'],
        [`${top}/hooks/pre-commit`, 'git_hooks'],
      ]),
    );
    assert.deepEqual(list([file('HEAD'), file('config'), hook('hooks/pre-commit')]), []);
  });

  it('are links in place of them, and .git files', () => {
    const link = { type: 'link', mode: 0o777 } as const;
    const files = [
      ...repository('a.git'),
      file('a.git/hooks', link),
      file('a.git/config', link),
      file('sub/.git'),
      file('other/.GIT', link),
      file('hooks/pre-commit', link),
    ];
    assert.deepEqual(list(files), [
      ['a.git/config', 'git_config'],
      ['a.git/hooks', 'git_hooks'],
      ['sub/.git', 'gitlink'],
      ['other/.GIT', 'gitlink'],
    ]);
  });

  it('are not hooks that git does not run, or empty files', () => {
    const files = [
      ...repository('.git'),
      file('.git/hooks/pre-commit'),
      hook('.git/hooks/pre-commit.sample'),
      file('.git/config', { sizeBytes: 0 }),
    ];
    assert.deepEqual(list(files), []);
  });

  it('are settings of a worktree that leads elsewhere', () => {
    const worktree = [file('w/HEAD'), file('w/commondir')];
    assert.deepEqual(list(worktree), [['w/commondir', 'git_config']]);
    const files = [...worktree, ...repository('.git')];
    const armed = findArmedFiles(files).find(({ file: { path } }) => path === 'w/commondir')!;
    const found = findRepositories(files);
    assert.equal(isHarmless(armed, '../.git\n', found), true);
    for (const target of ['../../.git', '/tmp/x', '../other', '../.git\\\n'])
      assert.equal(isHarmless(armed, target, found), false, target);
  });
});

describe('settings', () => {
  const config = { file: file('.git/config'), kind: 'git_config' as const };
  const isPlain = (text: string) => isHarmless(config, text, new Set());
  it('are harmless as git init and git clone make them', () => {
    const text =
      '[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n' +
      '\tlogallrefupdates = true\n[user]\n\tname = A\n\temail = a@b.c\n' +
      '[remote "origin"]\n\turl = https://example.org/x\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n' +
      '[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n';
    assert.equal(isPlain(text), true);
  });
  for (const text of [
    '[core]\n\tfsmonitor = ./x\n',
    '[core] fsmonitor=./x',
    '[CORE]\nFSMonitor=x',
    '[core]\n\thooksPath = h\n',
    '[include]\n\tpath = ../x\n',
    '[includeIf "gitdir:/"]\n\tpath = ../x\n',
    '[alias]\n\tst = !sh x\n',
    '[filter "x"]\n\tclean = ./x\n',
    '[core]\n\tbare = false \\\n\tfsmonitor = x\n',
    '[core]\n\tworktree = ../..\n',
    '[extensions]\n\tworktreeConfig = true\n',
    '[remote "o"]\n\tuploadpack = ./x\n',
    '[submodule "x"]\n\tupdate = !./x\n',
    '[core]\rfsmonitor = x\n',
  ])
    it(`are not harmless with ${JSON.stringify(text)}`, () => assert.equal(isPlain(text), false));
});
