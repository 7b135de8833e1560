// The accounts that manifests name, from the policy bundle that agentd publishes. Read only where
// agents are accounts of the host; a bundle that cannot be read means nobody can be anybody.
import { statSync } from 'node:fs';
import { readBundle } from '../../../policy/bundle-file.ts';
import { fault } from '../../../wire/errors.ts';

export function linuxUsersIn(bundleFile: string): (agent: string) => string | undefined {
  let seen = '';
  let users = new Map<string, string>();
  return (agent) => {
    try {
      const { mtimeNs, ino, size } = statSync(bundleFile, { bigint: true });
      const now = `${mtimeNs} ${ino} ${size}`;
      if (now !== seen) users = read(bundleFile);
      seen = now;
    } catch (cause) {
      throw fault('unavailable', 'the rules that say who agents are cannot be read', { cause });
    }
    return users.get(agent);
  };
}

function read(file: string): Map<string, string> {
  const found = readBundle(file);
  if (!found.ok) throw new Error(`${file}: ${found.problem}`);
  return new Map(
    Object.entries(found.bundle.agents).flatMap(
      ([name, { linux_user: user }]): [string, string][] =>
        user === undefined ? [] : [[name, user]],
    ),
  );
}
