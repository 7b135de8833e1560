// Verifies signatures of mail with a program that is not ours: dkimpy, of Debian.
import { spawn } from 'node:child_process';

const PROGRAM = `
import sys, dkim
record = sys.argv[1].encode()
mail = sys.stdin.buffer.read()
try:
    print('pass' if dkim.verify(mail, dnsfunc=lambda name, timeout=5: record) else 'fail')
except dkim.DKIMException as error:
    print('error', error)
`;

/** `publicKey` is DER in base64, as DNS would have it. */
export async function verifyDkim(
  mail: string,
  publicKey: string,
  type: 'rsa' | 'ed25519' = 'rsa',
): Promise<{ passed: boolean; output: string }> {
  const record = `v=DKIM1; k=${type}; p=${publicKey}`;
  const child = spawn('/usr/bin/python3', ['-c', PROGRAM, record]);
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      output += chunk.toString('utf8');
    });
  child.stdin.on('error', () => {});
  child.stdin.end(mail);
  await new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  if (!/^(pass|fail|error)/.test(output)) throw new Error(`dkimpy did not run: ${output}`);
  return { passed: output.startsWith('pass'), output };
}
