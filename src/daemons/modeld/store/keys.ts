// Reads and writes providers' keys in files that only this user can read. A key never appears in a
// row, a log, an error or a response.
import { existsSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { makePrivateDir, writeAtomically } from '../../../platform/state-dir.ts';
import { type Fault, fault } from '../../../wire/errors.ts';

export type Keys = {
  read(provider: string): string | undefined;
  write(provider: string, key: string): void;
  remove(provider: string): void;
};

/** Keys set by operators, one file per provider. */
export function openKeys(stateDir: string): Keys {
  const dir = makePrivateDir(join(stateDir, 'keys'));
  const keyFile = (provider: string): string => join(dir, `${provider}.key`);
  return {
    read: (provider) =>
      existsSync(keyFile(provider)) ? readPrivateFile(keyFile(provider), 'owner') : undefined,
    write: (provider, key) => writeAtomically(keyFile(provider), `${key}\n`),
    remove: (provider) => rmSync(keyFile(provider), { force: true }),
  };
}

/** Throws when others could read the file. The service manager's files may belong to root. */
export function readPrivateFile(file: string, owned: 'owner' | 'any'): string {
  let stat: ReturnType<typeof statSync>;
  try {
    stat = statSync(file);
  } catch (cause) {
    throw unreadableFault(file, cause);
  }
  if ((stat.mode & 0o077) !== 0) {
    const mode = (stat.mode & 0o777).toString(8);
    throw fault('bad_config', `the key file ${file} has mode ${mode}, which lets others read it`, {
      hint: `chmod 600 ${file}`,
    });
  }
  if (owned === 'owner' && stat.uid !== process.getuid?.())
    throw fault('bad_config', `the key file ${file} belongs to another user`, {
      hint: `Run chown so that it belongs to the user that runs modeld.`,
    });
  const key = readText(file).trim();
  if (key === '' || /[\r\n]/.test(key))
    throw fault('bad_config', `the key file ${file} does not hold one line with a key`, {
      hint: 'Write only the key into it.',
    });
  return key;
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw unreadableFault(file, cause);
  }
}

function unreadableFault(file: string, cause: unknown): Fault {
  const code = (cause as NodeJS.ErrnoException).code ?? 'no reason given';
  return fault('bad_config', `the key file ${file} cannot be read (${code})`, {
    cause,
    hint: 'Write the key there, readable only by the user that runs modeld, or set another file.',
  });
}
