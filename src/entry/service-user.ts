// Who the daemons are when agentd is started as root: an account of this host, or a uid that is no
// account's. Never root.
import { daemonsOf, type HostUser } from '../daemons/sandboxd/identities.ts';
import { type Account, accountsIn, readPasswd } from '../platform/accounts.ts';
import { fault } from '../wire/errors.ts';
import type { RuntimeConfig } from './options.ts';

const USUAL_NAME = 'agentd';

export type ServiceUser = HostUser & { name: string };

export function serviceUser(config: RuntimeConfig, passwd = readPasswd()): ServiceUser {
  const known = accountsIn(passwd);
  const wanted = config.runtime.user;
  const found = known.find(({ name }) => name === (wanted ?? USUAL_NAME));
  const own = daemonsOf(config.sandboxd);
  if (found === undefined) {
    if (wanted === undefined) return { ...own, name: nameOf(known, own) };
    throw fault('bad_config', `runtime.user is ${wanted}, and there is no such account`, {
      hint: `useradd --system --no-create-home --shell /usr/sbin/nologin ${wanted}`,
    });
  }
  const { uid, gid, name } = found;
  const { uid_first, uid_last } = config.sandboxd;
  const isAgents = (id: number) => id >= uid_first && id <= uid_last && id !== own.uid;
  if (uid === 0 || gid === 0 || isAgents(uid))
    throw fault(
      'bad_config',
      `the daemons cannot run as ${name} (uid ${uid}, gid ${gid}): neither as root nor as an agent`,
      { hint: 'Set runtime.user in agentd.yaml to an account of its own.' },
    );
  return { uid, gid, name };
}

const nameOf = (known: readonly Account[], { uid }: HostUser): string =>
  known.find((account) => account.uid === uid)?.name ?? `uid ${uid}`;
