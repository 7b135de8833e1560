// Lists the mailboxes that the keeper mounts for the daemons: directories of accounts that root
// named. What is in them the keeper looks at as their owner.
import { normalize } from 'node:path';
import { type Account, parseAccounts, readPasswd } from '../platform/accounts.ts';
import { toMaildir } from '../platform/mailboxes.ts';
import { isWithin } from '../policy/paths.ts';
import { fault } from '../wire/errors.ts';
import type { RuntimeConfig } from './options.ts';
import type { ServiceUser } from './service-user.ts';

/** Returns fields of the launch spec; throws for what root should not have named. */
export function mailboxFields(
  { maild, sandboxd }: Pick<RuntimeConfig, 'maild' | 'sandboxd'>,
  { user: daemons, stateDir }: { user: ServiceUser; stateDir: string },
  passwd = readPasswd(),
): string[] {
  const accounts = parseAccounts(passwd);
  return Object.entries(maild.maildirs).flatMap(([name, { user, dir }]) => {
    const refuse = (why: string, hint: string) =>
      fault('bad_config', `maild.maildirs.${name}: ${why}`, { hint });
    const account = accounts.find((one) => one.name === user);
    if (account === undefined)
      throw refuse(`account ${user} not found`, 'Name an account of this host.');
    const isAgents = (id: number) => id >= sandboxd.uid_first && id <= sandboxd.uid_last;
    if (account.uid === 0 || account.uid === daemons.uid || isAgents(account.uid))
      throw refuse(
        `${user} is root, an agent or the daemons' user`,
        'Leave its mail in the state directory, or name the account of a person.',
      );
    const path = toMaildir(account, dir);
    if (normalize(path) !== path || containsHome(path, accounts) || isWithin(path, stateDir))
      throw refuse(
        `${path} cannot be a mailbox`,
        'Name a directory for mail alone, such as ~/Maildir, by its absolute path.',
      );
    return ['mailbox', `${account.uid} ${account.gid} ${name} ${path}`];
  });
}

const containsHome = (path: string, accounts: readonly Account[]): boolean =>
  path === '/' || accounts.some(({ home }) => home !== '' && isWithin(normalize(home), path));
