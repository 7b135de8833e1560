// Reads what the settings of a person's repositories name in her directory, so that an apply
// refuses it: directories of hooks, included files, programs. Only her side is read, as text.
import {
  findGitPlaces,
  HOOK_NAMES,
  type NamedGitPath,
  parseGitSettings,
} from '../../policy/apply-git-settings.ts';
import { fault } from '../../wire/errors.ts';
import type { BoxfsClient } from './adapters/boxfs-client.ts';
import type { ChangeText } from './adapters/boxfs-texts.ts';
import { PLACES } from './layer-places.ts';

type Boxfs = Pick<BoxfsClient, 'readMany'>;
type Texts = ReadonlyMap<string, ChangeText | null>;

const ROOTS = { before: PLACES.lower, after: PLACES.lower };
/** Enough for most settings; longer files are read again. */
const FIRST_BYTES_MAX = 4_096;
const SETTINGS_BYTES_MAX = 524_288;
const LINKS_MAX = 40;
const INCLUDED_MAX = 200;

const join = (dir: string, name: string): string => (dir === '' ? name : `${dir}/${name}`);
const parentOf = (path: string): string => path.slice(0, Math.max(path.lastIndexOf('/'), 0));

/** The path and the directories above it, from the top. */
const prefixesOf = (path: string): string[] =>
  path.split('/').map((_, at, names) => names.slice(0, at + 1).join('/'));

async function readTexts(boxfs: Boxfs, paths: readonly string[], bytesMax: number): Promise<Texts> {
  const texts = await boxfs.readMany(ROOTS, { paths: [...new Set(paths)], bytesMax });
  return new Map(texts.map(({ path, before }) => [path, before]));
}

/** Undefined: it leads out of the tree. */
function followOnce(path: string, link: string, target: string): string | undefined {
  if (target.startsWith('/')) return undefined;
  const names = join(parentOf(link), target).split('/');
  const found: string[] = [];
  for (const name of [...names, ...path.slice(link.length).split('/')]) {
    if (name === '' || name === '.') continue;
    if (name !== '..') found.push(name);
    else if (found.pop() === undefined) return undefined;
  }
  return found.join('/');
}

/** Adds where links of the person lead: a hook that is a link is often a file of the tree. */
async function followLinks(boxfs: Boxfs, places: readonly NamedGitPath[]): Promise<NamedGitPath[]> {
  const all = [...places];
  for (let [pending, round] = [all.slice(), 0]; pending.length > 0 && round < LINKS_MAX; round++) {
    const paths = pending.flatMap(({ path }) => (path === '' ? [] : prefixesOf(path)));
    const texts = await readTexts(boxfs, paths, FIRST_BYTES_MAX);
    pending = pending.flatMap((place) => {
      const link = prefixesOf(place.path).find((path) => texts.get(path)?.type === 'link');
      if (link === undefined) return [];
      const path = followOnce(place.path, link, texts.get(link)!.bytes.toString());
      return path === undefined ? [] : [{ ...place, path }];
    });
    all.push(...pending);
  }
  return all;
}

/** Reads files of settings, with what they include, and follows a link in place of one. */
async function readSettings(
  boxfs: Boxfs,
  tops: ReadonlyMap<string, string>,
  hostPath: string,
): Promise<NamedGitPath[]> {
  const places: NamedGitPath[] = [];
  const known = new Map(tops);
  for (let pending = [...known]; pending.length > 0; ) {
    const paths = pending.map(([path]) => path);
    const short = await readTexts(boxfs, paths, FIRST_BYTES_MAX);
    const cut = paths.filter((path) => short.get(path)?.isCut === true);
    const long = await readTexts(boxfs, cut, SETTINGS_BYTES_MAX);
    const next = new Map<string, string>();
    for (const [path, top] of pending) {
      const text = long.get(path) ?? short.get(path);
      if (text?.isCut === true)
        throw fault('too_large', `${path} has more than ${SETTINGS_BYTES_MAX} bytes of settings`, {
          hint: 'What git would run is not known, so nothing is shown or applied: shorten it.',
        });
      if (text?.type !== 'file') continue;
      const settings = parseGitSettings(text.bytes.toString());
      const found = findGitPlaces(settings, parentOf(path), { hostPath, top });
      places.push(...found.places);
      const file = (included: string): NamedGitPath => ({
        path: included,
        kind: 'git_config',
        extent: 'file',
      });
      const followed = await followLinks(boxfs, found.included.map(file));
      for (const { path: included } of followed) if (!known.has(included)) next.set(included, top);
    }
    for (const [path, top] of next) known.set(path, top);
    if (known.size > tops.size + INCLUDED_MAX)
      throw fault('too_large', `git’s settings include more than ${INCLUDED_MAX} files`, {
        hint: 'What git would run is not known, so nothing is shown or applied.',
      });
    pending = [...next];
  }
  return places;
}

/** A submodule and a linked worktree have a file instead, which leads to the repository. */
function gitDirOf(top: string, dotGit: ChangeText | null | undefined): string | undefined {
  const path = join(top, '.git');
  if (dotGit === null || dotGit === undefined) return path;
  const target =
    dotGit.type === 'link'
      ? dotGit.bytes.toString()
      : /^gitdir:\s*(.+)$/mu.exec(dotGit.bytes.toString())?.[1];
  return target === undefined ? undefined : followOnce(path, path, target.trim());
}

/** Returns what git runs or reads by itself, in the repositories above these paths. */
export async function readGitPlaces(
  boxfs: Boxfs,
  changed: readonly string[],
  hostPath: string,
): Promise<NamedGitPath[]> {
  const tops = [...new Set(['', ...changed.flatMap((path) => prefixesOf(path).slice(0, -1))])];
  const dotGits = tops.map((top) => join(top, '.git'));
  const texts = await readTexts(boxfs, dotGits, FIRST_BYTES_MAX);
  const candidates = tops.flatMap((top) => {
    const dir = gitDirOf(top, texts.get(join(top, '.git')));
    return dir === undefined ? [] : [{ top, dir }];
  });
  const headOf = ({ dir }: { dir: string }): string => join(dir, 'HEAD');
  const heads = await readTexts(boxfs, candidates.map(headOf), FIRST_BYTES_MAX);
  const repositories = candidates.filter((repository) => heads.get(headOf(repository)) !== null);
  const configs: NamedGitPath[] = repositories.flatMap(({ dir }) =>
    ['config', 'config.worktree'].map((name) => ({
      path: join(dir, name),
      kind: 'git_config',
      extent: 'file',
    })),
  );
  const topOf = new Map(repositories.map(({ top, dir }) => [dir, top]));
  const files = new Map<string, string>();
  for (const config of configs)
    for (const { path } of await followLinks(boxfs, [config]))
      files.set(path, topOf.get(parentOf(config.path))!);
  const own: NamedGitPath[] = repositories.map(({ dir }) => ({
    path: join(dir, 'hooks'),
    kind: 'git_hooks',
    extent: 'below',
  }));
  const named = [...configs, ...own, ...(await readSettings(boxfs, files, hostPath))];
  const places = await followLinks(boxfs, named);
  const hooks = places
    .filter(({ extent }) => extent === 'below')
    .flatMap(({ path }) => HOOK_NAMES.map((name) => join(path, name)))
    .map((path): NamedGitPath => ({ path, kind: 'git_hooks', extent: 'file' }));
  return [...places, ...(await followLinks(boxfs, hooks))];
}
