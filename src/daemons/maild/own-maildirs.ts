// Finds the Maildirs that belong to people themselves. Started as root, the keeper has mounted each
// with its owner mapped, where only root can put anything; otherwise they are of this user.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { parseAccounts, readPasswd } from '../../platform/accounts.ts';
import type { Log } from '../../platform/log.ts';
import { mountedMailboxes, toMaildir } from '../../platform/mailboxes.ts';
import { fault } from '../../wire/errors.ts';
import type { MaildConfig } from './config.ts';

export function findOwnMaildirs(options: {
  config: Pick<MaildConfig, 'maildirs'>;
  runtimeDir: string;
  log: Log;
}): ReadonlyMap<string, string> {
  const { config, runtimeDir, log } = options;
  const found = new Map<string, string>();
  const mounted = mountedMailboxes(runtimeDir);
  for (const [name, { user, dir }] of Object.entries(config.maildirs)) {
    if (existsSync(mounted)) {
      const path = join(mounted, name);
      if (existsSync(path)) found.set(name, path);
      else log.warn('a mailbox could not be mounted; its mail stays in the state', { name, user });
      continue;
    }
    const account = parseAccounts(readPasswd()).find((one) => one.name === user);
    if (account === undefined || account.uid !== process.getuid?.())
      throw fault('bad_config', `maild.maildirs.${name}: mail cannot be given to user ${user}`, {
        hint: 'Only a runtime that root started can deliver into directories of other users.',
      });
    found.set(name, toMaildir(account, dir));
  }
  return found;
}
