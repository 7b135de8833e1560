// Grants where the warden is no more than this user: files in STATE/grants, which it reads through
// a link in its own directory. The format is native/warden/grants.c's.
import { createHash } from 'node:crypto';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fault } from '../../../wire/errors.ts';
import { runAsOwner } from '../make-state-dir.ts';

/** A person's permission for agents to work in one directory, as it was when they gave it. */
export type WorkspaceGrant = {
  path: string;
  device: string;
  inode: string;
  owner: number;
  /** `read`: boxes may have it read-only, as for the program of a person. */
  access: 'work' | 'read';
};

const FORMAT = /^(\/[^\n]+)\n(\d+) (\d+) (\d+)( read)?\n$/;
const GRANTS_MAX = 1_000;

const nameFor = (path: string): string =>
  createHash('sha256').update(path).digest('hex').slice(0, 16);

/** Returns false when the same grant was there already. */
export function writeGrant(stateDir: string, path: string, onlyRead = false): boolean {
  const { dev, ino, uid } = lstatSync(path, { bigint: true });
  const full = `${path}\n${dev} ${ino} ${uid}\n`;
  const text = onlyRead ? full.replace(/\n$/, ' read\n') : full;
  return runAsOwner(stateDir, (here) => {
    const dir = join(here, 'grants');
    if (!existsSync(dir)) mkdirSync(dir, { mode: 0o700 });
    const file = join(dir, nameFor(path));
    // Whoever may work in it may read it.
    if (existsSync(file) && [text, full].includes(readFileSync(file, 'utf8'))) return false;
    if (readdirSync(dir).length >= GRANTS_MAX)
      throw fault('limit', `there are ${GRANTS_MAX} grants already`, {
        hint: 'Revoke some: agentctl workspace list',
      });
    // The warden skips names that start with a dot.
    const temp = join(dir, `.${nameFor(path)}.${process.pid}`);
    writeFileSync(temp, text, { mode: 0o600 });
    renameSync(temp, file);
    return true;
  });
}

/** Returns false when there was none. */
export function removeGrant(stateDir: string, path: string): boolean {
  return runAsOwner(stateDir, (here) => {
    const file = join(here, 'grants', nameFor(path));
    if (!existsSync(file)) return false;
    rmSync(file);
    return true;
  });
}

export function readGrants(stateDir: string): WorkspaceGrant[] {
  return runAsOwner(stateDir, (here) => {
    const dir = join(here, 'grants');
    if (!existsSync(dir)) return [];
    const names = readdirSync(dir).filter((name) => !name.startsWith('.'));
    return names.flatMap((name) => parseGrant(readFileSync(join(dir, name), 'utf8')) ?? []);
  });
}

export function parseGrant(text: string): WorkspaceGrant | undefined {
  const [, path, device, inode, owner, read] = FORMAT.exec(text) ?? [];
  if (path === undefined) return undefined;
  const access = read === undefined ? 'work' : 'read';
  return { path, device: device!, inode: inode!, owner: Number(owner), access };
}
