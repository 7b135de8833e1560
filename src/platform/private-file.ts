// Reads secrets that operators put into files: keys and passwords. A file that others could read is
// refused.
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type Fault, fault } from '../wire/errors.ts';

export type SecretRef = { file?: string | undefined; credential?: string | undefined };

/** The file of a secret, and whether it must be this user's: the service manager's need not. */
type SecretFile = { file: string; owned: 'owner' | 'any' };

/** Undefined if neither a file nor a credential is named. */
export function findSecretFile(
  { file, credential }: SecretRef,
  { name, credentialsDir }: { name: string; credentialsDir: string | undefined },
): SecretFile | undefined {
  if (file !== undefined) return { file, owned: 'owner' };
  if (credential === undefined) return undefined;
  if (credentialsDir === undefined)
    throw fault('bad_config', `${name} uses a credential, but no credentials were passed`, {
      hint: 'Start it with LoadCredential=, or name a file.',
    });
  return { file: join(credentialsDir, credential), owned: 'any' };
}

/** One line. */
export function readPrivateFile(file: string, owned: SecretFile['owned']): string {
  const key = readPrivateText(file, owned);
  if (key === '' || /[\r\n]/.test(key))
    throw fault('bad_config', `the key file ${file} does not hold one line with a key`, {
      hint: 'Write only the key into it.',
    });
  return key;
}

/** Throws when others could read the file. */
export function readPrivateText(file: string, owned: SecretFile['owned']): string {
  let stat: ReturnType<typeof statSync>;
  try {
    stat = statSync(file);
  } catch (cause) {
    throw unreadableFault(file, cause);
  }
  if ((stat.mode & 0o077) !== 0) {
    const mode = (stat.mode & 0o777).toString(8);
    throw fault('bad_config', `the key file ${file} has mode ${mode}, which lets others read it`, {
      hint: `chmod 600 ${file}`,
    });
  }
  if (owned === 'owner' && stat.uid !== process.getuid?.())
    throw fault('bad_config', `the key file ${file} belongs to another user`, {
      hint: 'Run chown so that it belongs to the user that runs the daemons.',
    });
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (cause) {
    throw unreadableFault(file, cause);
  }
}

function unreadableFault(file: string, cause: unknown): Fault {
  const code = (cause as NodeJS.ErrnoException).code ?? 'no reason given';
  return fault('bad_config', `the key file ${file} cannot be read (${code})`, {
    cause,
    hint: 'Write the key there, readable only by the user of the daemons, or set another file.',
  });
}
