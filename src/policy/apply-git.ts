// Classifies changes to git's own files, which git reads as settings, runs, or follows. Pure: what
// else is in the tree comes from the caller.
import { foldPath } from './apply-names.ts';

export type ApplyFileType = 'file' | 'directory' | 'link' | 'other';
/** The state of a path after the apply. */
export type ApplyEntry = { type: ApplyFileType; link_target: string | null };
/** Undefined: the caller does not know it, which counts against the change. */
export type ApplyLookup = (path: string) => ApplyEntry | null | undefined;

export type GitKind =
  | 'git_config'
  | 'git_hooks'
  | 'git_attributes'
  | 'git_modules'
  | 'git_files'
  | 'nested_repository'
  | 'gitlink'
  | 'bare_repository';

/** With the settings, what leads git to the settings of another directory. */
const SETTINGS = new Set(['config', 'config.worktree', 'commondir']);

/** Kinds of a path at or below a `.git`; `isNew`: the `.git` itself was not there before. */
export function findDotGitKind(
  path: string,
  change: { type: ApplyFileType | null; isNew: boolean },
): GitKind | undefined {
  const names = foldPath(path).split('/');
  const at = names.indexOf('.git');
  if (at < 0) return undefined;
  const inside = names.slice(at + 1);
  if (inside.length === 0) {
    if (change.type === 'file' || change.type === 'link') return 'gitlink';
    return change.isNew && change.type === 'directory' ? 'nested_repository' : 'git_files';
  }
  // A submodule and a linked worktree have a repository of their own in there.
  if (inside[0] === 'modules') return 'git_modules';
  // A branch may have any of these names, but not in these places.
  const own = inside[0] === 'worktrees' ? inside.slice(2) : inside;
  if (own.length === 1 && SETTINGS.has(own[0]!)) return 'git_config';
  if (own[0] === 'hooks') return 'git_hooks';
  return own.join('/') === 'info/attributes' ? 'git_attributes' : 'git_files';
}

const MARKERS = ['HEAD', 'objects', 'refs', 'commondir'] as const;
/** Names that make a directory a repository, or that matter once it is one. */
const TELLING = new Set(['head', 'objects', 'refs', 'commondir', 'config', 'config.worktree']);

/** The directories that a change could make a bare repository, or in which it would matter. */
function findBareCandidates(path: string): string[] {
  const names = path.split('/');
  const folded = foldPath(path).split('/');
  if (folded.includes('.git') || folded.length !== names.length) return [];
  return names.flatMap((_, at) => {
    const isHere = at === names.length - 1 && TELLING.has(folded[at]!);
    return isHere || folded[at] === 'hooks' ? [names.slice(0, at).join('/')] : [];
  });
}

const within = (dir: string, name: string): string => (dir === '' ? name : `${dir}/${name}`);

/** Git takes a directory with HEAD, objects and refs for a repository, wherever it is. */
export function isInBareRepository(path: string, lookup: ApplyLookup): boolean {
  return findBareCandidates(path).some((dir) => {
    const [head, objects, refs, commondir] = MARKERS.map((name) => lookup(within(dir, name)));
    return head !== null && (commondir !== null || (objects !== null && refs !== null));
  });
}

/** The paths that `isInBareRepository` looks up for a change. */
export const listBareLookups = (path: string): string[] =>
  findBareCandidates(path).flatMap((dir) => MARKERS.map((name) => within(dir, name)));

const LINKS_MAX = 40;

/** True if `..` follows a name: where that leads changes when the name becomes a link later. */
function goesUpAgain(target: string): boolean {
  const names = target.split('/').filter((name) => name !== '' && name !== '.');
  const isBelow = names.findIndex((name) => name !== '..');
  return isBelow >= 0 && names.lastIndexOf('..') > isBelow;
}

/**
 * True if a link leads out of the tree, or into a `.git`, or could after another apply: resolved
 * component by component, because `..` behind another link is that link's parent.
 */
export function leavesTree(path: string, target: string, lookup: ApplyLookup): boolean {
  let at = path.split('/').slice(0, -1);
  const rest = target.split('/');
  if (target.startsWith('/') || goesUpAgain(target)) return true;
  let [links, isKnown] = [0, true];
  while (rest.length > 0) {
    const name = rest.shift()!;
    if (name === '' || name === '.') continue;
    if (name === '..') {
      if (at.length === 0 || !isKnown) return true;
      at = at.slice(0, -1);
      continue;
    }
    at = [...at, name];
    const found = lookup(at.join('/'));
    isKnown = isKnown && found !== undefined;
    if (found?.type !== 'link') continue;
    const next = found.link_target ?? '/';
    if (next.startsWith('/') || ++links > LINKS_MAX) return true;
    rest.unshift(...next.split('/'));
    at = at.slice(0, -1);
  }
  return foldPath(at.join('/')).split('/').includes('.git');
}

/** The paths that a link goes through as it is written; links among them lead to more. */
export function listLinkLookups(path: string, target: string): string[] {
  if (target.startsWith('/')) return [];
  const found: string[] = [];
  let at = path.split('/').slice(0, -1);
  for (const name of target.split('/')) {
    if (name === '' || name === '.') continue;
    at = name === '..' ? at.slice(0, -1) : [...at, name];
    if (name !== '..') found.push(at.join('/'));
  }
  return found;
}
