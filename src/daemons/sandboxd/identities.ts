// Maps agents to Linux users: an own uid each where the warden is root, else this user. A name
// keeps its uid for ever.
import { parseAccounts, readPasswd } from '../../platform/accounts.ts';
import { Fault, fault } from '../../wire/errors.ts';
import type { LinuxUsers } from './adapters/linux-users.ts';
import type { SandboxdConfig } from './config.ts';
import type { SandboxdStore } from './store.ts';
import type { Range } from './workspace-rows.ts';

export type IdentityMode = 'users' | 'dynamic' | 'single';
export type Identity = { uid: number; gid: number; user: string };
export type Identities = {
  mode: IdentityMode;
  /** The user for probing this host: no agent's. */
  nobody: HostUser;
  identityFor(agent: string): Promise<Identity>;
  /** Returns a fault for each agent that has no usable account. */
  refused(): Fault[];
};

export type HostUser = { uid: number; gid: number };
/** The daemons' user, and if the warden beside them is root. */
export type HostIdentity = HostUser & { wardenIsRoot: boolean };

/** The last two ids of the range are no agent's: one for probing, one for the daemons. */
export const toProbeUser = ({ uid_last: id }: SandboxdConfig): HostUser => ({ uid: id, gid: id });
export const toDaemonUser = ({ uid_last: id }: SandboxdConfig): HostUser => ({
  uid: id - 1,
  gid: id - 1,
});

/** Resolves `auto`; throws `bad_config` when the mode is not possible here. */
export function identityMode(
  { identity }: Pick<SandboxdConfig, 'identity'>,
  host: Pick<HostIdentity, 'uid' | 'wardenIsRoot'>,
): IdentityMode {
  if (identity === 'auto') return host.wardenIsRoot ? 'dynamic' : 'single';
  if (identity === 'single' && host.wardenIsRoot)
    throw fault(
      'bad_config',
      'sandboxd.identity is single, but this is root: no box is ever root',
      {
        hint: 'Set sandboxd.identity to dynamic, or start as an ordinary user.',
      },
    );
  if (identity !== 'single' && !host.wardenIsRoot)
    throw fault('bad_config', `sandboxd.identity ${identity} needs root; this is uid ${host.uid}`, {
      hint: 'Set sandboxd.identity to auto or single.',
    });
  return identity;
}

/** Returns the uids that agents can get; the last two of the range belong to others. */
export function agentUids(config: Pick<SandboxdConfig, 'uid_first' | 'uid_last'>): Range {
  return { first: config.uid_first, last: config.uid_last - 2 };
}

export function makeIdentities(options: {
  config: SandboxdConfig;
  store: Pick<SandboxdStore, 'assignUid'>;
  host: HostIdentity;
  /** The account that each agent's manifest names; undefined: agent-NAME. */
  linuxUsers?: () => LinuxUsers;
  /** The text of the host's passwd. */
  passwd?: () => string;
}): Identities {
  const { config, store, host, linuxUsers = () => new Map() } = options;
  const passwd = options.passwd ?? readPasswd;
  const mode = identityMode(config, host);
  const known = new Map<string, Promise<Identity>>();
  const range = agentUids(config);

  const findAgentAccount = (agent: string): Identity => {
    const user = linuxUsers().get(agent) ?? `agent-${agent}`;
    return { ...findAccount(passwd(), user, range), user };
  };
  const find = async (agent: string): Promise<Identity> => {
    const user = `agent-${agent}`;
    if (mode === 'single') return { uid: host.uid, gid: host.gid, user };
    if (mode === 'users') return findAgentAccount(agent);
    const uid = await store.assignUid(agent, range);
    return { uid, gid: uid, user };
  };
  return {
    mode,
    nobody: mode === 'single' ? { uid: host.uid, gid: host.gid } : toProbeUser(config),
    async identityFor(agent) {
      // Looked up each time: manifests and accounts change.
      if (mode === 'users') return findAgentAccount(agent);
      const found = known.get(agent) ?? find(agent);
      known.set(agent, found);
      found.catch(() => known.delete(agent));
      return found;
    },
    refused() {
      if (mode !== 'users') return [];
      return [...linuxUsers().keys()].flatMap((agent) => {
        try {
          findAgentAccount(agent);
          return [];
        } catch (error) {
          if (error instanceof Fault) return [error];
          throw error;
        }
      });
    },
  };
}

function findAccount(passwd: string, user: string, range: Range): HostUser {
  const accounts = parseAccounts(passwd);
  const found = accounts.find(({ name }) => name === user);
  if (found === undefined) {
    const used = new Set(accounts.flatMap(({ uid, gid }) => [uid, gid]));
    let id = range.first;
    while (used.has(id)) id++;
    throw fault('sandbox_refused', `account ${user} not found on this host`, {
      hint: `groupadd -g ${id} ${user} && useradd -u ${id} -g ${id} -M -s /bin/false ${user}`,
    });
  }
  const { uid, gid } = found;
  if (uid === 0 || gid === 0)
    throw fault(
      'sandbox_refused',
      `${user} is root (uid ${uid}, gid ${gid}), which no agent may be`,
      {
        hint: 'Name another account in spec.linuxUser of the manifest.',
      },
    );
  const isInRange = (id: number) => id >= range.first && id <= range.last;
  if (isInRange(uid) && isInRange(gid)) return { uid, gid };
  throw fault(
    'sandbox_refused',
    `${user} has uid ${uid} and gid ${gid}, not both from ${range.first} to ${range.last}`,
    { hint: 'Set sandboxd.uid_first and uid_last to the range of your agents.' },
  );
}
