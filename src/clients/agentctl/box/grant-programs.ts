// Lets boxes read the directories of a person's own program, which is not the system's.
import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import { quoteWord } from '../../../platform/quote-word.ts';
import type { Session } from '../command.ts';
import { replaceControls } from '../show/plain.ts';

/** Below these an operator allows reading, unless the configuration says otherwise. */
const READABLE = ['/opt/', '/srv/'];

export async function grantPrograms(session: Session, shown: readonly string[]): Promise<void> {
  const dirs = shown
    .filter((path) => !READABLE.some((root) => path.startsWith(root)))
    .map((path) => (statSync(path).isDirectory() ? path : dirname(path)));
  if (dirs.length === 0) return;
  const { openGrants } = await import('../grants/grants.ts');
  const grants = openGrants(session);
  for (const dir of new Set(dirs)) {
    const { path, isNew } = await grants.grantRead(dir);
    if (isNew)
      session.out.info(
        `Boxes may now read ${replaceControls(path)}; end that with: agentctl workspace revoke ${quoteWord(path)}`,
      );
  }
}
