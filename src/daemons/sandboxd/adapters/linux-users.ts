// Reads the Linux accounts that manifests name from agentd's policy bundle. Used only when agents
// are accounts of the host; an unreadable bundle then makes every identity unavailable.
import { statSync } from 'node:fs';
import { readBundle } from '../../../policy/bundle-file.ts';
import { fault } from '../../../wire/errors.ts';

/** Maps each declared agent to the account that its manifest names, if any. */
export type LinuxUsers = ReadonlyMap<string, string | undefined>;

export function makeLinuxUsers(bundleFile: string): () => LinuxUsers {
  let readVersion = '';
  let users: LinuxUsers = new Map();
  return () => {
    try {
      const { mtimeNs, ino, size } = statSync(bundleFile, { bigint: true });
      const version = `${mtimeNs} ${ino} ${size}`;
      if (version !== readVersion) users = readUsers(bundleFile);
      readVersion = version;
    } catch (cause) {
      throw fault('unavailable', 'the policy bundle with the accounts of agents cannot be read', {
        cause,
      });
    }
    return users;
  };
}

function readUsers(file: string): LinuxUsers {
  const found = readBundle(file);
  if (!found.ok) throw new Error(`${file}: ${found.problem}`);
  return new Map(
    Object.entries(found.bundle.agents).map(([name, { linux_user: user }]) => [name, user]),
  );
}
