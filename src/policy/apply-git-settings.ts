// Finds what the settings of a person's repository name in its own tree: directories of hooks,
// files with more settings, programs. Git runs or reads these, whatever they are called. Pure: the
// caller reads the settings, of the directory as it is and never as an agent has left it.
import { foldPath } from './apply-names.ts';

/** `below`: the path and all that is in it; `file`: that file, or a link in its place. */
export type NamedGitPath = {
  path: string;
  kind: 'git_hooks' | 'git_config';
  extent: 'below' | 'file';
};

/** Git runs these by name, whether they are files or links. */
export const HOOK_NAMES: readonly string[] = [
  'applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg',
  'commit-msg post-commit pre-rebase post-checkout post-merge pre-push pre-receive update',
  'proc-receive post-receive post-update reference-transaction push-to-checkout pre-auto-gc',
  'post-rewrite sendemail-validate fsmonitor-watchman post-index-change',
].flatMap((line) => line.split(' '));

type GitSetting = { key: string; value: string };

const HEADER = /\[[ \t]*([\w.-]+)(?:[ \t]+"((?:[^"\\\n]|\\.)*)")?[ \t]*\]/y;
const NAME = /([A-Za-z][\w-]*)[ \t]*(=?)/y;
const ESCAPED: Readonly<Record<string, string>> = { n: '\n', t: '\t', b: '\b' };

function readAt(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

/** Reads to the end of the line, which a backslash continues. */
function readValue(text: string, from: number): { value: string; end: number } {
  let [value, isQuoted, at] = ['', false, from];
  for (; at < text.length && text[at] !== '\n'; at++) {
    const char = text[at]!;
    if (char === '"') isQuoted = !isQuoted;
    else if (char === '\\') {
      const next = text[++at] ?? '';
      value += next === '\n' ? '' : (ESCAPED[next] ?? next);
    } else if (!isQuoted && (char === ';' || char === '#')) {
      while (at + 1 < text.length && text[at + 1] !== '\n') at++;
    } else value += char;
  }
  return { value: value.trim(), end: at };
}

/** Reads a file of settings; git would stop at a line that is none, this goes on behind it. */
export function parseGitSettings(file: string): GitSetting[] {
  const text = file.replace(/^\ufeff/u, '').replaceAll('\r\n', '\n');
  const found: GitSetting[] = [];
  let section = '';
  for (let at = 0; at < text.length; ) {
    const header = readAt(HEADER, text, at);
    const name = header === null ? readAt(NAME, text, at) : null;
    if (header !== null) {
      const [whole, title, sub] = header;
      section = title!.toLowerCase() + (sub === undefined ? '' : `.${sub}`);
      at += whole.length;
    } else if (name !== null) {
      const [whole, word, equals] = name;
      const { value, end } = readValue(text, at + whole.length);
      const key = `${section}.${word!.toLowerCase()}`;
      found.push({ key, value: equals === '' ? 'true' : value });
      at = end;
    } else if (text[at] === '#' || text[at] === ';') at = readValue(text, at).end;
    else at++;
  }
  return found;
}

/** Where the tree is on the host, and the repository in it. */
export type GitTop = { hostPath: string; top: string };

/** Resolves an absolute path, or one that is relative to the directories before it. */
function resolve(...parts: string[]): string {
  const found: string[] = [];
  for (const part of parts) {
    if (part.startsWith('/')) found.length = 0;
    for (const name of part.split('/'))
      if (name === '..') found.pop();
      else if (name !== '' && name !== '.') found.push(name);
  }
  return `/${found.join('/')}`;
}

/** Returns the path in the tree, or none if it is elsewhere. */
function listInTree(value: string, from: string, { hostPath }: GitTop): string[] {
  const inside = (path: string): string[] => {
    if (path === hostPath) return [''];
    return path.startsWith(`${hostPath}/`) ? [path.slice(hostPath.length + 1)] : [];
  };
  if (!value.startsWith('~')) return inside(resolve(hostPath, from, value));
  // Where a person's home is, is not known here: each directory above the tree may be it.
  const rest = value.replace(/^~[^/]*\/*/u, '');
  const names = hostPath.split('/');
  const homes = names.map((_, count) => names.slice(0, count + 1).join('/') || '/');
  return homes.flatMap((home) => inside(resolve(home, rest)));
}

/** No program and no file with settings, although it may look like a path. */
const INERT = new RegExp(
  `^(?:${[
    'user\\..*|author\\..*|committer\\..*|branch\\..*|color\\..*|advice\\..*|blame\\..*',
    'mailmap\\..*|commit\\.template|remote\\..*\\.fetch|core\\.excludesfile|init\\.defaultbranch',
  ].join('|')})$`,
  'u',
);

/** Every part of a command that may be a path: a program, or a script that it is given. */
function listWords(value: string): string[] {
  // The top of the tree may be printed, or be a variable, in front of the path.
  const plain = value.replace(/(?:\$\([^()]*\)|`[^`]*`|\$\{?\w+\}?)\/+/gu, '');
  const quoted = [...plain.matchAll(/'([^']*)'|"([^"]*)"/gu)].map(([, a, b]) => (a ?? b)!);
  const words = plain.split(/[\s'"`;|&()<>=!]+/u);
  return [...new Set([plain.replace(/^!/u, '').trim(), ...quoted, ...words])].filter(
    (word) => word !== '' && word.length < 4_096,
  );
}

/** Husky has `_` for git, and the person's hooks beside it. */
const withHusky = (path: string): string[] =>
  path.endsWith('/_') ? [path, path.slice(0, -'/_'.length)] : [path];

const HOOKS_BELOW = new Set(['core.hookspath', 'init.templatedir']);
const INCLUDE = /^include(?:if\..*)?\.path$/su;

/** `from`: the directory of the file with the settings, to which its includes are relative. */
export function findGitPlaces(
  settings: readonly GitSetting[],
  from: string,
  top: GitTop,
): { places: NamedGitPath[]; included: string[] } {
  const included: string[] = [];
  const places = settings.flatMap(({ key, value }): NamedGitPath[] => {
    if (HOOKS_BELOW.has(key))
      return listInTree(value, top.top, top)
        .flatMap(withHusky)
        .map((path) => ({ path, kind: 'git_hooks', extent: 'below' }));
    const isIncluded = INCLUDE.test(key);
    if (!isIncluded && INERT.test(key)) return [];
    const paths = isIncluded
      ? listInTree(value, from, top)
      : listWords(value).flatMap((word) => listInTree(word, top.top, top));
    if (isIncluded) included.push(...paths);
    return paths
      .filter((path) => path !== '')
      .map((path) => ({ path, kind: 'git_config', extent: 'file' }));
  });
  return { places, included };
}

/** The kinds of a path because of what settings name; `type`: what is there after the apply. */
export function findPlaceKinds(
  path: string,
  type: 'file' | 'directory' | 'link' | 'other',
  places: readonly NamedGitPath[],
): NamedGitPath['kind'][] {
  const folded = foldPath(path);
  const found = places.filter((place) => {
    const named = foldPath(place.path);
    if (folded === named) return place.extent === 'below' || type !== 'directory';
    // A link in place of a directory above it: what it leads to would be run instead.
    if (named.startsWith(`${folded}/`)) return type === 'link';
    return place.extent === 'below' && (named === '' || folded.startsWith(`${named}/`));
  });
  return [...new Set(found.map(({ kind }) => kind))];
}
