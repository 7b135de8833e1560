// Who a uid is, for people: the name of its account, else its number.
import { accountsIn, readPasswd } from '../../platform/accounts.ts';

export function userName(uid: number): string {
  return nameIn(uid) ?? `uid ${uid}`;
}

/** The same with the number in any case. */
export function userAndUid(uid: number): string {
  const name = nameIn(uid);
  return name === undefined ? `uid ${uid}` : `${name} (uid ${uid})`;
}

function nameIn(uid: number): string | undefined {
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
