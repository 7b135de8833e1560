// agentctl person list, add and remove: personal keys, which distinguish a second approver from the
// first. The keys are files in STATE/people; commands wait until the daemons have reloaded them.
import { fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import { sleep } from '../follow.ts';
import { runAsOwner } from '../make-state-dir.ts';
import { renderTable } from '../show/table.ts';
import { assertReadable } from '../state.ts';

const RELOAD_DELAY_MS = 600;
const ROLES = ['reader', 'approver', 'operator'] as const;
type Role = (typeof ROLES)[number];
const NAME = /^[A-Za-z0-9][A-Za-z0-9@._-]{0,63}$/;

function keyFileFor(stateDir: string, name: string): string {
  if (!NAME.test(name))
    throw fault('bad_usage', 'a person name may contain only letters, digits and @ . _ -', {
      hint: 'For example: agentctl person add alice',
    });
  return `${stateDir}/people/${name}.key`;
}

export async function list({ out, stateDir }: Session): Promise<void> {
  const fs = process.getBuiltinModule('node:fs');
  assertReadable(stateDir);
  const dir = `${stateDir}/people`;
  const files = fs.existsSync(dir) ? fs.readdirSync(dir).sort() : [];
  const people = files
    .filter((file) => file.endsWith('.key'))
    .map((file) => ({
      name: file.slice(0, -4),
      role: readRole(`${dir}/${file}`),
      key_file: `${dir}/${file}`,
    }));
  out.print({ people }, () => {
    if (people.length === 0) return ['No personal keys: agentctl person add NAME'];
    const rows = people.map(({ name, role, key_file }) => [name, role ?? '–', key_file]);
    return renderTable([{ title: 'NAME' }, { title: 'ROLE' }, { title: 'KEY' }], rows, out);
  });
}

/** Returns null for a file that is no key: nobody can use it. */
function readRole(file: string): Role | null {
  const [, line, ...more] = process
    .getBuiltinModule('node:fs')
    .readFileSync(file, 'utf8')
    .trim()
    .split('\n');
  if (line === undefined) return 'operator';
  const role = ROLES.find((known) => line.trim() === `role: ${known}`);
  return more.length === 0 && role !== undefined ? role : null;
}

export async function add({ args, out, stateDir }: Session): Promise<void> {
  const fs = process.getBuiltinModule('node:fs');
  const name = args.positionals[0]!;
  const role = readRoleOption(args.text('role'));
  const file = keyFileFor(stateDir, name);
  const key = process.getBuiltinModule('node:crypto').randomBytes(32).toString('base64url');
  assertStateExists(stateDir);
  try {
    runAsOwner(stateDir, (here) => {
      if (!fs.existsSync(`${here}/people`)) fs.mkdirSync(`${here}/people`, { mode: 0o700 });
      const line = role === 'operator' ? '' : `role: ${role}\n`;
      writeNew(keyFileFor(here, name), `${key}\n${line}`);
    });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause;
    throw fault('conflict', `${name} already has a key`, {
      hint: `Revoke it first: agentctl person remove ${name}`,
      cause,
    });
  }
  await sleep(RELOAD_DELAY_MS);
  out.print({ person: { name, role, key_file: file } }, () => [
    `Created a key for ${name}, ${role}: the first line of ${file}`,
    `Use it here with --as ${name}; elsewhere as a bearer token on the runtime's port.`,
  ]);
}

function readRoleOption(text: string | undefined): Role {
  const role = ROLES.find((known) => known === (text ?? 'operator'));
  if (role !== undefined) return role;
  throw fault('bad_usage', `--role ${text} is not a role`, {
    hint: 'Choose reader, approver or operator; each may also do what the ones before it may.',
  });
}

function assertStateExists(stateDir: string): void {
  assertReadable(stateDir);
  if (process.getBuiltinModule('node:fs').existsSync(stateDir)) return;
  throw fault('not_found', `state directory ${stateDir} not found`, {
    hint: 'Run agentctl up to create it, or name another with --state.',
  });
}

/** Removes the file on failure: an empty key file would block the name. */
function writeNew(file: string, text: string): void {
  const fs = process.getBuiltinModule('node:fs');
  const fd = fs.openSync(file, 'wx', 0o600);
  try {
    fs.writeSync(fd, text);
  } catch (error) {
    fs.rmSync(file);
    throw error;
  } finally {
    fs.closeSync(fd);
  }
}

export async function remove({ args, out, stateDir }: Session): Promise<void> {
  const fs = process.getBuiltinModule('node:fs');
  const name = args.positionals[0]!;
  const file = keyFileFor(stateDir, name);
  assertReadable(stateDir);
  if (!fs.existsSync(file))
    throw fault('not_found', `${name} has no key`, {
      hint: 'List the keys: agentctl person list',
    });
  runAsOwner(stateDir, (here) => fs.rmSync(keyFileFor(here, name)));
  await sleep(RELOAD_DELAY_MS);
  out.print({ person: { name, key_file: null } }, () => [`Revoked the key of ${name}.`]);
}
