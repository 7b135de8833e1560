// What policy allows, as what the kernel is told: a pure function from rules and places to the
// paths of a box. A denied path wins; what no rule names is not in the box at all.
import { isWithin } from '../../policy/paths.ts';
import type { BoxRules } from '../../wire/sandboxd.ts';
import type { Bind } from './adapters/plan.ts';

export const WORKSPACE = '/workspace';

export type Places = {
  /** Programs and what they need, read-only, the same in every box. */
  system: readonly Bind[];
  /** The host's directory that is seen as /workspace. */
  workspace: string;
  /** The host's directory that is seen as `homeAt`. */
  home: string;
  homeAt: string;
  /** Paths of the host that no box sees, whatever is declared above them. */
  secrets: readonly string[];
};

/** In every workspace: what would run, or point elsewhere, when someone else uses git there. */
export const PROTECTED: readonly { path: string; kind: 'protectFile' | 'protectDir' }[] = [
  { path: `${WORKSPACE}/.git/config`, kind: 'protectFile' },
  { path: `${WORKSPACE}/.git/hooks`, kind: 'protectDir' },
  { path: `${WORKSPACE}/.git/info/attributes`, kind: 'protectFile' },
  // Either leads git on the host to settings of the agent's own, and so to its programs.
  { path: `${WORKSPACE}/.git/commondir`, kind: 'protectFile' },
  { path: `${WORKSPACE}/.git/config.worktree`, kind: 'protectFile' },
];

/** Every box has these of its own; the host's are never shown. */
const OWN = ['/proc', '/dev', '/sys', '/tmp', '/run', '/agentd'];

/** No `..`, no `.`, no doubled or trailing slash: the words are the place. */
export function isPlainPath(path: string): boolean {
  return path === '/' || /^(\/(?!\.{1,2}(\/|$))[^/\0]+)+$/.test(path);
}

/** The host's directory that a path in the box lies in, when that has another name there. */
function placeOf(path: string, places: Places): { at: string; host: string } | undefined {
  if (isWithin(path, WORKSPACE)) return { at: WORKSPACE, host: places.workspace };
  if (isWithin(path, places.homeAt)) return { at: places.homeAt, host: places.home };
  return undefined;
}

/** The host's directory of a path in the box: the task's and the agent's own are elsewhere. */
function sourceOf(path: string, places: Places): string {
  const place = placeOf(path, places);
  return place === undefined ? path : place.host + path.slice(place.at.length);
}

/**
 * `exists` tells what is on this host: what is not cannot be shown, and is told as missing. Deeper
 * paths come later, so that they lie on top.
 */
export function boxBinds(
  rules: BoxRules,
  places: Places,
  exists: (hostPath: string) => boolean,
): { binds: Bind[]; missing: string[] } {
  const denied = rules.deny.filter(isPlainPath);
  // A denial that cannot be understood would be one that does not hold.
  const odd = rules.deny.find((path) => !isPlainPath(path));
  if (odd !== undefined) return { binds: [], missing: [...rules.read, ...rules.write] };
  const isDenied = (path: string) =>
    denied.some((root) => isWithin(path, root)) ||
    places.secrets.some((root) => isWithin(path, root));
  const sources = [...denied.map((path) => sourceOf(path, places)), ...places.secrets];
  /** Though it is not by its name in the box. A workspace or a home may itself lie among keys. */
  const isDeniedSource = (path: string): boolean => {
    const [src, place] = [sourceOf(path, places), placeOf(path, places)];
    return sources.some(
      (root) => isWithin(src, root) && (place === undefined || isWithin(root, place.host)),
    );
  };
  const missing: string[] = [];
  const declared: Bind[] = [];
  const declare = (kind: 'ro' | 'rw', path: string): void => {
    if (path === '/' || !isPlainPath(path) || isDenied(path) || isDeniedSource(path)) return;
    if (OWN.some((own) => isWithin(path, own))) return;
    const src = sourceOf(path, places);
    if (exists(src)) declared.push({ kind, src, dst: path });
    else missing.push(path);
  };
  for (const path of new Set(rules.read)) if (!rules.write.includes(path)) declare('ro', path);
  for (const path of new Set(rules.write)) declare('rw', path);
  declared.sort((a, b) => a.dst.length - b.dst.length || (a.dst < b.dst ? -1 : 1));

  const system = places.system.filter(({ dst }) => !isDenied(dst));
  // What the operator shows to all is not shown again, unless to write in it.
  const shown = declared.filter(
    ({ kind, dst }) => kind === 'rw' || !system.some((bind) => isWithin(dst, bind.dst)),
  );
  const binds = [...system, ...shown];
  const covering = (path: string) =>
    binds.findLast((bind) => bind.kind !== 'symlink' && isWithin(path, bind.dst));
  /** As the box shows it: a workspace or a home is not seen under its name on the host. */
  const namesOf = (hostPath: string): string[] =>
    binds.flatMap((bind) => {
      if (bind.src === undefined || bind.kind === 'symlink' || !isWithin(hostPath, bind.src))
        return [];
      const name = bind.dst + hostPath.slice(bind.src.length);
      return covering(name) === bind ? [name] : [];
    });
  const closed = [...denied, ...places.secrets];
  const seals: Bind[] = [];
  for (const path of new Set([...closed, ...sources.flatMap(namesOf)]))
    if (covering(path) !== undefined) seals.push({ kind: 'mask', dst: path });
  const masks = [...seals];
  const isClosed = (path: string) => masks.some(({ dst }) => isWithin(path, dst));
  for (const { path, kind } of PROTECTED) {
    if (covering(path)?.kind !== 'rw') continue;
    // Also where the agent may write to the same directory under its name on the host.
    for (const name of namesOf(sourceOf(path, places)))
      if (covering(name)?.kind === 'rw' && !isClosed(name)) seals.push({ kind, dst: name });
  }
  return { binds: [...binds, ...seals], missing };
}

/**
 * The same for level 1, which has the host's own tree: everything is where it is, and what would
 * have to be hidden or protected there cannot be. Those paths are told, for a refusal.
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
