// Finds what git would run or follow in the repositories of a directory that agents change in
// place: hooks, settings, and what leads to those elsewhere. Pure: the caller lists the files.
import type { ApplyFileType } from './apply-git.ts';
import { HOOK_NAMES, parseGitSettings } from './apply-git-settings.ts';

export type ArmedKind = 'git_config' | 'git_hooks' | 'git_attributes' | 'gitlink';
export type ListedFile = { path: string; type: ApplyFileType; mode: number; sizeBytes: number };
export type ArmedFile<F extends ListedFile = ListedFile> = { file: F; kind: ArmedKind };

const SETTINGS = ['config', 'config.worktree'] as const;
const KINDS: ReadonlyMap<string, ArmedKind> = new Map([
  ...SETTINGS.map((name) => [name, 'git_config'] as const),
  ['commondir', 'git_config'],
  ['info', 'git_attributes'],
  ['info/attributes', 'git_attributes'],
  ['hooks', 'git_hooks'],
  ...HOOK_NAMES.map((name) => [`hooks/${name}`, 'git_hooks'] as const),
]);

/** Names that have to be listed, if they exist, in each directory that has a HEAD. */
export const LISTED_IN_REPOSITORIES: readonly string[] = [
  'HEAD',
  'objects',
  'refs',
  ...KINDS.keys(),
];

const parentOf = (path: string): string => path.slice(0, Math.max(path.lastIndexOf('/'), 0));
const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);
const within = (dir: string, name: string): string => (dir === '' ? name : `${dir}/${name}`);

/** The directories that git takes for a repository, whatever they are called. */
export function findRepositories(files: readonly ListedFile[]): Set<string> {
  const paths = new Set(files.map(({ path }) => path));
  const heads = files.filter(({ path }) => nameOf(path).toLowerCase() === 'head');
  const dirs = heads
    .map(({ path }) => parentOf(path))
    .filter((dir) => {
      const has = (name: string): boolean => paths.has(within(dir, name));
      return has('commondir') || (has('objects') && has('refs'));
    });
  return new Set(dirs);
}

/** A hook that cannot be executed is not run; git makes examples that have another name. */
const canRun = ({ type, mode }: ListedFile): boolean => type !== 'file' || (mode & 0o111) !== 0;

export function findArmedFiles<F extends ListedFile>(files: readonly F[]): ArmedFile<F>[] {
  const known = new Map(files.map((file) => [file.path, file]));
  const links = files.filter(
    ({ path, type }) => nameOf(path).toLowerCase() === '.git' && type !== 'directory',
  );
  const inside = [...findRepositories(files)].flatMap((dir) =>
    [...KINDS].flatMap(([name, kind]): ArmedFile<F>[] => {
      const file = known.get(within(dir, name));
      if (file === undefined || file.type === 'directory') return [];
      const isInert = file.type === 'file' && file.sizeBytes === 0;
      return isInert || (name.startsWith('hooks/') && !canRun(file)) ? [] : [{ file, kind }];
    }),
  );
  return [...inside, ...links.map((file): ArmedFile<F> => ({ file, kind: 'gitlink' }))];
}

/** Settings that name no program, no file and no other directory. */
const HARMLESS = new RegExp(
  `^(?:${[
    'core\\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase)',
    'core\\.(?:precomposeunicode|symlinks)|init\\.defaultbranch|pull\\.(?:rebase|ff)|push\\.default',
    'user\\.(?:name|email)|author\\..*|committer\\..*|advice\\..*|color\\..*',
    'branch\\..*\\.(?:remote|merge|rebase)|remote\\..*\\.(?:url|fetch)',
    'submodule\\..*\\.(?:url|active)|submodule\\.active',
  ].join('|')})$`,
  'su',
);
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f\\]/u;

const hasHarmlessSettings = (text: string): boolean =>
  // Without what continues a line or hides a part of it, there is one way to read the file.
  !CONTROL.test(text) && parseGitSettings(text).every(({ key }) => HARMLESS.test(key));

/** Resolves a path by its names alone; undefined: it leads out of the tree. */
function resolveNames(from: string, to: string): string | undefined {
  const found = from === '' ? [] : from.split('/');
  for (const name of to.split('/')) {
    if (name === '' || name === '.') continue;
    if (name !== '..') found.push(name);
    else if (found.pop() === undefined) return undefined;
  }
  return found.join('/');
}

/** True for files about which their text decides. */
export const needsArmedText = ({ file, kind }: ArmedFile): boolean =>
  file.type === 'file' && kind === 'git_config';

/** True if git runs and follows nothing because of it: plain settings, as `git init` makes them. */
export function isHarmless(
  { file, kind }: ArmedFile,
  text: string,
  repositories: ReadonlySet<string>,
): boolean {
  if (file.type !== 'file' || kind !== 'git_config') return false;
  if (nameOf(file.path) !== 'commondir') return hasHarmlessSettings(text);
  // A linked worktree of a repository in the tree, which is looked at itself.
  const target = text.trimEnd();
  if (target.startsWith('/') || CONTROL.test(target)) return false;
  const dir = resolveNames(parentOf(file.path), target);
  return dir !== undefined && repositories.has(dir);
}
