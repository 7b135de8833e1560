// Chooses the user of the daemons when agentd is started as root: an account of this host, or a uid
// without an account. Never root.
import { type HostUser, toDaemonUser } from '../daemons/sandboxd/identities.ts';
import { type Account, parseAccounts, readPasswd } from '../platform/accounts.ts';
import { fault } from '../wire/errors.ts';
import type { RuntimeConfig } from './options.ts';

const DEFAULT_NAME = 'agentd';

export type ServiceUser = HostUser & { name: string };

export function chooseServiceUser(config: RuntimeConfig, passwd = readPasswd()): ServiceUser {
  const known = parseAccounts(passwd);
  const wanted = config.runtime.user;
  const found = known.find(({ name }) => name === (wanted ?? DEFAULT_NAME));
  const own = toDaemonUser(config.sandboxd);
  if (found === undefined) {
    if (wanted === undefined) return { ...own, name: findName(known, own) };
    throw fault('bad_config', `account ${wanted} of runtime.user not found`, {
      hint: `useradd --system --no-create-home --shell /usr/sbin/nologin ${wanted}`,
    });
  }
  const { uid, gid, name } = found;
  const { uid_first, uid_last } = config.sandboxd;
  const isAgentUid = (id: number) => id >= uid_first && id <= uid_last && id !== own.uid;
  if (uid === 0 || gid === 0 || isAgentUid(uid))
    throw fault(
      'bad_config',
      `the daemons cannot run as ${name} (uid ${uid}, gid ${gid}): it is root's or an agent's`,
      { hint: 'Set runtime.user in agentd.yaml to a separate account.' },
    );
  return { uid, gid, name };
}

const findName = (known: readonly Account[], { uid }: HostUser): string =>
  known.find((account) => account.uid === uid)?.name ?? `uid ${uid}`;
