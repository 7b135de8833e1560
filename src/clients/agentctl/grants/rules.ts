// Which directories a person may let agents work in: one of their own, that is not a home, the
// system's or agentd's. Where the warden is root, the keeper decides (native/keeper/grant-rules.c,
// with the same lists); these rules then only give the better error.
import { lstatSync, readFileSync, readlinkSync, realpathSync, type Stats } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { quoteWord } from '../../../platform/quote-word.ts';
import { fault } from '../../../wire/errors.ts';
import { formatUser } from '../user-name.ts';

/** Nothing in these. */
const SYSTEM_TREES: readonly string[] = (
  '/bin /boot /dev /etc /lib /lib32 /lib64 /libx32 /lost+found /nix /proc /run /sbin /snap /sys ' +
  '/usr /var/backups /var/cache /var/lib /var/lock /var/log /var/mail /var/run /var/spool'
).split(' ');
/** Not these themselves: each has what belongs to several people or programs. */
const SHARED_DIRS: readonly string[] = '/home /media /mnt /opt /root /srv /tmp /var /var/tmp'.split(
  ' ',
);
const ROOTS_HINT = 'An operator can allow it: sandboxd.workspace_roots in agentd.yaml.';
const PROJECT_HINT = 'Name one directory in it, such as that of a project.';

export type GrantLimits = {
  /** The state and runtime directories, without links. */
  own: readonly string[];
  /** Whose directories may be named; undefined: everybody's. */
  owner: number | undefined;
  passwd?: string;
};

/**
 * Returns the directory without links above it. Throws when it is none, or itself a link: what it
 * leads to may change.
 */
export function resolveGranted(dir: string): string {
  const path = resolve(dir);
  const stat = statOrFault(path);
  if (stat.isSymbolicLink())
    throw fault('denied', `${path} is a link to ${readlinkSync(path)}`, {
      hint: 'Name the directory itself.',
    });
  if (!stat.isDirectory())
    throw fault('bad_usage', `${path} is not a directory`, { hint: 'Name a directory.' });
  return realpathSync(path);
}

function statOrFault(path: string): Stats {
  try {
    return lstatSync(path);
  } catch (cause) {
    const { code = 'error' } = cause as NodeJS.ErrnoException;
    throw fault('bad_usage', `${path} ${code === 'ENOENT' ? 'not found' : `(${code})`}`, {
      hint: 'Name an existing directory of your own.',
      cause,
    });
  }
}

/** Throws `denied`, with the reason and what to do instead. */
export function assertGrantable(path: string, limits: GrantLimits): void {
  const refuse = (why: string, hint: string): never => {
    throw fault('denied', `agents may not be let into ${path}: ${why}`, { hint });
  };
  // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what is rejected
  if (/[\x00-\x1f\x7f]/.test(path)) refuse('its name has control characters', 'Rename it.');
  for (const own of limits.own) {
    if (isWithin(path, own)) refuse(`${own} is agentd’s own`, 'Name another directory.');
    if (isWithin(own, path)) refuse(`it contains ${own}, which is agentd’s own`, PROJECT_HINT);
  }
  const tree = SYSTEM_TREES.find((system) => isWithin(path, system));
  if (tree !== undefined) refuse(`${tree} is the system’s`, ROOTS_HINT);
  const homes = listHomes(limits.passwd ?? readPasswdText());
  if (homes.includes(path) || dirname(path) === '/home')
    refuse('it is a home directory', PROJECT_HINT);
  const inside = [...SYSTEM_TREES, ...homes].find((other) => isWithin(other, path));
  if (inside !== undefined) refuse(`it contains ${inside}`, PROJECT_HINT);
  if (SHARED_DIRS.includes(path)) refuse('it is not one person’s', PROJECT_HINT);
  const { uid } = statOrFault(path);
  if (limits.owner !== undefined && uid !== limits.owner)
    refuse(
      `it belongs to ${formatUser(uid)}, not to ${formatUser(limits.owner)}`,
      `Ask its owner to run: agentctl workspace grant ${quoteWord(path)}`,
    );
}

const isWithin = (path: string, root: string): boolean =>
  path === root || root === '/' || path.startsWith(`${root}/`);

const readPasswdText = (): string => readFileSync('/etc/passwd', 'utf8');

/** Accounts without a home of their own have one that is the system's, or does not exist. */
function listHomes(passwd: string): string[] {
  const named = passwd.split('\n').map((line) => line.split(':')[5] ?? '');
  const homes = [...named, process.env.HOME ?? ''].filter((home) => /^\/./.test(home));
  return [...new Set(homes.map((home) => home.replace(/\/+$/, '')))].filter((home) => home !== '');
}
