// Where people's own mailboxes are: in their homes, and, for daemons that root started, mounted
// beside the runtime's directory (native/keeper/mailboxes.c).
import { join } from 'node:path';
import type { Account } from './accounts.ts';

export const mountedMailboxes = (runtimeDir: string): string =>
  join(`${runtimeDir}.warden`, 'mail');

export const toMaildir = ({ home }: Pick<Account, 'home'>, dir: string | undefined): string =>
  dir ?? join(home, 'Maildir');
