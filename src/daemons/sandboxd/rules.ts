// Turns rules into the mounts of a box, as a pure function. A denied path takes precedence; a path
// that no rule names is not in the box at all.
import { isWithin } from '../../policy/paths.ts';
import { fault } from '../../wire/errors.ts';
import { PROGRAMS_DIR } from '../../wire/sandboxd/programs.ts';
import type { BoxRules } from '../../wire/sandboxd.ts';
import type { Bind } from './adapters/plan.ts';

export const WORKSPACE = '/workspace';

export type Places = {
  /** Programs and their dependencies, read-only, the same in every box. */
  system: readonly Bind[];
  /** The host directory mounted as /workspace. */
  workspace: string;
  /** The host directory mounted as `homeAt`. */
  home: string;
  homeAt: string;
  /** Host paths that are masked in every box, whatever is declared above them. */
  secrets: readonly string[];
  /** Returns other names of a host path, which are denied with it. */
  aliases?: (path: string) => readonly string[];
  /** The layer that is mounted as /workspace; then `workspace` is the directory below it. */
  layer?: string;
  /** The workspace is used by one program only, and nowhere on the host: git is free there. */
  isGitFree?: boolean;
};

/** Files in a workspace that would run code or redirect git when git is used there on the host. */
export const PROTECTED: readonly { path: string; kind: 'protectFile' | 'protectDir' }[] = [
  { path: `${WORKSPACE}/.git/config`, kind: 'protectFile' },
  { path: `${WORKSPACE}/.git/hooks`, kind: 'protectDir' },
  { path: `${WORKSPACE}/.git/info/attributes`, kind: 'protectFile' },
  // Both can point git on the host to the agent's own settings, and so to its programs.
  { path: `${WORKSPACE}/.git/commondir`, kind: 'protectFile' },
  { path: `${WORKSPACE}/.git/config.worktree`, kind: 'protectFile' },
];

/** Every box has its own; the host's are never mounted. */
const BOX_OWN = ['/proc', '/dev', '/sys', '/tmp', '/run', '/agentd'];

/** True for a normalized path: no `..`, no `.`, no double or trailing slash. */
export function isPlainPath(path: string): boolean {
  return path === '/' || /^(\/(?!\.{1,2}(\/|$))[^/\0]+)+$/.test(path);
}

/** Returns the mapped directory (workspace or home) that contains a path of the box. */
function findMapping(path: string, places: Places): { at: string; host: string } | undefined {
  if (isWithin(path, WORKSPACE)) return { at: WORKSPACE, host: places.workspace };
  if (isWithin(path, places.homeAt)) return { at: places.homeAt, host: places.home };
  return undefined;
}

/** Maps a path of the box to its host path. */
function toHostPath(path: string, places: Places): string {
  const place = findMapping(path, places);
  return place === undefined ? path : place.host + path.slice(place.at.length);
}

/**
 * Returns the mounts of a box, and the declared paths that do not exist on this host. Deeper paths
 * come later, so that they are mounted on top.
 */
export function boxBinds(
  rules: BoxRules,
  places: Places,
  exists: (hostPath: string) => boolean,
): { binds: Bind[]; missing: string[] } {
  const denied = rules.deny.filter(isPlainPath);
  // Fail closed: a denial that cannot be parsed could not be enforced.
  const invalid = rules.deny.find((path) => !isPlainPath(path));
  if (invalid !== undefined) return { binds: [], missing: [...rules.read, ...rules.write] };
  const isDenied = (path: string) =>
    denied.some((root) => isWithin(path, root)) ||
    places.secrets.some((root) => isWithin(path, root));
  const named = [...denied.map((path) => toHostPath(path, places)), ...places.secrets];
  const sources = [...named, ...named.flatMap((path) => places.aliases?.(path) ?? [])];
  /** Denied by its host path. A workspace or a home may itself lie in a secret directory. */
  const isDeniedSource = (path: string): boolean => {
    const [src, place] = [toHostPath(path, places), findMapping(path, places)];
    return sources.some(
      (root) => isWithin(src, root) && (place === undefined || isWithin(root, place.host)),
    );
  };
  const missing: string[] = [];
  const declared: Bind[] = [];
  const declare = (kind: 'ro' | 'rw', path: string): void => {
    if (path === '/' || !isPlainPath(path) || isDenied(path) || isDeniedSource(path)) return;
    if (BOX_OWN.some((own) => isWithin(path, own))) return;
    const src = toHostPath(path, places);
    // Only through the layer may a box change the directory below it.
    const isBelowLayer = places.layer !== undefined && isWithin(src, places.workspace);
    if (isBelowLayer && path !== WORKSPACE && kind === 'rw') missing.push(path);
    // The workspace may be a directory that the daemons cannot see.
    else if (src === places.workspace || exists(src)) declared.push({ kind, src, dst: path });
    else missing.push(path);
  };
  for (const path of new Set(rules.read)) if (!rules.write.includes(path)) declare('ro', path);
  for (const path of new Set(rules.write)) declare('rw', path);
  declared.sort((a, b) => a.dst.length - b.dst.length || (a.dst < b.dst ? -1 : 1));

  const system = places.system.filter(({ dst }) => !isDenied(dst));
  // A path that every box has is mounted again only to make it writable.
  const shown = declared.filter(
    ({ kind, dst }) => kind === 'rw' || !system.some((bind) => isWithin(dst, bind.dst)),
  );
  const binds = [...system, ...shown];
  const covering = (path: string) =>
    binds.findLast((bind) => bind.kind !== 'symlink' && isWithin(path, bind.dst));
  /** Returns the names of a host path in the box. */
  const listBoxNames = (hostPath: string): string[] =>
    binds.flatMap((bind) => {
      if (bind.src === undefined || bind.kind === 'symlink' || !isWithin(hostPath, bind.src))
        return [];
      const name = bind.dst + hostPath.slice(bind.src.length);
      return covering(name) === bind ? [name] : [];
    });
  const bypasses =
    places.layer === undefined
      ? []
      : listBoxNames(places.workspace).filter(
          (name) => name !== WORKSPACE && covering(name)?.kind === 'rw',
        );
  const closed = [...denied, ...places.secrets, ...bypasses];
  const seals: Bind[] = [];
  for (const path of new Set([...closed, ...sources.flatMap(listBoxNames)]))
    if (covering(path) !== undefined) seals.push({ kind: 'mask', dst: path });
  const masks = [...seals];
  const isClosed = (path: string) => masks.some(({ dst }) => isWithin(path, dst));
  // Nothing that an agent writes to a layer runs on the host before a person has applied it.
  const isGitFree = places.layer !== undefined || places.isGitFree === true;
  for (const { path, kind } of isGitFree ? [] : PROTECTED) {
    if (covering(path)?.kind !== 'rw') continue;
    // Also where the agent may write to the same directory under its host path.
    for (const name of listBoxNames(toHostPath(path, places)))
      if (covering(name)?.kind === 'rw' && !isClosed(name)) seals.push({ kind, dst: name });
  }
  return { binds: [...binds.map((bind) => toLayerBind(bind, places)), ...seals], missing };
}

/**
 * A person's own program, wherever it is installed, at a place of its own. What is denied, or kept
 * secret, is neither shown nor contained.
 */
export function programBinds(
  paths: readonly string[],
  { deny }: Pick<BoxRules, 'deny'>,
  secrets: readonly string[],
): Bind[] {
  return paths.map((path) => {
    const closed = [...deny, ...secrets].find(
      (root) => isWithin(path, root) || isWithin(root, path),
    );
    if (closed !== undefined || path === '/' || !isPlainPath(path))
      throw fault(
        'denied',
        `no box may have ${path}${closed === undefined ? '' : `: ${closed} is closed`}`,
        {
          hint: 'Install the program in a directory of its own.',
        },
      );
    return { kind: 'ro', src: path, dst: `${PROGRAMS_DIR}${path}` };
  });
}

/** True if a box on a layer can have these rules: the layer is mounted as a whole. */
export function fitsLayer({ read, write }: BoxRules): boolean {
  return [...read, ...write].every((path) => path === WORKSPACE || !isWithin(path, WORKSPACE));
}

function toLayerBind(bind: Bind, { layer }: Places): Bind {
  if (layer === undefined || bind.dst !== WORKSPACE) return bind;
  return { kind: 'layer', src: layer, dst: WORKSPACE, readonly: bind.kind === 'ro' };
}

/** A person's directory appears in the box as the agent's; what it makes there is the person's. */
export const toOwned = (bind: Bind, dir: string): Bind =>
  (bind.kind === 'ro' || bind.kind === 'rw') && bind.src !== undefined && isWithin(bind.src, dir)
    ? { ...bind, owned: true }
    : bind;

/**
 * As boxBinds, for level 1, which uses the host's own tree and cannot hide or protect paths. Paths
 * that would need that are returned as `needLevel2`.
 */
export function hostBinds(
  rules: BoxRules,
  places: Places,
  exists: (hostPath: string) => boolean,
): { binds: Bind[]; missing: string[]; needLevel2: string[] } {
  const { binds, missing } = boxBinds(rules, places, exists);
  const isShown = ({ kind }: Bind) => kind === 'ro' || kind === 'rw';
  return {
    binds: binds.filter(isShown).map(({ kind, src }) => ({ kind, src: src!, dst: src! })),
    missing,
    needLevel2: binds
      .filter((bind) => !isShown(bind) && bind.kind !== 'symlink')
      .map(({ dst }) => dst),
  };
}
