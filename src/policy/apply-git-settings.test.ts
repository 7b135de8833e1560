// Tests which paths of a tree the settings of its repository name: attacks that change what git
// runs from there, and look-alikes that stay free.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { findGitPlaces, findPlaceKinds, parseGitSettings } from './apply-git-settings.ts';
import { type ApplyContext, findRefusedKinds } from './apply-kinds.ts';

const TOP = { hostPath: '/home/ann/src/repo', top: '' };
const placesOf = (text: string, top = TOP) =>
  findGitPlaces(parseGitSettings(text), top.top === '' ? '.git' : `${top.top}/.git`, top).places;
const kindsOf = (text: string, path: string, type: 'file' | 'link' | 'directory' = 'file') => {
  const after = { type, mode: 0o755, link_target: type === 'link' ? 'x' : null };
  const context: ApplyContext = {
    lookup: () => null,
    texts: () => undefined,
    gitPlaces: placesOf(text),
  };
  return findRefusedKinds({ path, before: null, after, has_capabilities: false }, context);
};

describe('what settings of git name in the tree', () => {
  const rows: [setting: string, path: string, kind: string][] = [
    ['[core]\n\thooksPath = hooks\n', 'hooks/pre-commit', 'git_hooks'],
    ['[core] hookspath = ./hooks/ ; ours', 'hooks/lib/run.sh', 'git_hooks'],
    ['[CORE]\nHOOKSPATH = "tools/git\\\\hooks"\n', 'tools/git\\hooks/x', 'git_hooks'],
    ['[core]\nhooksPath = ho\\\noks\n', 'hooks/pre-push', 'git_hooks'],
    ['[core]\nhooksPath = /home/ann/src/repo/hooks', 'hooks/pre-commit', 'git_hooks'],
    ['[core]\nhooksPath = ~/src/repo/hooks', 'hooks/pre-commit', 'git_hooks'],
    ['[core]\nhooksPath = ../repo/hooks', 'hooks/pre-commit', 'git_hooks'],
    ['[core]\nhooksPath = cfg/husky/_', 'cfg/husky/pre-commit', 'git_hooks'],
    ['[core]\nhooksPath = hooks', 'HOOKS/pre-commit', 'git_hooks'],
    ['[core]\nhooksPath = .', 'pre-commit', 'git_hooks'],
    ['\ufeff[core]\r\nhooksPath = hooks\r\n', 'hooks/pre-commit', 'git_hooks'],
    ['[init]\ntemplateDir = tpl', 'tpl/hooks/post-checkout', 'git_hooks'],
    ['[include]\npath = ../team.inc', 'team.inc', 'git_config'],
    ['[includeIf "gitdir:~/src/"]\npath = ../etc/team.inc', 'etc/team.inc', 'git_config'],
    ['[core]\nfsmonitor = tools/watch', 'tools/watch', 'git_config'],
    ['[core]\nsshCommand = ssh -F cfg/ssh', 'cfg/ssh', 'git_config'],
    ['[filter "x"]\nclean = python3 tools/clean.py %f', 'tools/clean.py', 'git_config'],
    ['[filter "x"]\nsmudge = "\'tools/a b\' --x=y"', 'tools/a b', 'git_config'],
    ['[diff "x"]\ntextconv = ./conv', 'conv', 'git_config'],
    ['[merge "x"]\ndriver = sh tools/merge.sh %A %B', 'tools/merge.sh', 'git_config'],
    ['[alias]\nst = !tools/st && git status', 'tools/st', 'git_config'],
    ['[alias]\nst = "!$(git rev-parse --show-toplevel)/tools/st"', 'tools/st', 'git_config'],
    ['[credential "https://h"]\nhelper = !bin/cred', 'bin/cred', 'git_config'],
    ['[remote "o"]\nurl = ext::sh -c ./tools/x', 'tools/x', 'git_config'],
    ['[hook "lint"]\ncommand = tools/lint', 'tools/lint', 'git_config'],
    ['[bad line\n?\n[core]\neditor = tools/ed', 'tools/ed', 'git_config'],
  ];
  for (const [setting, path, kind] of rows)
    it(`${JSON.stringify(setting)} makes ${path} ${kind}`, () => {
      assert.deepEqual(kindsOf(setting, path), [kind]);
      assert.deepEqual(kindsOf('[core]\nbare = false\n', path), [], 'not without the setting');
    });

  it('a link in place of a directory above what is named is refused', () => {
    const text = '[core]\nhooksPath = util/hooks\nfsmonitor = prog/watch\n';
    assert.deepEqual(kindsOf(text, 'util', 'link'), ['git_hooks']);
    assert.deepEqual(kindsOf(text, 'prog', 'link'), ['git_config']);
    assert.deepEqual(kindsOf(text, 'util', 'directory'), []);
  });

  it('other files stay free', () => {
    const text =
      '[core]\nhooksPath = hooks\n# fsmonitor = a.sh\n[alias]\nst = !git log src\n' +
      '[branch "main"]\nmerge = refs/heads/main\n[user]\nname = notes\n[commit]\ntemplate = t.txt';
    for (const path of ['hooks.md', 'hooks2/x', 'src/a.c', 'a.sh', 'refs/heads/main', 'notes'])
      assert.deepEqual(kindsOf(text, path), [], path);
    assert.deepEqual(kindsOf(text, 't.txt'), []);
    assert.deepEqual(placesOf('[core]\nhooksPath = /usr/share/hooks\n'), []);
    assert.deepEqual(placesOf('[core]\nhooksPath = ../other/hooks\n'), []);
  });

  it('a repository below the top has its own', () => {
    const top = { ...TOP, top: 'lib' };
    const [place] = placesOf('[core]\nhooksPath = hooks', top);
    assert.equal(place!.path, 'lib/hooks');
    assert.deepEqual(findPlaceKinds('hooks/pre-commit', 'file', [place!]), []);
    const included = findGitPlaces(parseGitSettings('[include]\npath = ../x'), 'lib/.git', top);
    assert.deepEqual(included.included, ['lib/x']);
  });

  it('any text is read to its end', () => {
    const part = fc.constantFrom(
      '[',
      ']',
      '"',
      '\\',
      '\n',
      '#',
      ';',
      '=',
      'a',
      '.',
      ' ',
      '!',
      '$(',
    );
    fc.assert(
      fc.property(fc.array(part), (parts) => {
        placesOf(`[alias]\nx = ${parts.join('')}`);
        const rest = `${parts.join('').replaceAll(/["\\]/gu, '')}\n[core]\nhooksPath = hooks\n`;
        assert.ok(placesOf(rest).some(({ path }) => path === 'hooks'));
      }),
    );
  });
});
