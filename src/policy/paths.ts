// Paths as policy sees them: absolute, canonical, compared by whole components. Pure: where links
// lead is the kernel's to find out, which resolves the same path below the same roots.

const PATH_BYTES_MAX = 4_096;

export type PathResult = { ok: true; path: string } | { ok: false; problem: string };

const refuse = (problem: string): PathResult => ({ ok: false, problem });

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const CONTROL = /[\u0000-\u001f\u007f]/;

/** Why a path cannot be asked about; undefined when it is canonical. Never repairs anything. */
function problemOf(path: string): string | undefined {
  if (path.includes('\0')) return 'it contains a NUL byte';
  // A replacement character is what a lossy decoder leaves of bytes that are not UTF-8.
  if (!path.isWellFormed() || path.includes('\ufffd')) return 'it is not valid UTF-8';
  if (CONTROL.test(path)) return 'it contains a control character';
  if (!path.startsWith('/')) return 'it is not absolute';
  if (Buffer.byteLength(path) >= PATH_BYTES_MAX) return `it is longer than ${PATH_BYTES_MAX} bytes`;
  if (path === '/') return undefined;
  if (path.endsWith('/')) return 'it ends with a slash';
  const parts = path.slice(1).split('/');
  if (parts.includes('')) return 'it contains two slashes in a row';
  if (parts.includes('..')) return 'it goes up with ..';
  if (parts.includes('.')) return 'it contains the component .';
  if (parts.some((part) => Buffer.byteLength(part) > 255)) return 'a name in it is too long';
  return undefined;
}

/**
 * The canonical path, or why there is none. Letters are kept as they are: names that differ in case
 * or in Unicode form are different files.
 */
export function canonicalPath(path: string): PathResult {
  const problem = problemOf(path);
  return problem === undefined ? { ok: true, path } : refuse(problem);
}

/**
 * A path as a tool's caller writes it: relative ones begin at `base`, and a leading ./ or one slash
 * at the end mean nothing. Everything else must be canonical already.
 */
export function resolvePath(base: string, written: string): PathResult {
  if (written === '' || written === '.' || written === './') return canonicalPath(base);
  const trimmed = written.length > 1 && written.endsWith('/') ? written.slice(0, -1) : written;
  if (trimmed.startsWith('/')) return canonicalPath(trimmed);
  const relative = trimmed.startsWith('./') ? trimmed.slice(2) : trimmed;
  return canonicalPath(base === '/' ? `/${relative}` : `${base}/${relative}`);
}

/** Whether `path` is `root` or lies below it. /srv/app2 does not lie below /srv/app. */
export function isWithin(path: string, root: string): boolean {
  return path === root || root === '/' || path.startsWith(`${root}/`);
}

/** Every directory above a canonical path, nearest first, with /. */
export function pathsAbove(path: string): string[] {
  if (path === '/') return [];
  const above: string[] = [];
  for (let at = path.lastIndexOf('/'); at > 0; at = path.lastIndexOf('/', at - 1))
    above.push(path.slice(0, at));
  above.push('/');
  return above;
}
