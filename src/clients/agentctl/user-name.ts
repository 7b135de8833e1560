// Formats a uid for people: the account's name, else the number.
import { parseAccounts, readPasswd } from '../../platform/accounts.ts';

export function formatUser(uid: number): string {
  return findName(uid) ?? `uid ${uid}`;
}

export function formatUserAndUid(uid: number): string {
  const name = findName(uid);
  return name === undefined ? `uid ${uid}` : `${name} (uid ${uid})`;
}

function findName(uid: number): string | undefined {
  try {
    // Directory-service accounts are not in /etc/passwd; only this user's own is looked up.
    const own = process.getBuiltinModule('node:os').userInfo();
    if (own.uid === uid) return own.username;
  } catch {
    // This user has no account.
  }
  try {
    return parseAccounts(readPasswd()).find((account) => account.uid === uid)?.name;
  } catch {
    return undefined;
  }
}
