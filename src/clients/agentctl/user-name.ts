// Who a uid is, for people: the name of its account, else its number.
import { accountsIn, readPasswd } from '../../platform/accounts.ts';

export function formatUser(uid: number): string {
  return findName(uid) ?? `uid ${uid}`;
}

/** The same with the number in any case. */
export function formatUserAndUid(uid: number): string {
  const name = findName(uid);
  return name === undefined ? `uid ${uid}` : `${name} (uid ${uid})`;
}

function findName(uid: number): string | undefined {
  try {
    // Accounts of a directory service are not in the file; of these only one's own is asked for.
    const own = process.getBuiltinModule('node:os').userInfo();
    if (own.uid === uid) return own.username;
  } catch {
    // This user has no account.
  }
  try {
    return accountsIn(readPasswd()).find((account) => account.uid === uid)?.name;
  } catch {
    return undefined;
  }
}
