// Decides which of a repository's settings git may follow. Repositories are untrusted, and many
// settings name a program to run, so every setting not known to be harmless is emptied, and the
// repository is refused where that is not possible. Pure.

import { SAFE_GIT_SETTINGS, type SafeGitSetting } from '../../../../policy/safe-git.ts';

/** Harmless settings that change what a repository means. Sections and names are in lower case. */
const KEPT: readonly RegExp[] = [
  /^core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|symlinks)$/,
  /^core\.(precomposeunicode|autocrlf|eol|safecrlf|abbrev|commentchar|sharedrepository)$/,
  /^core\.(compression|loosecompression|bigfilethreshold|trustctime|checkstat|preloadindex)$/,
  /^core\.(untrackedcache|commitgraph|multipackindex|sparsecheckout(cone)?|whitespace)$/,
  // Read before any other setting, and never a program.
  /^extensions\./,
  /^(user|author|committer)\.(name|email)$/,
  /^branch\..+\.(remote|merge|rebase|pushremote|description)$/,
  /^remote\..+\.(url|pushurl|fetch|push|tagopt|prune)$/,
  /^submodule\..+\.(url|active|branch|ignore|path)$/,
  /^(init\.defaultbranch|push\.default|pull\.rebase|pull\.ff|merge\.conflictstyle)$/,
  /^diff\.(renames|renamelimit|algorithm|context|interhunkcontext|noprefix|mnemonicprefix)$/,
  /^diff\.(indentheuristic|colormoved|statgraphwidth)$/,
  /^diff\..+\.(xfuncname|funcname|binary|wordregex|algorithm)$/,
  /^(i18n|index|pack|gc|feature)\./,
  /^(log\.date|status\.showuntrackedfiles|status\.renames)$/,
];

export type ConfigCheck = { settings: SafeGitSetting[] } | { refused: string };

const SETTINGS_MAX = 180;

/** From the output of `git config --list -z`: key, line end, value, NUL. */
export function parseSettings(output: string): SafeGitSetting[] {
  return output
    .split('\0')
    .filter((part) => part !== '')
    .map((part) => {
      const at = part.indexOf('\n');
      return at < 0 ? [part, ''] : [part.slice(0, at), part.slice(at + 1)];
    });
}

/** Returns the settings that override the repository's own, or why it is refused. */
export function overrideSettings(own: readonly SafeGitSetting[]): ConfigCheck {
  const always = new Set(SAFE_GIT_SETTINGS.map(([key]) => key));
  const off = new Set<string>();
  for (const [key, value] of own) {
    const folded = foldKey(key);
    if (/^include(if)?\./.test(folded)) return { refused: `it includes another file (${key})` };
    if (folded === 'core.bare' && /^(true|yes|on|1)?$/i.test(value))
      return { refused: 'it is a bare repository, without files to work on' };
    // GIT_WORK_TREE takes precedence over core.worktree.
    if (folded === 'core.worktree' || always.has(folded)) continue;
    if (!KEPT.some((pattern) => pattern.test(folded))) off.add(key);
  }
  if (off.size > SETTINGS_MAX - SAFE_GIT_SETTINGS.length)
    return { refused: `it has ${off.size} settings that would have to be switched off` };
  return { settings: [...SAFE_GIT_SETTINGS, ...[...off].map((key): SafeGitSetting => [key, ''])] };
}

/** Lowercases section and name; the subsection between them is case-sensitive. */
function foldKey(key: string): string {
  const [first, last] = [key.indexOf('.'), key.lastIndexOf('.')];
  return key.slice(0, first).toLowerCase() + key.slice(first, last) + key.slice(last).toLowerCase();
}
