// Compares the names of changed files as the least careful file system would: without case,
// ignorable characters, trailing dots and spaces, or NTFS streams. Also matches globs. Pure.

// HFS+ ignores these characters in a name; git refuses `.git` with any of them, too.
const IGNORABLE = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/gu;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/u;
// Marks of direction, and characters without a width. A joiner (U+200D) is part of many emoji.
const HIDDEN = /[\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2060-\u2065\u3164\ufeff\uffa0]/u;

/** Folds one component of a path; `GIT~1`, its short name on NTFS, is `.git`. */
function foldName(name: string): string {
  const plain = name
    .replace(IGNORABLE, '')
    .normalize('NFKC')
    .toLowerCase()
    .replace(/:.*$/u, '')
    .replace(/[. ]+$/u, '');
  return plain === 'git~1' ? '.git' : plain;
}

/** Folds a path; a backslash separates as on Windows, where git refuses `a\.git`. */
export function foldPath(path: string): string {
  return path
    .split(/[/\\]/u)
    .map((name) => foldName(name) || name)
    .join('/');
}

/** Not UTF-8, with characters that hide what a name is, or `.git` in disguise. */
export function hasDeceptiveName(path: string): boolean {
  if (!path.isWellFormed() || path.includes('\ufffd')) return true;
  if (CONTROL.test(path) || HIDDEN.test(path)) return true;
  const isGit = (name: string): boolean => name === '.git';
  const plain = path.split('/').filter(isGit).length;
  return foldPath(path).split('/').filter(isGit).length !== plain;
}

/**
 * Translates a glob for folded paths: `*` and `?` stay in one name, `**` crosses names, and a glob
 * without a slash matches a name at any depth.
 */
function translateGlob(glob: string): string {
  const anchored = glob.includes('/') ? glob.replace(/^\//u, '') : `**/${glob}`;
  const parts = anchored.toLowerCase().split(/(\*\*\/|\*\*|\*|\?)/u);
  const source = parts.map((part) => {
    if (part === '**/') return '(?:[^]*/)?';
    if (part === '**') return '[^]*';
    if (part === '*') return '[^/]*';
    return part === '?' ? '[^/]' : RegExp.escape(part);
  });
  return source.join('');
}

export const compileGlobs = (globs: readonly string[]): RegExp =>
  new RegExp(`^(?:${globs.map(translateGlob).join('|')})$`, 'u');
