// The kinds of changes that would run or escape later, when a person uses the directory to which a
// layer is applied. An apply refuses them by name unless the person allows the kind. Pure.
import {
  type ApplyEntry,
  type ApplyFileType,
  type ApplyLookup,
  findDotGitKind,
  isInBareRepository,
  leavesTree,
  listBareLookups,
  listLinkLookups,
} from './apply-git.ts';
import { findPlaceKinds, type NamedGitPath } from './apply-git-settings.ts';
import { listLinkGlobs, REFUSED_GLOBS, REVIEW_GLOBS } from './apply-globs.ts';
import { compileGlobs, foldPath, hasDeceptiveName } from './apply-names.ts';

export type ApplyKind = {
  name: string;
  title: string;
  /** One sentence: who would run or follow it. */
  reason: string;
  /**
   * `refused` unless the person allows it; `left_out` without a word, as it is made again or comes
   * over in another way, unless the person allows it; `never`: left out, and cannot be allowed.
   */
  handling: 'refused' | 'left_out' | 'never';
};

const kind = (
  name: string,
  title: string,
  reason: string,
  handling: ApplyKind['handling'] = 'refused',
): ApplyKind => ({ name, title, reason, handling });

const BUILT_IN: readonly ApplyKind[] = [
  kind('name', 'deceptive name', 'It is not UTF-8, hides what it is, or is `.git` in disguise.'),
  kind(
    'unreadable',
    'closed directory',
    'It cannot be read, so nobody can look at what is in it, and it is not applied.',
    'never',
  ),
  kind('git_config', 'git settings', 'Git runs programs that its settings name.'),
  kind('git_hooks', 'git hooks', 'Git runs them at a commit, a checkout or a push.'),
  kind('git_attributes', 'git attributes', 'They choose the filter, diff or merge program.'),
  kind('git_modules', 'git submodules', 'They are repositories with settings and hooks.'),
  kind(
    'git_files',
    'files of a repository',
    'Commits come over as checked objects and refs, never as files of .git.',
    'never',
  ),
  kind(
    'own_repository',
    'repository of the agents',
    'Git runs what its settings and hooks name; its commits come over once you have made one here.',
    'never',
  ),
  kind('git_refs', 'rewritten branches', 'Commits of the person would be on no branch any more.'),
  kind('nested_repository', 'new repository', 'Its settings and hooks run for whoever enters it.'),
  kind('gitlink', '.git file', 'It leads git to a repository elsewhere.'),
  kind(
    'bare_repository',
    'bare repository',
    'Git takes the directory, and its hooks, for its own.',
  ),
  kind('setuid', 'setuid or setgid file', 'Whoever runs it gets the rights of its owner.'),
  kind('capabilities', 'file with capabilities', 'Whoever runs it gets privileges.'),
  kind('device', 'device, pipe or socket', 'Opening it has effects, or blocks.'),
  kind('link_out', 'link out of the tree', 'Who writes through it writes elsewhere.'),
  ...REFUSED_GLOBS.map(({ name, title, reason }) => kind(name, title, reason)),
  kind('package_scripts', 'install scripts', 'A package manager runs them when it installs.'),
  kind(
    'bytecode',
    'compiled Python',
    'Python runs it instead of the source that was reviewed, and makes it again.',
    'left_out',
  ),
];

export const APPLY_KINDS: ReadonlyMap<string, ApplyKind> = new Map(
  BUILT_IN.map((row) => [row.name, row]),
);

export type ApplySide = { type: ApplyFileType; mode: number; link_target: string | null };
/** One change, as it would be applied. */
export type ApplyChange = {
  path: string;
  before: ApplySide | null;
  after: ApplySide | null;
  has_capabilities: boolean;
  /** A directory in which nothing could be listed. */
  is_closed?: boolean;
};

/** Null: there is no such file on that side. A text that was cut is not known. */
export type ApplyTexts = { before: string | null; after: string | null };
/** A kind that the site adds: its files are refused unless a person allows it. */
export type SiteApplyKind = { kind: string; globs: readonly string[] };

export type ApplyContext = {
  /** The tree after the apply. */
  lookup: ApplyLookup;
  /** Asked only for changes that `needsText` names; undefined, not known, counts against them. */
  texts(path: string): ApplyTexts | undefined;
  /** Paths in the tree that the person's own settings of git name. */
  gitPlaces?: readonly NamedGitPath[];
  site?: readonly SiteApplyKind[];
  /** Agents have made the repository at the top: nothing of it is applied. */
  hasOwnRepository?: boolean;
};

const compileKinds = (rows: readonly { name: string; globs: readonly string[] }[]) =>
  rows.map(({ name, globs }) => ({ name, glob: compileGlobs(globs) }));
const REFUSED = compileKinds([
  ...REFUSED_GLOBS,
  { name: 'git_modules', globs: ['.gitmodules'] },
  {
    name: 'git_config',
    globs: ['.gitconfig', '.lfsconfig', '**/.config/git', '**/.config/git/**'],
  },
  // npm builds it at an install without any script; pnpm reads the others as it does package.json.
  { name: 'package_scripts', globs: ['binding.gyp', 'package.json5', 'package.yaml'] },
  { name: 'bytecode', globs: ['*.pyc', '*.pyo', '**/__pycache__', '**/__pycache__/**'] },
]);
const REFUSED_LINKS = compileKinds(
  REFUSED_GLOBS.map(({ name, globs }) => ({ name, globs: listLinkGlobs(globs) })).filter(
    ({ globs }) => globs.length > 0,
  ),
);
const REVIEW = compileKinds(REVIEW_GLOBS);

const compiledSites = new WeakMap<readonly SiteApplyKind[], ReturnType<typeof compileKinds>>();
function compileSite(site: readonly SiteApplyKind[] = []): ReturnType<typeof compileKinds> {
  const known = compiledSites.get(site);
  const compiled = known ?? compileKinds(site.map(({ kind, globs }) => ({ name: kind, globs })));
  if (known === undefined) compiledSites.set(site, compiled);
  return compiled;
}

const SETUID_OR_SETGID = 0o6000;

const nameOf = (folded: string): string => folded.slice(folded.lastIndexOf('/') + 1);
/** A package in there runs its scripts only when it is installed, which fetches it again. */
const isDependency = (folded: string): boolean => `/${folded}`.includes('/node_modules/');
const isPackage = (folded: string): boolean =>
  nameOf(folded) === 'package.json' && !isDependency(folded);
const isAttributes = (folded: string): boolean => nameOf(folded) === '.gitattributes';

/** True if the kinds of a change depend on what is in the file. */
export function needsText({ path, after }: ApplyChange): boolean {
  const folded = foldPath(path);
  return after?.type === 'file' && (isPackage(folded) || isAttributes(folded));
}

/** Looks in the changes first, which are of the tree after the apply, then in what was found. */
export function makeApplyLookup(
  changes: readonly ApplyChange[],
  found: ReadonlyMap<string, ApplyEntry | null>,
): ApplyLookup {
  const changed = new Map(changes.map(({ path, after }) => [path, after]));
  return (path) => (changed.has(path) ? changed.get(path)! : found.get(path));
}

/** Paths of which the caller has to know what is there after the apply. */
export function listLookups({ path, after }: ApplyChange): string[] {
  if (after === null) return [];
  const links = after.type === 'link' ? listLinkLookups(path, after.link_target ?? '/') : [];
  return [...listBareLookups(path), ...links];
}

const INSTALL_SCRIPTS = [
  'preinstall',
  'install',
  'postinstall',
  'prepublish',
  'preprepare',
  'prepare',
  'postprepare',
  'prepack',
  'dependencies',
  'pnpm:devPreinstall',
];
/** Tools that installed a git hook run what these name at the next commit. */
const HOOK_SETTINGS = ['husky', 'lint-staged', 'simple-git-hooks', 'gitHooks', 'pre-commit'];

/** Undefined: it is no package that a package manager could read. */
function readScripts(text: string | null): string | undefined {
  try {
    const read = JSON.parse(text ?? '{}') as Record<string, unknown>;
    const scripts = (read.scripts === undefined ? {} : read.scripts) as Record<string, unknown>;
    const own = INSTALL_SCRIPTS.map((name) => scripts[name] ?? null);
    return JSON.stringify([...own, ...HOOK_SETTINGS.map((name) => read[name] ?? null)]);
  } catch {
    return undefined;
  }
}

function changesScripts(texts: ApplyTexts | undefined): boolean {
  const after = texts === undefined ? undefined : readScripts(texts.after);
  return after === undefined || after !== (readScripts(texts!.before) ?? readScripts(null));
}

/** Git's own, which run no program. */
const OWN_DRIVERS = new Set(
  [
    'ada bash bibtex cpp csharp css dts elixir fortran fountain golang html java kotlin markdown',
    'matlab objc pascal perl php python ruby rust scheme tex text binary union',
  ].flatMap((line) => line.split(' ')),
);

function listDrivers(text: string | null): Set<string> {
  const lines = (text ?? '').split('\n').filter((line) => !line.trimStart().startsWith('#'));
  const found = lines.join('\n').matchAll(/(?<=\s)(filter|diff|merge)=(\S+)/gu);
  const named = [...found].filter(([, type, name]) => type === 'filter' || !OWN_DRIVERS.has(name!));
  return new Set(named.map(([whole]) => whole));
}

function namesDriver(texts: ApplyTexts | undefined): boolean {
  if (texts === undefined) return true;
  return !listDrivers(texts.after).isSubsetOf(listDrivers(texts.before));
}

function* findKinds(change: ApplyChange, context: ApplyContext): Generator<string> {
  const { path, before, after } = change;
  const folded = foldPath(path);
  if (hasDeceptiveName(path)) yield 'name';
  if (change.is_closed === true) yield 'unreadable';
  const git = findDotGitKind(path, { type: after?.type ?? null, isNew: before === null });
  if (git !== undefined) yield git;
  // A deleted special file could not be brought back.
  if (after?.type === 'other' || before?.type === 'other') yield 'device';
  if (after === null) return;
  if (isInBareRepository(path, context.lookup)) yield 'bare_repository';
  if (after.type === 'file' && (after.mode & SETUID_OR_SETGID) !== 0) yield 'setuid';
  if (change.has_capabilities) yield 'capabilities';
  if (after.type === 'link' && leavesTree(path, after.link_target ?? '/', context.lookup))
    yield 'link_out';
  yield* findPlaceKinds(path, after.type, context.gitPlaces ?? []);
  for (const { name, glob } of REFUSED) if (glob.test(folded)) yield name;
  // A link in place of a directory: the files that it leads to have other paths.
  if (after.type === 'link')
    for (const { name, glob } of REFUSED_LINKS) if (glob.test(folded)) yield name;
  if (after.type === 'link' && (isPackage(folded) || isAttributes(folded)))
    yield isPackage(folded) ? 'package_scripts' : 'git_attributes';
  if (after.type === 'file' && isPackage(folded) && changesScripts(context.texts(path)))
    yield 'package_scripts';
  if (after.type === 'file' && isAttributes(folded) && namesDriver(context.texts(path)))
    yield 'git_attributes';
  for (const { name, glob } of compileSite(context.site)) if (glob.test(folded)) yield name;
}

/** The kinds of a change that are not applied unless the person allows each; none: it applies. */
export function findRefusedKinds(change: ApplyChange, context: ApplyContext): string[] {
  if (context.hasOwnRepository === true && /^\.git(\/|$)/u.test(change.path))
    return ['own_repository'];
  return [...new Set(findKinds(change, context))];
}

/** Kinds that apply, but that a person should look at. */
export function findReviewKinds({ path, after }: ApplyChange): string[] {
  const folded = foldPath(path);
  if (after === null) return [];
  return REVIEW.filter(({ glob }) => glob.test(folded)).map(({ name }) => name);
}
