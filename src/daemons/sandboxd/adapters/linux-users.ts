// The accounts that manifests name, from the policy bundle that agentd publishes. Read only where
// agents are accounts of the host; a bundle that cannot be read means nobody can be anybody.
import { statSync } from 'node:fs';
import { readBundle } from '../../../policy/bundle-file.ts';
import { fault } from '../../../wire/errors.ts';

/** Each declared agent with the account that its manifest names, if it names one. */
export type LinuxUsers = ReadonlyMap<string, string | undefined>;

export function linuxUsersIn(bundleFile: string): () => LinuxUsers {
  let seen = '';
  let users: LinuxUsers = new Map();
  return () => {
    try {
      const { mtimeNs, ino, size } = statSync(bundleFile, { bigint: true });
      const now = `${mtimeNs} ${ino} ${size}`;
      if (now !== seen) users = read(bundleFile);
      seen = now;
    } catch (cause) {
      throw fault('unavailable', 'the rules that say who agents are cannot be read', { cause });
    }
    return users;
  };
}

function read(file: string): LinuxUsers {
  const found = readBundle(file);
  if (!found.ok) throw new Error(`${file}: ${found.problem}`);
  return new Map(
    Object.entries(found.bundle.agents).map(([name, { linux_user: user }]) => [name, user]),
  );
}
