// Reads what maild needs to know for the smarthost and nobody else may: its password, and the key
// that signs mail. Read at the start, so that a mistake shows then.
import { createPrivateKey, type KeyObject } from 'node:crypto';
import {
  findSecretFile,
  readPrivateFile,
  readPrivateText,
} from '../../../platform/private-file.ts';
import { fault } from '../../../wire/errors.ts';
import type { DkimSigner } from './dkim.ts';
import type { SmarthostConfig } from './smarthost-config.ts';

const RSA_BITS_MIN = 2_048;

export type SmarthostSecrets = { password: string | undefined; signer: DkimSigner | undefined };

export function readSmarthostSecrets(
  { password_file, password_credential, dkim }: SmarthostConfig,
  credentialsDir: string | undefined,
): SmarthostSecrets {
  const named = { file: password_file, credential: password_credential };
  const found = findSecretFile(named, { name: 'maild.smarthost', credentialsDir });
  return {
    password: found && readPrivateFile(found.file, found.owned),
    signer: dkim && readSigner(dkim, credentialsDir),
  };
}

function readSigner(
  dkim: NonNullable<SmarthostConfig['dkim']>,
  credentialsDir: string | undefined,
): DkimSigner {
  const { domain, selector } = dkim;
  const named = { file: dkim.key_file, credential: dkim.key_credential };
  const { file, owned } = findSecretFile(named, {
    name: 'maild.smarthost.dkim',
    credentialsDir,
  })!;
  const key = parseKey(readPrivateText(file, owned), file);
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  const isStrong = type === 'rsa' && (details?.modulusLength ?? 0) >= RSA_BITS_MIN;
  if (!isStrong && type !== 'ed25519')
    throw fault('bad_config', `the DKIM key ${file} is not usable`, {
      hint: `Use RSA of ${RSA_BITS_MIN} bits or more, or Ed25519.`,
    });
  return { domain, selector, key, algorithm: type === 'rsa' ? 'rsa-sha256' : 'ed25519-sha256' };
}

function parseKey(pem: string, file: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch {
    // The cause might show parts of the key.
    throw fault('bad_config', `the DKIM key ${file} is no private key in PEM`, {
      hint: 'Make one with openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048.',
    });
  }
}
