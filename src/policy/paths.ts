// Validates and compares paths: absolute, canonical, by whole components. Pure: the kernel resolves
// links, for the same path below the same roots.

const PATH_BYTES_MAX = 4_096;

export type PathResult = { ok: true; path: string } | { ok: false; problem: string };

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const CONTROL = /[\u0000-\u001f\u007f]/;

/** Returns why a path is not canonical, or undefined. */
function findProblem(path: string): string | undefined {
  if (path.includes('\0')) return 'it contains a NUL byte';
  // A lossy decoder replaces invalid UTF-8 with this character.
  if (!path.isWellFormed() || path.includes('\ufffd')) return 'it is not valid UTF-8';
  if (CONTROL.test(path)) return 'it contains a control character';
  if (!path.startsWith('/')) return 'it is not absolute';
  if (Buffer.byteLength(path) >= PATH_BYTES_MAX) return `it is longer than ${PATH_BYTES_MAX} bytes`;
  if (path === '/') return undefined;
  if (path.endsWith('/')) return 'it ends with a slash';
  const parts = path.slice(1).split('/');
  if (parts.includes('')) return 'it contains two slashes in a row';
  if (parts.includes('..')) return 'it contains the component ..';
  if (parts.includes('.')) return 'it contains the component .';
  if (parts.some((part) => Buffer.byteLength(part) > 255)) return 'a name in it is too long';
  return undefined;
}

/**
 * Accepts only a canonical path; repairs nothing. Names that differ in case or Unicode
 * normalization are different files.
 */
export function canonicalPath(path: string): PathResult {
  const problem = findProblem(path);
  return problem === undefined ? { ok: true, path } : { ok: false, problem };
}

/**
 * Resolves a path from a tool's caller: relative paths start at `base`, and a leading ./ or one
 * trailing slash is ignored. Otherwise the path must be canonical.
 */
export function resolvePath(base: string, written: string): PathResult {
  if (written === '' || written === '.' || written === './') return canonicalPath(base);
  const trimmed = written.length > 1 && written.endsWith('/') ? written.slice(0, -1) : written;
  if (trimmed.startsWith('/')) return canonicalPath(trimmed);
  const relative = trimmed.startsWith('./') ? trimmed.slice(2) : trimmed;
  return canonicalPath(base === '/' ? `/${relative}` : `${base}/${relative}`);
}

/** Returns true when `path` is `root` or below it. /srv/app2 is not below /srv/app. */
export function isWithin(path: string, root: string): boolean {
  return path === root || root === '/' || path.startsWith(`${root}/`);
}

/** Returns every directory above a canonical path, nearest first, including /. */
export function pathsAbove(path: string): string[] {
  if (path === '/') return [];
  const above: string[] = [];
  for (let at = path.lastIndexOf('/'); at > 0; at = path.lastIndexOf('/', at - 1))
    above.push(path.slice(0, at));
  above.push('/');
  return above;
}
