// Reads the accounts of this host from its passwd file.
import { readFileSync } from 'node:fs';

export type Account = { name: string; uid: number; gid: number; home: string };

export const readPasswd = (): string => readFileSync('/etc/passwd', 'utf8');

/** Skips malformed lines. */
export function parseAccounts(passwd: string): Account[] {
  return passwd.split('\n').flatMap((line) => {
    const [name = '', , uid = '', gid = '', , home = ''] = line.split(':');
    const isWhole = name !== '' && /^\d+$/.test(uid) && /^\d+$/.test(gid);
    return isWhole ? [{ name, uid: Number(uid), gid: Number(gid), home }] : [];
  });
}
