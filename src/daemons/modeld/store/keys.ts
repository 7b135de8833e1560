// Reads and writes providers' keys in files that only this user can read. A key never appears in a
// row, a log, an error or a response.
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { readPrivateFile } from '../../../platform/private-file.ts';
import { makePrivateDir, writeAtomically } from '../../../platform/state-dir.ts';

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
